"""The test bench catches bugs: each mutant is one wrong line in one component, and every one is found out."""

from __future__ import annotations

import importlib
import inspect
import sys
import types
from collections.abc import Iterator
from typing import Any

import pytest

from streamjoin.hardware import core  # noqa: F401  (so that the modules below are loaded)
from streamjoin.hardware.drive import Hang
from streamjoin.hardware.simulate import circuit_for

from ..long import LONG
from .bench import check, streams

pytestmark = pytest.mark.hardware

MUTANTS: dict[str, tuple[str, str, str]] = {
    "the full flag comes late": ("fifo", "queue.level >= self._depth - self._slack", "queue.level >= self._depth"),
    "suspend is ignored": ("core", "going.eq(~self.suspend)", "going.eq(1)"),
    "a valid bit is dropped": ("core", "fetched & l.valid & r.valid", "fetched & r.valid"),
    "the scan ends a row early": ("core", "row == self._rows - 1", "row == self._rows - 2"),
    "right tuples probe as if they were left": ("core", 'of_left.eq(states.ongoing("SCAN_FOR_LEFT"))', "of_left.eq(1)"),
    "a crossing is missed": ("admission", "self.right_valid & ~self.left_valid", "self.right_valid"),
    "a held tuple is forgotten": ("admission", "self.held.eq(self.left_valid & self.right_valid)", "self.held.eq(0)"),
    "what is discarded enters too": ("admission", "all_ready & ~self.suspended if waits", "all_ready if waits"),
    "a discard is not reported": ("admission", ", self.discard.eq(1)]", "]"),
    "cores do not wait for each other": ("admission", "self.ready.all()", "self.ready[0]"),
    "the segment is one tuple short": ("segment", "self.leaving.eq(slots[-1])", "self.leaving.eq(slots[-2])"),
    "the RAM's pointer turns back early": ("segment", "place == self._rows - 1", "place == self._rows - 2"),
    "the leaving tuple is not fetched": ("segment", "m.d.comb += read.addr.eq(place)", "pass"),
    "a full merger goes on taking": ("merger", 'm.State("STATE1"), m.If(~self.full)', 'm.State("STATE1"), m.If(1)'),
    "a merger forgets its second input": ("merger", "valid[i].eq(port.valid)]", "valid[i].eq(port.valid & (i == 0))]"),
    "a merger takes both at once": ("merger", "first.ready.eq(~chosen & ~self.full)", "first.ready.eq(~self.full)"),
    "a held tuple is mixed up with the next": (
        "handshake", "Mux(admission.held, held.as_value(), arrived.as_value())", "arrived.as_value()",
    ),
    "a filter is ignored": ("handshake", "occupied & self.circuit.accepts(m, side, entering)", "occupied"),
    "a discarded tuple replaces a held one": ("handshake", "self.right.ready & ~self.discarding", "self.right.ready"),
    "bubbles join": ("handshake", "entering.occupied & self.circuit.accepts", "self.circuit.accepts"),
}  # fmt: skip

SCENARIOS: list[dict[str, Any]] = [
    {"cores": 3, "segment": 3},
    {"cores": 3, "segment": 3, "merger": "full-rate", "scope": "core", "stall": 0.5},
    {"cores": 4, "segment": 2, "admission": "discard", "stall": 0.5},
    {"cores": 2, "segment": 2, "admission": "discard", "stall": 0.9, "interval": 8},
    {"cores": 3, "segment": 2, "admission": "discard", "scope": "core", "stall": 0.7},
    {"cores": 2, "segment": 6, "lanes": 2, "ram": True, "stall": 0.3, "gap": 0.3},
]
RUNS = [(3, 1.0), (1, 0.4), (5, 0.4), (4, 0.4), (1, 1.0), (2, 1.0), (0, 0.4), (0, 1.0), (2, 0.4), (3, 0.4), (4, 1.0),
        (5, 1.0)]  # fmt: skip
"""Every scenario at both match rates. Runs that catch most mutants come first, so that a mutant is caught early."""
BUSY = "l.k = r.k AND l.id <> 3"


@pytest.fixture(autouse=True)
def nothing_is_left_of_other_circuits() -> Iterator[None]:
    circuit_for.cache_clear()
    yield
    circuit_for.cache_clear()


def bench() -> None:
    """The runs that a circuit must pass."""
    for seed, match in RUNS:
        check(*streams((18, 18), match, seed), on=BUSY, simulator="amaranth", **SCENARIOS[seed])


def test_the_circuit_itself_passes() -> None:
    bench()


@pytest.mark.parametrize("name", list(MUTANTS)[:: 1 if LONG else 2])
def test_a_mutant_is_caught(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    module, right, wrong = MUTANTS[name]
    original = importlib.import_module(f"streamjoin.hardware.{module}")
    source = inspect.getsource(original)
    assert source.count(right) == 1, "the line that is to be spoiled is not there, or not alone"
    mutant = types.ModuleType(original.__name__)
    mutant.__package__ = original.__package__
    exec(compile(source.replace(right, wrong), f"{module} ({name})", "exec"), mutant.__dict__)
    own = {
        name: value for name, value in vars(original).items() if getattr(value, "__module__", "") == original.__name__
    }
    for user in [m for key, m in sys.modules.items() if key.startswith("streamjoin.hardware")]:
        for attribute, value in own.items():
            if vars(user).get(attribute) is value:
                monkeypatch.setattr(user, attribute, getattr(mutant, attribute))
    with pytest.raises((AssertionError, Hang)):
        bench()
