"""A checkpoint that an earlier version has written is read, and the join goes on from it.

`data/states-format-<FORMAT>.pickle` has, for each join of `JOINS`, what the workers and routers of such a version had
in their state stores after the first half of both streams, and the rows that they had given. After a change of the
format, `python -m tests.spark.test_pickled_state` writes it.
"""

from __future__ import annotations

import operator
import os
import pickle
import tempfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import streamjoin as sj
from streamjoin.spark import key_router, pickled_state
from streamjoin.spark.key_router import KeyRouterState
from streamjoin.spark.messages import from_bytes, to_bytes
from streamjoin.spark.pickled_state import NOW_AT
from streamjoin.spark.router import STATES as ROUTERS
from streamjoin.spark.router import RouterState
from streamjoin.spark.spec import FORMAT
from streamjoin.spark.worker_state import STATES as WORKERS
from streamjoin.spark.worker_state import MarksEntry, SegmentEntry, SideState, WorkerState
from streamjoin.testing import assert_same_rows

from .simulated import Dictionary, Simulated, make_spec

FILE = Path(__file__).parent / "data" / f"states-format-{FORMAT}.pickle"
JOINS = {
    "ordered": dict(on="l.k = r.k", window=(9, sj.TimeWindow(25)), routing="hash"),
    "keys": dict(on="l.k = r.k", window=sj.TimeWindow(60), routing="split"),
    "ranges": dict(on="l.v BETWEEN r.v - 3 AND r.v + 3", window=sj.TimeWindow(60), routing="range"),
    "unmatched": dict(on="l.v BETWEEN r.v - 3 AND r.v + 3", window=sj.TimeWindow(60), routing="broadcast", how="full"),
}


def stream(factor: int) -> pa.Table:
    rows = range(80)
    return pa.table(
        {
            "ts": pa.array([3 * n + (n * factor) % 5 for n in rows]),
            "k": pa.array([(n * factor) % 4 for n in rows], pa.int32()),
            "v": pa.array([float((n * factor * 7) % 50) for n in rows]),
            "name": pa.array([None if n % 9 == 0 else "a name that is long" * (n % 3) for n in rows]),
        }
    )


def joining(name: str, cache: str) -> Simulated:
    schema = stream(3).schema
    return Simulated(make_spec(schema, schema, time="ts", lateness=5, workers=2, cache=cache, **JOINS[name]))


def states() -> dict[str, Any]:
    return pickle.loads(FILE.read_bytes())


def write() -> None:
    found = {}
    key_router.ENOUGH, key_router.UNEVEN = 1, 0.5
    for name in JOINS:
        with tempfile.TemporaryDirectory() as directory:
            run = joining(name, directory)
            tables = [run.step([stream(3).slice(n, 20)], [stream(11).slice(n, 20)]) for n in (0, 20)]
        workers, routers = ([dict(state) for state in kept] for kept in (run.states, run.routers))
        found[name] = {"workers": workers, "routers": routers, "found": to_bytes(pa.concat_tables(tables))}
    FILE.write_bytes(pickle.dumps(found))  # of texts and bytes alone


@pytest.mark.parametrize("name", JOINS)
def test_an_older_checkpoint_goes_on(name: str, tmp_path: Path) -> None:
    left, right = stream(3), stream(11)
    run = joining(name, str(tmp_path))
    before = states()[name]
    run.states, run.routers = ([Dictionary(one) for one in before[kind]] for kind in ("workers", "routers"))
    found = [from_bytes(before["found"]), run.step([left.slice(40, 20)], [right.slice(40, 20)])]
    found.append(run.step([left.slice(60)], [right.slice(60)]))
    # Rows far in the future make everything before them ready, and close its windows.
    last = [pa.table({"ts": [10**6], "k": [None], "v": [None], "name": [None]}, left.schema)]
    found.append(run.step(last, last))
    arguments = {key: value for key, value in JOINS[name].items() if key != "routing"}
    expected = sj.join(left, right, time="ts", **arguments)
    assert_same_rows(pa.concat_tables(found), expected)
    assert 0 < found[0].num_rows < expected.num_rows


def test_old_names_lead_to_classes_of_today() -> None:
    """Of all that moved, the states have an example; what they hold is written as plain data, and read again."""
    bodies = [(name, body) for join in states().values() for kind in ("workers", "routers") for one in join[kind]
              for name, body in one.items() if name in ("memory", "router")]  # fmt: skip
    for module, name in NOW_AT:
        assert any(module.encode() in body and name.encode() in body for _, body in bodies), (module, name)
    kept = [pickled_state.load(body) for _, body in bodies]
    assert {type(one) for one in kept} == {WorkerState, RouterState, KeyRouterState}
    assert any(one.split and one.spread for one in kept if isinstance(one, KeyRouterState))
    sides = [side for one in kept if isinstance(one, WorkerState) for side in one.held.values()]
    assert {type(side) for side in sides} == {SideState}
    assert {type(entry) for side in sides for entry in side.segments} == {SegmentEntry}
    assert {type(entry) for side in sides for entry in side.marks} == {MarksEntry}
    for one in kept:
        plain = PLAIN[type(one)]
        again = plain.load(plain.dump(one))
        assert type(again) is type(one)
        assert plain.dump(again) == plain.dump(one)
        assert pickle.dumps(again) == pickle.dumps(plain.load(plain.dump(again)))


PLAIN = {WorkerState: WORKERS, RouterState: ROUTERS, KeyRouterState: key_router.STATES}


class Evil:
    def __reduce__(self) -> Any:
        return os.mkdir, ("evil",)


@pytest.mark.parametrize("name", ["memory", "waiting-left"])
def test_a_pickle_that_runs_code_is_refused(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for evil in (Evil(), operator.itemgetter(1), os.system):
        run = joining("ordered", str(tmp_path))
        before = states()["ordered"]
        run.states = [Dictionary({**one, name: pickle.dumps(evil)}) for one in before["workers"]]
        with pytest.raises(sj.StateError, match=r"the state is damaged: UnpicklingError: .* is not allowed here"):
            run.step([stream(3).slice(40, 20)], [stream(11).slice(40, 20)])
    assert not (tmp_path / "evil").exists()


if __name__ == "__main__":
    write()
