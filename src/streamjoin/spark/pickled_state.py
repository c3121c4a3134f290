"""States that versions before `sealed_values` have pickled. Nothing is pickled any more.

A pickle may name any function, and run it. So this one only finds the classes of such states, and what makes arrays.
"""

from __future__ import annotations

import io
import pickle
from collections.abc import Set
from typing import Any

from ..errors import StateError

NOW_AT: dict[tuple[str, str], tuple[str, str]] = {}
"""Where the classes are that pickles of this format may name otherwise: (module, class) in the pickle, and here."""
ARRAYS = {
    *((f"numpy.{core}.multiarray", name) for core in ("core", "_core") for name in ("_reconstruct", "scalar")),
    *((f"numpy.{core}.numeric", "_frombuffer") for core in ("core", "_core")),
    ("numpy", "ndarray"),
    ("numpy", "dtype"),
}
"""What pickled arrays and numbers of NumPy name. `_reconstruct` makes arrays and nothing else: see `RestrictedLoad`."""
STATES = {
    ("streamjoin.spark.worker_state", "WorkerState"),
    ("streamjoin.spark.worker_state", "SideState"),
    ("streamjoin.spark.worker_state", "SegmentEntry"),
    ("streamjoin.spark.worker_state", "MarksEntry"),
    ("streamjoin.spark.router", "RouterState"),
    ("streamjoin.spark.router", "Generation"),
    ("streamjoin.spark.key_router", "KeyRouterState"),
    ("streamjoin.spark.key_router", "Spread"),
    ("streamjoin.flow.order", "MergedOrder"),
    ("streamjoin.flow.order", "History"),
    ("streamjoin.integer_deque", "IntegerDeque"),
    ("streamjoin.window", "TimeWindow"),
    ("streamjoin.window", "CountWindow"),
}


class RestrictedLoad(pickle.Unpickler):
    """Finds what is allowed, and nothing else."""

    allowed: Set[tuple[str, str]] = ARRAYS | STATES

    def find_class(self, module: str, name: str) -> Any:
        where = NOW_AT.get((module, name), (module, name))
        if not self.allows(*where):
            raise pickle.UnpicklingError(f"{module}.{name} is not allowed here")
        return super().find_class(*where)

    def allows(self, module: str, name: str) -> bool:
        return (module, name) in self.allowed


def load(body: bytes | memoryview) -> Any:
    try:
        return RestrictedLoad(io.BytesIO(body)).load()
    except Exception as error:  # whatever a damaged pickle causes
        raise StateError(f"the state is damaged: {type(error).__name__}: {error}") from None
