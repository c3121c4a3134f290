"""Objects as bytes in the state store, which a later version of this package can read.

A pickle names its classes and their fields. A class that moves gets a line in `NOW_AT`; where fields change, `FORMAT`
in `spec` must be raised, and older checkpoints are refused.
"""

from __future__ import annotations

import io
import pickle
from typing import Any

NOW_AT: dict[tuple[str, str], tuple[str, str]] = {}
"""Where the classes are that pickles of this format may name otherwise: (module, class) in the pickle, and here."""


def dump(value: Any) -> bytes:
    return pickle.dumps(value)


def load(body: bytes) -> Any:
    return _Unpickler(io.BytesIO(body)).load()


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        return super().find_class(*NOW_AT.get((module, name), (module, name)))
