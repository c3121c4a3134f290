"""`streamjoin run job.toml`: runs a whole pipeline from a file, and watches it until it ends or is stopped."""

from __future__ import annotations

import contextlib
import logging
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from rich.console import Console

from ..errors import ArgumentError, StateError, StreamJoinError
from .connectors import SPARK_ERRORS, check_brokers, first_line, kafka_package, read_source, write_sink
from .jobfile import JOIN, Job
from .join import stream_join
from .session import SHUFFLE, session
from .watch import Screen, watch


def run(
    path: Path, *, once: bool = False, seconds: float | None = None, quiet: bool = False, allow_code: bool = False
) -> None:
    """Run a job file until it is stopped; with `once` until all present input has been joined; at most for `seconds`.
    With `allow_code`, the file is trusted to name jars, classes and programs.

    Ctrl-C ends it with KeyboardInterrupt and SIGTERM with SystemExit(143), both after the query has been stopped.
    """
    job = Job(path, allow_code)
    check_brokers(job)
    screen = Screen(Console(quiet=quiet), job.name)
    screen.say(f"{job.name}: starting Spark")
    with _spark_log(job) as log:
        spark = _open_session(job, log)
        _silence_the_end(spark)
        try:
            with watch(spark, screen, seconds) as until_the_end:
                query = start(job, spark, once=once)
                stopped_by = until_the_end(query)
            failure = query.exception()
            if failure is not None:
                raise _Failed(f"{path}: the query failed: {_cause(str(failure))}")
        except Exception as error:
            end = _end_of_the_jvm(spark, AT_ONCE if isinstance(error, StreamJoinError) else DYING_SECONDS)
            if end is None:
                raise
            way_on = "; run the job again: it goes on from its checkpoint" if "checkpoint" in job.sink else ""
            raise _Failed(f"{path}: Spark's JVM {end}, and the query with it{way_on}") from None
        finally:
            _stop(spark)
    if stopped_by == signal.SIGINT:
        raise KeyboardInterrupt
    if stopped_by is not None:
        raise SystemExit(128 + stopped_by)


def start(job: Job, spark: Any, *, once: bool = False) -> Any:
    """Start the job's streaming query in a session that meets its needs."""
    left, right = (read_source(spark, job, name, table) for name, table in (("left", job.left), ("right", job.right)))
    checkpoint = job.absolute(job.sink["checkpoint"]) if "checkpoint" in job.sink else None
    try:
        joined = stream_join(left, right, **job.join, checkpoint=checkpoint)
    except StreamJoinError as error:
        raise _in_file(job, error) from None
    writer = write_sink(job, joined)
    if once:
        writer = writer.trigger(availableNow=True)
    elif job.every_ms:
        writer = writer.trigger(processingTime=f"{job.every_ms} milliseconds")
    try:
        return writer.start()
    except SPARK_ERRORS as error:
        raise job.error("sink", None, first_line(error)) from None


def _in_file(job: Job, error: StreamJoinError) -> ArgumentError:
    """An error of `stream_join`, with the line of the job file that caused it."""
    message = " ".join(str(error).split())
    argument, _, rest = message.partition(": ")
    if argument.partition("[")[0] in JOIN:
        return job.error("join", argument, rest)
    if argument in ("left", "right"):
        return job.error(argument, None, rest)
    return job.error("join", None, message)


AT_ONCE, DYING_SECONDS = 0.1, 5.0
"""So long a dying JVM may take until it is gone: after an error that may have another cause, and when it cannot be
reached."""

# -- the session, and where it writes its log ----------------------------------------------------------------------


class _Failed(StateError):
    """Spark failed; its log may say more."""


