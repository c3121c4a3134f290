"""Secrets of a job's sources and sinks: which values these are, and texts without them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

HIDDEN = "[hidden]"
_NAMES = r"pass(?:word|phrase|wd)|secret|token|credential|jaas|(?:api|access|account|private)[._-]?key"
_IS_SECRET = re.compile(_NAMES, re.IGNORECASE)
_ASSIGNED = re.compile(
    rf"""((?:{_NAMES})[\w.-]*["']?\s*[=:]\s*)("(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|[^\s,;}}\])]+)""", re.IGNORECASE
)
_IN_ADDRESS = re.compile(r"(\b[a-z][a-z0-9+.-]*://[^\s/:@]*:)([^\s/@]+)(?=@)", re.IGNORECASE)
SHORTEST = 4
"""Shorter values are hidden only where their names stand beside them: they may be parts of any word."""
SPARK_REDACTS = {
    "spark.redaction.regex": f"(?i){_NAMES}",
    "spark.sql.redaction.options.regex": f"(?i){_NAMES}|url",
}
"""Spark's own redaction, in its pages and plans. By default it does not know jaas, credentials and account keys."""


def is_secret(key: Any) -> bool:
    """Whether what is called so should not be shown."""
    return _IS_SECRET.search(str(key)) is not None


def secrets_in(tables: Any) -> list[str]:
    """All secret texts in nested tables, the longest first."""
    found = {text for text in _secrets(tables) if len(text) >= SHORTEST}
    return sorted(found, key=len, reverse=True)


def _secrets(value: Any) -> Iterator[str]:
    if isinstance(value, Mapping):
        for key, one in value.items():
            if is_secret(key) and not isinstance(one, bool | Mapping):
                yield str(one)
            yield from _secrets(one)
    elif isinstance(value, list | tuple):
        for one in value:
            yield from _secrets(one)
    elif isinstance(value, str):
        for pattern in (_ASSIGNED, _IN_ADDRESS):
            yield from (match[2].strip("\"'") for match in pattern.finditer(value))


def redacted(text: str, secrets: Iterable[str] = ()) -> str:
    """A text without these secrets, and without what looks like one."""
    for secret in secrets:
        for spelled in (secret, repr(secret)[1:-1]):
            text = text.replace(spelled, HIDDEN)
    return _IN_ADDRESS.sub(rf"\1{HIDDEN}", _ASSIGNED.sub(rf"\1{HIDDEN}", text))


def masked(value: Any) -> Any:
    """A value of a job file that may be shown."""
    if isinstance(value, Mapping):
        return {key: HIDDEN if is_secret(key) else masked(one) for key, one in value.items()}
    if isinstance(value, list):
        return [masked(one) for one in value]
    return redacted(value) if isinstance(value, str) else value
