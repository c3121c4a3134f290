"""The settings that the pipeline needs of a Spark session: a check of them, and a local session that has them."""

from __future__ import annotations

import os
import re
import sys
import warnings
from importlib.util import find_spec
from typing import Any

from pyspark import __version__ as spark_version
from pyspark.errors import PySparkException

from ..errors import ArgumentError, StateError
from .python_workers import check_python_workers
from .secrets import SPARK_REDACTS

PROVIDER = "spark.sql.streaming.stateStore.providerClass"
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
CHANGELOG = "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled"
SHUFFLE = "spark.sql.shuffle.partitions"
BATCH_BYTES, NO_LIMIT = "spark.sql.execution.arrow.maxBytesPerBatch", str(2**31 - 1)
"""With a limit of bytes, Spark adds up the bytes of a batch again for every row that it hands to Python, which takes a
third of the time of packing. Spark's own limit of 10,000 rows stays."""

FILE_MANAGER = "spark.sql.streaming.checkpointFileManagerClass"
LOCAL_FILES = "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
"""For checkpoints on local disks. Spark's own choice starts processes for the files of a micro-batch."""
KEPT_MEMORY = {
    "MIMALLOC_PURGE_DELAY": "10000",
    "MALLOC_MMAP_THRESHOLD_": str(1 << 30),
    "MALLOC_TRIM_THRESHOLD_": str(1 << 30),
    "MALLOC_TOP_PAD_": str(1 << 26),
}
"""The environment of Python workers: they keep freed memory for the next micro-batch. New pages from the operating
system cost more than what is done with them."""

BATCHES, KEPT = "spark.sql.streaming.minBatchesToRetain", "20"
"""Of how many micro-batches a checkpoint keeps files. Spark's own 100 are for going back by hand."""
MOST_PER_CORE = 8
"""So many shuffle partitions a core are no trouble. Every micro-batch visits the state of each of them."""
KAFKA = "spark-sql-kafka-0-10"
JAVA_OPTIONS = ("JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS", "JDK_JAVA_OPTIONS", "SPARK_SUBMIT_OPTS")
"""The environment variables from which a JVM takes options."""


def session(master: str = "local[*]", name: str = "streamjoin", /, **config: Any) -> Any:
    """A local session with all that `stream_join` needs, and further settings: `session(**{"spark.ui.enabled": True})`.

    The JVM uses the parallel garbage collector: it suits blobs of megabytes, which the default one handles apart.

    Python workers are started with the interpreter that runs this, unless PYSPARK_PYTHON says otherwise.
    """
    from pyspark.sql import SparkSession

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    cores = _cores(master)
    settings = {
        PROVIDER: ROCKSDB,
        CHANGELOG: "true",
        SHUFFLE: str(cores),
        BATCH_BYTES: NO_LIMIT,
        FILE_MANAGER: LOCAL_FILES,
        BATCHES: KEPT,
        **{f"spark.executorEnv.{name}": value for name, value in KEPT_MEMORY.items()},
        "spark.driver.memory": "4g",
        **_collector(),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
        **SPARK_REDACTS,
        **{key: str(value) for key, value in config.items()},
    }
    builder = SparkSession.builder.master(master).appName(name)
    for key, value in settings.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def _collector() -> dict[str, str]:
    """The option that chooses the garbage collector, unless the environment has one: a JVM with two does not start."""
    chosen = any("GC" in os.environ.get(name, "") for name in JAVA_OPTIONS)
    return {} if chosen else {"spark.driver.extraJavaOptions": "-XX:+UseParallelGC"}


def check_session(spark: Any, streaming: bool) -> int:
    """Raise an error unless the session can run the join; else return the number of its shuffle partitions."""
    if find_spec("google") is None or find_spec("google.protobuf") is None:
        raise StateError(
            "stream_join: Spark's stateful operators need the package protobuf: pip install 'streamjoin[spark]'"
        )
    wanted = {PROVIDER: ROCKSDB} | ({CHANGELOG: "true"} if streaming else {})
    missing = [(key, value) for key, value in wanted.items() if str(spark.conf.get(key, "")).lower() != value.lower()]
    if missing:
        lines = "\n".join(f'    spark.conf.set("{key}", "{value}")' for key, value in missing)
        raise ArgumentError(f"stream_join: the session's state store does not suit the join; before the call:\n{lines}")
    check_connector(f"{spark.conf.get('spark.jars.packages', '')},{spark.conf.get('spark.jars', '')}")
    check_python_workers(spark)
    shuffle, cores = int(spark.conf.get(SHUFFLE, "200")), _cores_of(spark)
    if streaming and cores is not None and shuffle > MOST_PER_CORE * cores:
        warnings.warn(
            f"stream_join: the session has {shuffle} shuffle partitions and {cores} cores; every micro-batch visits "
            f'the state of each, which takes long; before the call: spark.conf.set("{SHUFFLE}", {cores})',
            stacklevel=4,
        )
    return shuffle


def check_connector(jars: str) -> None:
    """Raise an error if there is a Kafka connector among jars or packages that was made for another major version of
    Spark."""
    for made_for in re.findall(KAFKA + r"_[\d.]+[:-](\d+\.\d+[\w.]*?)(?:\.jar)?(?=[,\s]|$)", jars):
        if made_for.split(".")[0] != spark_version.split(".")[0]:
            raise ArgumentError(
                f"spark.jars.packages: the Kafka connector is made for Spark {made_for}, and this is Spark "
                f"{spark_version}; give org.apache.spark:{KAFKA}_2.13:{spark_version}"
            )


def _cores_of(spark: Any) -> int | None:
    """How many tasks run at a time; None where a Connect server does not say."""
    try:
        return int(spark.sparkContext.defaultParallelism)
    except PySparkException:
        return None


def _cores(master: str) -> int:
    inside = master[master.find("[") + 1 : master.find("]")] if master.startswith("local[") else "1"
    first = inside.split(",")[0]
    return (os.cpu_count() or 1) if first == "*" else int(first) if first.isdigit() else 1