def _open_session(job: Job, log: IO[bytes]) -> Any:
    settings = {key: str(value).lower() if isinstance(value, bool) else value for key, value in job.spark.items()}
    master = settings.pop("master", "local[*]")
    if "partitions" in job.join:
        settings.setdefault(SHUFFLE, job.join["partitions"])
    if job.uses_kafka:
        try:
            settings.update(kafka_package(settings))
        except ArgumentError as error:
            key, _, message = str(error).partition(": ")
            raise job.error("spark", key, message) from None
    if not os.environ.get("JAVA_HOME") and shutil.which("java") is None:
        raise StateError("Spark needs Java 17 or newer, and there is no java on the PATH; install one or set JAVA_HOME")
    try:
        with _stderr_to(log):
            return session(master, job.name, **settings)
    except SPARK_ERRORS as error:
        log.seek(0)
        text = log.read().decode(errors="replace")
        missing = re.search(r"unresolved dependency: ([^\]\n]+)", text)
        if missing:
            raise _Failed(
                f"{job.path}: Maven has no {missing[1].removesuffix(': not found').replace('#', ':').replace(';', ':')}"
                '; name packages that it has under [spark], as in "spark.jars.packages" = "group:name:version"'
            ) from None
        said = re.findall(r"^(?:Exception in thread|Error:|.*Error: ).*", text, re.MULTILINE)
        raise _Failed(f"{job.path}: Spark did not start: {said[0] if said else _cause(str(error))}") from None


@contextlib.contextmanager
def _spark_log(job: Job) -> Iterator[IO[bytes]]:
    """A file for what Spark writes to standard error. If Spark failed, the file stays, without the job's secrets, and
    the error names it."""
    with tempfile.NamedTemporaryFile(prefix="streamjoin-", suffix=".log", delete=False) as log:
        keep = False
        try:
            yield log
        except _Failed as error:
            keep = True
            _redact(job, Path(log.name))
            raise StateError(f"{job.redacted(str(error))} (Spark's log: {log.name})") from None
        finally:
            if not keep:
                os.unlink(log.name)


def _redact(job: Job, log: Path) -> None:
    """Put a log without secrets in the place of another."""
    handle, clean = tempfile.mkstemp(dir=log.parent, prefix="streamjoin-", suffix=".clean")
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(job.redacted(log.read_text(encoding="utf-8", errors="replace")))
    os.replace(clean, log)


def _silence_the_end(spark: Any) -> None:
    """When the JVM dies, Py4J logs traces until this process ends, also through the root logger, and the server to
    which the JVM reports accumulators prints one. The command says what has happened."""
    logging.getLogger().addFilter(_is_not_of_py4j)
    logging.getLogger("py4j").propagate = False
    server = getattr(spark.sparkContext, "_accumulatorServer", None)
    if server is not None:
        server.handle_error = lambda request, address: None


def _is_not_of_py4j(record: logging.LogRecord) -> bool:
    return "py4j" not in Path(record.pathname).parts


@contextlib.contextmanager
def _stderr_to(file: IO[bytes]) -> Iterator[None]:
    """Processes that start meanwhile write their standard error to the file, also afterwards."""
    sys.stderr.flush()
    saved = os.dup(2)
    os.dup2(file.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(saved, 2)
        os.close(saved)


def _end_of_the_jvm(spark: Any, patience: float = DYING_SECONDS) -> str | None:
    """How the JVM has ended; None if it runs, or was not started here."""
    process = getattr(spark.sparkContext._gateway, "proc", None)
    if process is None:
        return None
    try:
        status = process.wait(patience)
    except subprocess.TimeoutExpired:
        return None
    if status >= 0:
        return f"has ended with exit status {status}"
    name = signal.Signals(-status).name if -status in set(signal.Signals) else f"signal {-status}"
    hint = " (where memory is short, the operating system does so)" if name == "SIGKILL" else ""
    return f"was ended by {name}{hint}"


def _stop(spark: Any) -> None:
    """Stop Spark, unless it is no more."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            spark.stop()
    except Exception:
        if _end_of_the_jvm(spark) is None:
            raise


def _cause(text: str) -> str:
    """The line that says why: of our own error in a Python worker if there is one, else of the innermost Java error."""
    ours = re.findall(r"streamjoin\.errors\.\w+: (.+)", text)
    if ours:
        return str(ours[-1])
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    inner = [line.removeprefix("Caused by: ") for line in lines if line.startswith("Caused by: ")]
    told = inner[-1] if inner else lines[0].partition("terminated with exception: ")[2] or lines[0]
    return told.partition(" SQLSTATE: ")[0].rstrip(";.")
