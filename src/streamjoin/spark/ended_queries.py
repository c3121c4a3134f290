"""What the driver does about the cache of queries that have ended: it removes the directories that lie on its machine.

On other machines, executors remove them when another join of the same driver begins there (the joins that have ended
are part of its spec), or when they end themselves.
"""

from __future__ import annotations

import atexit
from collections.abc import Sequence
from typing import Any
from weakref import WeakSet

from pyspark.sql.streaming.listener import StreamingQueryListener

from .cache_directories import directory_of, remove
from .progress import JOIN, named

MOST = 100
_roots: dict[str, Sequence[str]] = {}
"""By join, where it may have a directory on this machine."""
_ended: dict[str, None] = {}
"""The joins that have ended, in this order."""
_SESSIONS_WITH_LISTENER: WeakSet[Any] = WeakSet()


def ended_joins() -> tuple[str, ...]:
    """The last joins of this driver that have ended."""
    return tuple(_ended)[-MOST:]


def remove_when_ended(session: Any, join: str, roots: Sequence[str]) -> None:
    """Have a join's directories removed when its last query ends, and when this process does. Where the process may end
    before its queries, as a client of Spark Connect does, there are no `roots`."""
    if roots:
        if not _roots:
            atexit.register(_remove_all)
        _roots[join] = roots
    if session not in _SESSIONS_WITH_LISTENER:
        _SESSIONS_WITH_LISTENER.add(session)
        session.streams.addListener(EndOfQueries())


def _remove(join: str) -> None:
    _ended[join] = None
    for root in _roots.get(join, ()):
        remove(directory_of(root, join))


def _remove_all() -> None:
    for join in list(_roots):
        _remove(join)


class EndOfQueries(StreamingQueryListener):
    """Tells from the figures which joins a query has. Several queries may have the same join, such as for two sinks,
    and one may begin when another ends. So nothing is removed while there is a query of which nothing is known."""

    def __init__(self) -> None:
        self._unknown: set[str] = set()
        self._joins: dict[str, set[str]] = {}
        """By run of a query that has not ended."""
        self._over: set[str] = set()
        """The joins of runs that have ended."""

    def onQueryStarted(self, event: Any) -> None:
        self._unknown.add(str(event.runId))

    def onQueryProgress(self, event: Any) -> None:
        run = str(event.progress["runId"])
        self._unknown.discard(run)
        found = [named(row).get(JOIN) for row in event.progress["observedMetrics"].values()]
        joins = {join for join in found if isinstance(join, str)}
        if joins:
            self._joins[run] = joins
        for join in joins & _ended.keys():  # the same DataFrame has been started again
            del _ended[join]
        self._settle()

    def onQueryIdle(self, event: Any) -> None:
        """Nothing has come."""

    def onQueryTerminated(self, event: Any) -> None:
        run = str(event.runId)
        self._unknown.discard(run)
        self._over |= self._joins.pop(run, set())
        self._settle()

    def _settle(self) -> None:
        if self._unknown:
            return
        for join in self._over.difference(*self._joins.values()):
            _remove(join)
        self._over.clear()
