"""The terms of a join in a file beside the query's checkpoint: so a change is refused before the query starts.

The workers' states have the terms too, and each worker checks them in the first micro-batch. The file says the same,
where the driver can read it. It is written as long as the query has finished no micro-batch. A checkpoint without it,
such as one that was begun otherwise, is checked by the workers alone.
"""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import quote

from pyspark.errors import PySparkException

from ..errors import ArgumentError
from .connectors import SPARK_ERRORS, first_line
from .spec import JoinSpec
from .terms import check_terms


def check_checkpoint(session: Any, location: Any, name: str, spec: JoinSpec) -> None:
    """Raise StateError if the query with this checkpoint began with another join under this name. If it has finished no
    micro-batch, note this one. On Spark Connect, the driver cannot read the file, and the workers alone check."""
    if not isinstance(location, str) or not location.strip():
        raise ArgumentError(f"checkpoint: {location!r} is not valid; give the query's checkpoint location as a text")
    try:
        jvm, configuration = session._jvm, session._jsc.hadoopConfiguration()
    except PySparkException:
        return
    file = file_of(name)
    try:
        root = jvm.org.apache.hadoop.fs.Path(location)
        files = root.getFileSystem(configuration)
        commits, path = jvm.org.apache.hadoop.fs.Path(root, "commits"), jvm.org.apache.hadoop.fs.Path(root, file)
        has_begun = files.exists(commits) and len(files.listStatus(commits)) > 0
        if not has_begun:
            stream = files.create(path, True)
            try:
                stream.write(bytearray(json.dumps({"terms": spec.terms}, indent=1).encode()))
            finally:
                stream.close()
            return
        found = _read(files, path) if files.exists(path) else None
    except SPARK_ERRORS as error:
        raise ArgumentError(f"checkpoint: {location!r} cannot be used: {_said(error)}") from None
    if found is not None:
        check_terms(found, spec)


def file_of(name: str) -> str:
    """The file's name for a join. Hadoop takes what is before a colon for the scheme of an address."""
    return f"streamjoin-{quote(name, safe=' ')}.json"


def _read(files: Any, path: Any) -> dict[str, str]:
    """The terms in the file; nothing if it is damaged: the workers know better."""
    stream = files.open(path)
    try:
        terms = json.loads(bytes(stream.readAllBytes()))["terms"]
    except (ValueError, KeyError, TypeError):
        return {}
    finally:
        stream.close()
    fits = isinstance(terms, dict) and all(isinstance(part, str) for pair in terms.items() for part in pair)
    return terms if fits else {}


def _said(error: Exception) -> str:
    cause = getattr(error, "java_exception", None)
    return str(cause.toString()) if cause is not None else first_line(error)
