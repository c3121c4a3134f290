"""What the experiments share: the papers' circuit, how an experiment looks to the others, and least squares."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from rich.table import Table

from ..design import check_design
from ..drive import Entry
from ..handshake import HandshakeCircuit
from ..predicate import Circuit
from ..simulate import pack
from ..synthesis import Say
from ..verilog import design_of

SCHEMA = pa.schema([pa.field("k", pa.int32(), nullable=False)])
PAYLOAD = 32
"""Both papers' tuples: a key and a payload of 32 bits each, and results of 96 bits (section V-B)."""
Entries = list[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Experiment:
    """`measure(quick, say)` gives rows of figures, which `tables` and `draw` show beside those of `paper`."""

    about: str
    measure: Callable[[bool, Say], Entries]
    tables: Callable[[Entries], list[Table]]
    draw: Callable[[Entries, Path], list[Path]]
    paper: Sequence[tuple[str, str]]


def papers_join(cores: int, segment: int = 8, **design: Any) -> HandshakeCircuit:
    """The papers' equality of 32-bit keys, with their buffers of 8 and 4 results."""
    return design_of(SCHEMA, SCHEMA, "l.k = r.k", PAYLOAD, None, check_design(cores=cores, segment=segment, **design))


def packed(circuit: Circuit, side: Any, keys: Sequence[int], payloads: Sequence[int] | None = None) -> list[int]:
    """Tuples as the circuit takes them in; unless payloads are given, each has its number as its payload."""
    fields = {"occupied": np.ones(len(keys), np.int64), "values": {"k": np.asarray(keys)}, "known": {},
              "payload": np.asarray(range(len(keys)) if payloads is None else payloads)}  # fmt: skip
    return [int(bits) for bits in pack(circuit.entering(side), fields)]


def alternating(left: Sequence[int], right: Sequence[int]) -> list[Entry]:
    """A left tuple, a right one, and so on, one at a time."""
    return [entry for l, r in zip(left, right, strict=True) for entry in (Entry(l, None), Entry(None, r))]


@dataclass(frozen=True, slots=True)
class Line:
    """A straight line through points: `slope * x + intercept`, and the share of the variance that it explains."""

    slope: float
    intercept: float
    r2: float

    def figures(self) -> dict[str, float]:
        return {"slope": self.slope, "intercept": self.intercept, "r2": self.r2}

    def __str__(self) -> str:
        return f"{self.slope:,.1f} per core {self.intercept:+,.0f} (R² = {self.r2:.5f})"


def fitted(x: Sequence[float], y: Sequence[float]) -> Line:
    """Least squares."""
    slope, intercept = np.polyfit(x, y, 1)
    rest = np.asarray(y) - (slope * np.asarray(x) + intercept)
    around = np.asarray(y) - np.mean(y)
    spread = float(around @ around)
    return Line(float(slope), float(intercept), 1 - float(rest @ rest) / spread if spread else 1.0)
