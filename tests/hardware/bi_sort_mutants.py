"""Seeded bugs: the circuit's source with one place changed, put into the package's modules for one test."""

from __future__ import annotations

import importlib
import inspect
import types
from dataclasses import dataclass

import pytest

PACKAGE = "streamjoin.hardware.bi_sort"
MODULES = ("memory", "splitter", "insertion", "probing", "probing_engine", "worker", "driver")


@dataclass(frozen=True)
class Mutant:
    """`old` occurs once in the module and becomes `new`; the test bench must find `finding`."""

    name: str
    module: str
    old: str
    new: str
    finding: str
    bandwidth: int = 4

    def plant(self, monkeypatch: pytest.MonkeyPatch) -> None:
        modules = [importlib.import_module(f"{PACKAGE}.{name}") for name in MODULES]
        original = importlib.import_module(f"{PACKAGE}.{self.module}")
        source = inspect.getsource(original)
        assert source.count(self.old) == 1, f"{self.name}: {self.old!r} occurs {source.count(self.old)} times"
        changed = types.ModuleType(original.__name__)
        changed.__package__ = PACKAGE
        exec(compile(source.replace(self.old, self.new), f"<{self.name}>", "exec", dont_inherit=True), changed.__dict__)
        for name, was in vars(original).items():
            if inspect.isclass(was) and was.__module__ == original.__name__:
                for module in modules:
                    if getattr(module, name, None) is was:
                        monkeypatch.setattr(module, name, getattr(changed, name))


MUTANTS = (
    Mutant(
        "merger prefers the batch at equality",
        "insertion", "(a.p.key <= b.p.key)", "(a.p.key < b.p.key)", "order of equal keys",
    ),
    Mutant(
        "merger takes the larger",
        "insertion", "(a.p.key <= b.p.key)", "(a.p.key >= b.p.key)", "main array",
    ),
    Mutant(
        "merger drops the tail",
        "insertion", "self.idle.eq((left_a == 0) & (left_b == 0))", "self.idle.eq((left_a == 0) | (left_b == 0))",
        "hangs",
    ),
    Mutant(
        "splitter compares beside the diagonal",
        "splitter", "self.diagonal - 1 - middle", "self.diagonal - 1 - middle + (middle != 0)", "main array",
    ),
    Mutant(
        "indexer samples one tuple later",
        "insertion", "place % shape.partition_size == 0", "place % shape.partition_size == 1", "intervals",
    ),
    Mutant(
        "reader asks for more than it has room for",
        "memory", "(left != 0) & (room != 0)", "(left != 0)", "hangs",
    ),
    Mutant(
        "boundary wraps around",
        "probing", "Signal(signed(width + 3)", "Signal(signed(width)", "intervals",
    ),
    Mutant(
        "partitioner goes too far at equality",
        "probing", "(self.index_key < bound.p.key)", "(self.index_key <= bound.p.key)", "intervals",
    ),
    Mutant(
        "partitioner does not halve its steps",
        "probing", "bound.valid & (step == 1) & (back | ~smaller)", "bound.valid & (back | ~smaller)", "intervals",
    ),
    Mutant(
        "prober advances both iterators",
        "probing", "& tuples.valid & smaller)", "& tuples.valid & (smaller | results.ready))", "intervals",
    ),
    Mutant(
        "prober stops behind equal tuples",
        "probing", "smaller.eq(tuples.p.key < target.p.bound.key)", "smaller.eq(tuples.p.key <= target.p.bound.key)",
        "intervals",
    ),
    Mutant(
        "main arrays are not swapped",
        "worker", "bank.eq(~bank)", "bank.eq(bank)", "main array",
    ),
    Mutant(
        "memory grants one word too many",
        "memory", "(before < self._bandwidth)", "(before <= self._bandwidth)", "bandwidth",
        bandwidth=1,
    ),
)  # fmt: skip
