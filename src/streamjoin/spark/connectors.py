"""The sources and sinks of a job: DataFrames and writers, made from the job's tables."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from typing import Any

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark import __version__ as spark_version
from pyspark.errors import PySparkException
from pyspark.sql import functions as F

from .jobfile import FILES, GENERATORS, Job
from .session import KAFKA, check_connector

MICROSECONDS = {
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
}
"""Timestamps are written with microseconds; Spark's own default is milliseconds."""
KAFKA_SOURCE = {
    "kafka.request.timeout.ms": "15000",
    "kafka.default.api.timeout.ms": "15000",
    "kafkaConsumer.pollTimeoutMs": "30000",
}
KAFKA_SINK = {
    "kafka.request.timeout.ms": "15000",
    "kafka.max.block.ms": "15000",
    "kafka.delivery.timeout.ms": "30000",
}
"""The query fails if a broker is silent for so long. Kafka's own defaults are minutes."""
PROBE_SECONDS = 10.0
SPARK_ERRORS = (PySparkException, Py4JError)
"""The errors that a call into Spark may raise."""

_SYMBOL = "concat('SYM', lpad(pmod(hash(value, 'symbol'), 20), 3, '0')) AS symbol"
_CENTS = "2000 + pmod(hash(symbol), 48000) + pmod(hash(value, 'cents'), 201) AS cents"
_GENERATED = {
    "rate": [["timestamp", "value"]],
    "trades": [
        ["timestamp AS ts", "value", _SYMBOL],
        ["ts", "symbol", _CENTS],
        ["ts", "symbol", "cents / 100 AS price"],
    ],
    "quotes": [
        ["timestamp AS ts", "-1 - value AS value", _SYMBOL],
        ["ts", "symbol", "1 + pmod(hash(value, 'spread'), 3) AS spread", _CENTS],
        ["ts", "symbol", "(cents - spread) / 100 AS bid", "(cents + spread) / 100 AS ask"],
    ],
}
"""How generators make their rows from Spark's rate source, step by step. Prices are whole cents, and each symbol has a
price around which they lie."""


def kafka_package(settings: dict[str, Any]) -> dict[str, str]:
    """The setting that names Spark's Kafka connector; empty if the settings name one already, which must fit."""
    packages = str(settings.get("spark.jars.packages", ""))
    named = f"{packages},{settings.get('spark.jars', '')}"
    if KAFKA in named:
        check_connector(named)
        return {}
    connector = f"org.apache.spark:{KAFKA}_2.13:{spark_version}"
    return {"spark.jars.packages": f"{packages},{connector}" if packages else connector}


def check_brokers(job: Job) -> None:
    """Raise an error unless, for each Kafka table, one of its servers takes connections."""
    for name, table in (("left", job.left), ("right", job.right), ("sink", job.sink)):
        if table["format"] != "kafka":
            continue
        servers = [server.strip() for server in table["servers"].split(",")]
        deadline = time.monotonic() + PROBE_SECONDS
        problems = []
        for tried, server in enumerate(servers):
            host, colon, port = server.rpartition(":")
            if not colon or not host or not port.isdigit() or int(port) > 65_535:
                raise job.error(name, "servers", f'{server!r} is not valid; give host:port, as in "localhost:9092"')
            share = max(0.5, (deadline - time.monotonic()) / (len(servers) - tried))
            try:
                socket.create_connection((host.strip("[]"), int(port)), timeout=share).close()
                break
            except OSError as error:
                problems.append(f"{server} ({error.strerror or error})")
        else:
            raise job.error(name, "servers", f"no Kafka broker answers at {', '.join(problems)}")


def read_source(spark: Any, job: Job, name: str, table: dict[str, Any]) -> Any:
    """A streaming DataFrame of one side."""
    frame = _read(spark, job, name, table)
    if "where" in table:
        frame = _analysed(job, name, "where", lambda: frame.where(table["where"]))
    if "columns" in table:
        columns = [table["columns"]] if isinstance(table["columns"], str) else table["columns"]
        frame = _analysed(job, name, "columns", lambda: frame.selectExpr(*columns))
    return frame


def _read(spark: Any, job: Job, name: str, table: dict[str, Any]) -> Any:
    kind, reader = table["format"], spark.readStream
    if kind in GENERATORS:
        reader = reader.format("rate").option("rowsPerSecond", table.get("rows_per_second", 1_000))
        frame = _options(reader, table).load()
        for step in _GENERATED[kind]:
            frame = frame.selectExpr(*step)
        return frame
    schema = _analysed(job, name, "schema", lambda: _schema(table["schema"]))
    if kind in FILES:
        reader = reader.format(kind).schema(schema)
        reader = reader.option("header", "true") if kind == "csv" else reader
        if "max_files_per_trigger" in table:
            reader = reader.option("maxFilesPerTrigger", table["max_files_per_trigger"])
        return _analysed(job, name, "path", lambda: _options(reader, table).load(job.absolute(table["path"])))
    topics = [table["topic"]] if isinstance(table["topic"], str) else table["topic"]
    reader = reader.format("kafka").options(**KAFKA_SOURCE).option("kafka.bootstrap.servers", table["servers"])
    reader = reader.option("subscribe", ",".join(topics))
    reader = reader.option("startingOffsets", table.get("starting_offsets", "latest"))
    if "max_offsets_per_trigger" in table:
        reader = reader.option("maxOffsetsPerTrigger", table["max_offsets_per_trigger"])
    messages = _analysed(job, name, "options", lambda: _options(reader, table).load())
    return messages.select(F.from_json(messages["value"].cast("string"), schema).alias("row")).select("row.*")


def _schema(text: str) -> Any:
    from pyspark.sql.types import StructType

    return StructType.fromDDL(text)


def write_sink(job: Job, frame: Any) -> Any:
    """A writer of the job's results, to be started with a trigger."""
    table = job.sink
    kind = table["format"]
    if kind == "kafka":
        frame = frame.select(F.to_json(F.struct("*"), MICROSECONDS).alias("value"))
    writer = frame.writeStream.format(kind).outputMode("append").queryName(job.name)
    if kind == "kafka":
        writer = writer.options(**KAFKA_SINK).option("kafka.bootstrap.servers", table["servers"])
        writer = writer.option("topic", table["topic"])
    elif kind in FILES:
        writer = writer.option("path", job.absolute(table["path"]))
        writer = writer if kind == "parquet" else writer.options(**MICROSECONDS)
        writer = writer.option("header", "true") if kind == "csv" else writer
    if "checkpoint" in table:
        writer = writer.option("checkpointLocation", job.absolute(table["checkpoint"]))
    return _options(writer, table)


def _options(reader_or_writer: Any, table: dict[str, Any]) -> Any:
    """Add the table's own options, which override those set before."""
    for key, value in table.get("options", {}).items():
        reader_or_writer = reader_or_writer.option(key, value)
    return reader_or_writer


def _analysed(job: Job, name: str, key: str, build: Callable[[], Any]) -> Any:
    """The result of `build`. If Spark refuses, the error names this key of the job."""
    try:
        return build()
    except SPARK_ERRORS as error:
        raise job.error(name, key, first_line(error)) from None


def first_line(error: BaseException) -> str:
    """The first line of Spark's message, without the code at its end."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()] or [type(error).__name__]
    return lines[0].partition(" SQLSTATE: ")[0].rstrip(";.")
