"""streamjoin: join two streams on any predicate."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .version import __version__ as __version__

if TYPE_CHECKING:
    from .engine.explanation import explain as explain
    from .engine.replay import join as join
    from .engine.replay import join_batches as join_batches
    from .engine.scale_gate import ScaleGate as ScaleGate
    from .engine.window_join import WindowJoin as WindowJoin
    from .errors import ArgumentError as ArgumentError
    from .errors import BackPressure as BackPressure
    from .errors import DataError as DataError
    from .errors import PredicateError as PredicateError
    from .errors import SchemaError as SchemaError
    from .errors import StateError as StateError
    from .errors import StreamJoinError as StreamJoinError
    from .predicate.reading.columns import col as col
    from .predicate.reading.columns import lit as lit
    from .predicate.reading.columns import when as when
    from .window import CountWindow as CountWindow
    from .window import TimeWindow as TimeWindow

_HOME = {
    "WindowJoin": "engine", "join": "engine", "join_batches": "engine", "explain": "engine",
    "col": "predicate.reading.columns", "lit": "predicate.reading.columns", "when": "predicate.reading.columns",
    "TimeWindow": "window", "CountWindow": "window", "ScaleGate": "engine",
    "ArgumentError": "errors", "BackPressure": "errors", "DataError": "errors",
    "PredicateError": "errors", "SchemaError": "errors", "StateError": "errors", "StreamJoinError": "errors",
}  # fmt: skip

__all__ = [
    "ArgumentError", "BackPressure", "CountWindow", "DataError", "PredicateError", "ScaleGate", "SchemaError",
    "StateError", "StreamJoinError", "TimeWindow", "WindowJoin", "col", "explain", "join", "join_batches",
    "lit", "when",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used: `import streamjoin` itself costs next to nothing."""
    if name in _HOME:
        value = getattr(import_module(f".{_HOME[name]}", __name__), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOME])
