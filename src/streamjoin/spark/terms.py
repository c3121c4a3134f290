"""What a query must not change from one start to the next, and how a change is refused: in the user's words.

The state has the terms as texts, by argument (`JoinSpec.terms`). These texts are compared, and belong to the state's
format. Here they are put into words.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import cast

from ..errors import StateError
from ..window import NANOSECONDS_PER_TICK, TimeUnit
from .spec import FORMAT, JoinSpec

Terms = Mapping[str, str]
_BEGIN = "or begin with a new checkpoint location"
_WAYS = {
    "format": "finish the query with the version of streamjoin that began it, or begin with a new checkpoint location, "
    "from offsets that lie a window back",
    "partitions": f"give as many partitions and spark.sql.shuffle.partitions as before, {_BEGIN}",
    **dict.fromkeys(("left", "right"), f"give the stream the same columns in the same order, {_BEGIN}"),
}
_UNITS = (("day", 86_400 * 10**9), ("hour", 3_600 * 10**9), ("minute", 60 * 10**9), ("second", 10**9))


def check_terms(terms: Terms, spec: JoinSpec) -> None:
    """Raise an error unless a join with these terms, which a checkpoint has, can go on as `spec` says."""
    now = spec.terms
    for term, before in terms.items():
        if now.get(term) == before or (term == "on" and before in spec.spellings):
            continue
        raise StateError(
            f"{term}: the checkpoint belongs to a join with {_in_words(term, before, terms)}, and the query now has "
            f"{_in_words(term, now.get(term, 'none'), now)}; {_WAYS.get(term, f'give the same again, {_BEGIN}')}"
        )


def _in_words(term: str, text: str, terms: Terms) -> str:
    """A term as the user would write it. `terms` are all of the same join."""
    if term == "format":
        return f"state of format {text}" if text != FORMAT else f"state of format {FORMAT}, which this version writes"
    if term == "lateness":
        return _duration(int(text), terms)
    if term == "window":
        windows = re.findall(r"(\w+)Window\(\w+=(\d+)\)", text)
        return " and ".join(_window(kind, amount, terms) for kind, amount in windows) or text
    if term == "time":
        return " and ".join(dict.fromkeys(re.findall(r"(?:left|right)=('[^']*')", text))) or text
    if term in ("left", "right"):
        return "the columns " + ", ".join(text.split("\n"))
    return text


def _window(kind: str, amount: str, terms: Terms) -> str:
    return f"{int(amount):,} rows" if kind == "Count" else _duration(int(amount), terms)


def _duration(ticks: int, terms: Terms) -> str:
    found = re.search(r"unit='(\w+)'", terms.get("time", ""))
    unit = found[1] if found else "int"
    if unit == "int":
        return f"{ticks:,} of the time column's unit"
    nanoseconds = ticks * NANOSECONDS_PER_TICK[cast(TimeUnit, unit)]
    if not nanoseconds:
        return "0 seconds"
    for name, length in _UNITS:
        if nanoseconds % length == 0:
            return f"{nanoseconds // length:,} {name}{'s' * (nanoseconds != length)}"
    for name, length in (("ms", 10**6), ("us", 10**3)):
        if nanoseconds % length == 0:
            return f"{nanoseconds // length:,} {name}"
    return f"{nanoseconds:,} ns"
