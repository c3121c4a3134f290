"""Whether Spark's Python workers can run the join: they must have the same version of this package."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any
from weakref import WeakKeyDictionary

import pyarrow as pa
from pyspark.errors import PySparkException

from ..errors import StateError
from ..version import __version__

MODULE = "streamjoin.version"
_FOUND = "version string, problem string, python string, directory string"
_FIT: WeakKeyDictionary[Any, str | None] = WeakKeyDictionary()
"""Applications (on a Connect server: sessions) whose workers have been asked, and where one keeps files by default."""


def check_python_workers(session: Any) -> None:
    """Raise an error if the workers lack this package or have another version of it. One is asked, and only once."""
    try:
        application = session.sparkContext
    except PySparkException:
        application = session
    if application in _FIT:
        return
    ((version, problem, python, directory),) = session.range(0, 1, 1, 1).mapInArrow(_look(MODULE), _FOUND).collect()
    remedy = (
        f"install streamjoin[spark] {__version__} for that interpreter on every machine, or set spark.pyspark.python"
    )
    if problem:
        raise StateError(
            f"stream_join: Spark's Python workers ({python}) cannot import streamjoin: {problem}; {remedy}"
        )
    if version != __version__:
        raise StateError(
            f"stream_join: Spark's Python workers ({python}) have streamjoin {version}, and the driver {__version__}; "
            f"{remedy}"
        )
    _FIT[application] = directory


def cache_roots(session: Any, given: str | None) -> list[str]:
    """Where the caches of this driver's joins lie, if any are on this machine; nowhere on Spark Connect."""
    try:
        root = given or _FIT.get(session.sparkContext)
    except PySparkException:
        return []
    return [root] if root else []


def _look(module: str) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """A function for workers that may lack this package: it travels with its code, since it is made here, and names
    nothing of the package."""

    def look(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import importlib
        import os
        import sys

        import pyarrow

        for _ in batches:
            version = problem = None
            try:
                version = str(importlib.import_module(module).__version__)
            except Exception as error:
                problem = str(error)
            directory = os.environ.get("SPARK_LOCAL_DIRS", "").split(",")[0] or None
            found = {"version": [version], "problem": [problem], "python": [sys.executable], "directory": [directory]}
            types = pyarrow.schema([(name, pyarrow.string()) for name in found])
            yield pyarrow.RecordBatch.from_pydict(found, types)

    return look
