"""Whatever Spark does to a query, its sink ends with the rows of the oracle; and a bug in the product is seen.

`make test` runs some hundreds of schedules, `make torture` a hundred thousand. A failure names the schedule, and
`Schedule(number, directory).run()` repeats it. Each mutant is a bug that the product must not have.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from streamjoin.arrays import INT64_MIN
from streamjoin.spark import arrivals, closest, pack, segments
from streamjoin.spark.marks import Marks
from streamjoin.spark.questions import Questions
from streamjoin.spark.router import Router
from streamjoin.spark.sealed_values import SealedState
from streamjoin.spark.side_segments import SideSegments
from streamjoin.spark.spec import JoinSpec
from streamjoin.spark.step import Step

from ..long import LONG
from . import limits
from .schedules import CASES, Schedule

pytestmark = pytest.mark.usefixtures("few_kernels")
PARTS, PER_PART = (100, 1_000) if LONG else (4, 50)
MOST = 80
"""Schedules after which a mutant must have been seen."""


@pytest.fixture(autouse=True)
def small_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    limits.small(monkeypatch)


@pytest.mark.parametrize("part", range(PARTS))
def test_the_sink_has_the_rows_of_the_oracle(part: int, tmp_path: Path) -> None:
    for number in range(part * PER_PART, (part + 1) * PER_PART):
        Schedule(number, tmp_path / str(number)).run()
        shutil.rmtree(tmp_path / str(number), ignore_errors=True)


def test_a_schedule_can_be_repeated(tmp_path: Path) -> None:
    journals = []
    for name in ("one", "other"):
        for number in (3, 16):
            schedule = Schedule(number, tmp_path / name)
            schedule.run()
            journals.append(schedule.journal)
    assert journals[:2] == journals[2:]
    assert sum(map(len, journals[:2])) > 40, "little has happened"


# -- mutants -------------------------------------------------------------------------------------------------------

Patch = pytest.MonkeyPatch
Mutant = Callable[[Patch], None]
MUTANTS: dict[str, tuple[Mutant, dict[str, Any]]] = {}
"""By name: how the bug is planted, and the cases that it concerns."""


def mutant(**concerns: Any) -> Callable[[Mutant], Mutant]:
    def add(plant: Mutant) -> Mutant:
        MUTANTS[plant.__name__] = plant, concerns
        return plant

    return add


def numbers(routing: str = "", how: str = "", match: str = "all", window: str = "") -> Iterator[int]:
    """The first schedules of some cases; `how` and the others are names, one space between two."""
    number = 100_000
    found = 0
    while found < MOST:
        case = dict(zip(("routing", "how", "match", "window"), CASES[number % len(CASES)], strict=True))
        wanted = {"routing": routing, "how": how, "match": match, "window": window}
        if all(not names or case[key] in names.split() for key, names in wanted.items()):
            found += 1
            yield number
        number += 1


@mutant(how="inner")
def a_segment_is_put_twice(patch: Patch) -> None:
    save = SideSegments.save

    def twice(self: SideSegments) -> None:
        save(self)
        self._kept.segments += self._kept.segments[-1:]

    patch.setattr(SideSegments, "save", twice)


@mutant(how="full", routing="broadcast", window="time")
def a_mark_is_lost(patch: Patch) -> None:
    put = Marks._put
    patch.setattr(Marks, "_put", lambda self, rows: put(self, rows.slice(1)) if rows.num_rows > 1 else None)


@mutant(how="full", routing="broadcast", window="time")
def a_mark_is_released_too_early(patch: Patch) -> None:
    close = Marks.close

    def early(self: Marks, start: int, floor: int) -> list[pa.Table]:
        found = close(self, start, floor)
        self._drop(list(self._kept.marks) if start < floor else [])
        return found

    patch.setattr(Marks, "close", early)


@mutant(how="full left right anti", window="time")
def bits_of_rows_that_have_met_a_partner_are_lost(patch: Patch) -> None:
    save = SideSegments.save

    def without(self: SideSegments) -> None:
        save(self)
        self._kept.met = bytes(len(self._kept.met))

    patch.setattr(SideSegments, "save", without)


@mutant(how="inner left")
def a_cache_file_is_trusted_whatever_segment_it_is_of(patch: Patch) -> None:
    patch.setattr(segments.Cache, "_label", lambda self, name: "any")


@mutant(how="inner left")
def cache_files_have_names_that_were_used_before(patch: Patch) -> None:
    patch.setattr(SideSegments, "_new_file", lambda self, name: f"{self._side}-{len(self._segments)}")


@mutant(window="count mixed")
def blobs_are_not_sorted_before_order_counts(patch: Patch) -> None:
    patch.setattr(arrivals, "sorted", lambda items, key: list(items), raising=False)


@mutant(window="count mixed")
def rows_that_wait_are_forgotten(patch: Patch) -> None:
    patch.setattr(Step, "_with_waiting", lambda self, side, new: new)


@mutant(how="inner")
def an_expired_segment_stays_in_the_state(patch: Patch) -> None:
    remove = SealedState.remove
    patch.setattr(SealedState, "remove", lambda self, name: None if name.startswith("left") else remove(self, name))


@mutant()
def a_failed_attempt_moves_the_watermark(patch: Patch) -> None:
    seen: dict[tuple[str, str], int] = {}
    progress, reached = JoinSpec.progress, JoinSpec.reached

    def told(self: JoinSpec, furthest: Any) -> Any:
        known = {side: max(time or INT64_MIN, seen.get((self.identity, side), INT64_MIN))
                 for side, time in furthest.items()}  # fmt: skip
        return progress(self, {side: None if time == INT64_MIN else time for side, time in known.items()})

    def remembered(self: JoinSpec, furthest: Any) -> Any:
        found = reached(self, furthest)
        seen.update({(self.identity, side): time for side, time in found.items() if time is not None})
        return found

    patch.setattr(JoinSpec, "progress", told)
    patch.setattr(JoinSpec, "reached", remembered)


@mutant(routing="range", window="time", how="inner left")
def splitters_depend_on_the_order_of_rows(patch: Patch) -> None:
    patch.setattr(pack, "sampled", lambda keys, samples: np.sort(keys[: len(keys) // 2 + 1]))


@mutant(routing="range", window="time", how="inner left")
def splitters_of_another_attempt_are_used(patch: Patch) -> None:
    last: dict[str, Any] = {}
    follow = Router._follow

    def of_another(self: Router, kept: Any, living: list[Any], messages: Any) -> None:
        follow(self, kept, living, messages)
        own = living[-1].splitters
        living[-1].splitters = last.get(self._spec.identity, own)
        last[self._spec.identity] = own

    patch.setattr(Router, "_follow", of_another)


@mutant(how="inner")
def an_expired_segment_is_dropped_a_tick_too_early(patch: Patch) -> None:
    expire = SideSegments.expire
    patch.setattr(
        SideSegments, "expire", lambda self, floor: expire(self, None if floor is None or floor > 10**5 else floor + 1)
    )


@mutant(how="full left right semi anti", routing="broadcast blocks")
def settling_asks_too_few_workers(patch: Patch) -> None:
    tell = Questions.tell
    patch.setattr(Questions, "tell", lambda self, side, table: tell(self, side, table.slice(0, table.num_rows // 2)))


@mutant(how="full left right semi anti", routing="broadcast")
def a_worker_believes_it_knows_all_partners(patch: Patch) -> None:
    patch.setattr(JoinSpec, "settles", lambda self, side: False)


@mutant(how="full left right anti", routing="range blocks", window="time")
def every_worker_answers_for_a_row(patch: Patch) -> None:
    arrive = SideSegments.arrive
    patch.setattr(SideSegments, "arrive", lambda self, table, live, home: arrive(self, table, live, None))


@mutant(routing="broadcast", how="inner", window="time")
def the_owner_of_a_row_depends_on_its_place(patch: Patch) -> None:
    patch.setattr(
        Step, "_owner", lambda self, side, batch: np.arange(len(batch.row), dtype=np.int64) % len(self._spec.workers)
    )


@mutant(match="latest nearest", how="inner left")
def a_candidate_is_lost(patch: Patch) -> None:
    add = Marks.add
    patch.setattr(Marks, "add", lambda self, rows, floor: add(self, rows.slice(0, rows.num_rows - 1), floor))


@mutant(match="latest nearest", how="inner left")
def the_first_candidate_is_taken_for_the_closest(patch: Patch) -> None:
    patch.setattr(closest, "_closest", lambda keys: np.unique(keys[0], return_index=True)[1])


@pytest.mark.parametrize("name", MUTANTS)
def test_a_planted_bug_is_seen(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plant, concerns = MUTANTS[name]
    plant(monkeypatch)
    for number in numbers(**concerns):
        try:
            Schedule(number, tmp_path / str(number)).run()
        except Exception:
            return
    pytest.fail(f"{MOST} schedules have not seen it")
