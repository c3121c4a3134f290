"""Streams of thousands of rows, so that subwindows fill up, expire and reopen, and payload is let go of.

The product's structures keep their real sizes. Too long for the oracle, the streams are judged by the same rules on
NumPy matrices; on short streams the two must agree.
"""

from __future__ import annotations

import itertools
import random
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest

import streamjoin as sj
from streamjoin import CountWindow, TimeWindow, oracle, testing

from .. import constants
from ..long import LONG
from ..predicates import BAND, KEY
from .engines import HOWS, ORDERS

Integers = npt.NDArray[np.int64]
Letter = Literal["l", "r"]
NONE = 1 << 60
"""The row number of a partner that is not there: it comes after all others."""

PREDICATES = {
    KEY: lambda l, r: l == r,
    BAND: lambda l, r: abs(l - r) <= 1,
    "l.k > 0 AND abs(l.k - r.k) <= 2": lambda l, r: (l > 0) & (abs(l - r) <= 2),
}


@dataclass
class Streams:
    """What is pushed: per push the stream, the timestamps and the keys. `time` is False without a time column."""

    pushes: list[tuple[Letter, Integers, Integers]]
    windows: tuple[Any, Any]
    on: str = "l.k = r.k"
    lateness: int = 0
    time: bool = True
    polls: list[bool] = field(default_factory=list)
    """After which pushes to poll; all of them if it is empty."""

    def of(self, stream: Letter) -> tuple[Integers, Integers, npt.NDArray[np.bool_]]:
        """Timestamps (or places in the order of pushing) and keys of a stream, and which rows are not late."""
        none = np.empty(0, np.int64)
        times, keys, kept = [none], [none], [none.astype(bool)]
        furthest, pushed = None, 0
        for which, t, k in self.pushes:
            if which == stream:
                late = self.time and furthest is not None
                times.append(t if self.time else np.arange(pushed, pushed + len(t)))
                keys.append(k)
                kept.append(furthest - t <= self.lateness if late else np.ones(len(t), bool))  # type: ignore[operator]
                if len(t):
                    furthest = int(t.max()) if furthest is None else max(furthest, int(t.max()))
            pushed += len(t)
        return np.concatenate(times), np.concatenate(keys), np.concatenate(kept)


def matches(streams: Streams, l: tuple[Integers, Integers], r: tuple[Integers, Integers]) -> npt.NDArray[np.bool_]:
    """Which pairs match, as a matrix: one sees the other in its window, and the predicate is true."""
    (lt, lk), (rt, rk) = l, r
    left_window, right_window = streams.windows
    places = []
    for t in (lt, rt):  # each stream's own order: by time, then by arrival
        place = np.empty(len(t), np.int64)
        place[np.argsort(t, kind="stable")] = np.arange(len(t))
        places.append(place)
    lefts_up_to = np.searchsorted(np.sort(lt), rt, side="right")
    rights_before = np.searchsorted(np.sort(rt), lt, side="left")
    result = np.empty((len(lt), len(rt)), bool)
    for start in range(0, len(lt), 256):
        cut = slice(start, start + 256)
        left, right = lt[cut, None], rt[None, :]
        if isinstance(left_window, TimeWindow):
            left_is_seen = (left <= right) & (right - left < left_window.amount)
        else:
            left_is_seen = (left <= right) & (places[0][cut, None] >= lefts_up_to[None, :] - left_window.rows)
        if isinstance(right_window, TimeWindow):
            right_is_seen = (right <= left) & (left - right < right_window.amount)
        else:
            right_is_seen = (right < left) & (places[1][None, :] >= rights_before[cut, None] - right_window.rows)
        result[cut] = (left_is_seen | right_is_seen) & PREDICATES[streams.on](lk[cut, None], rk[None, :])
    return result


def expected(streams: Streams, how: str) -> tuple[Integers, Integers]:
    """The row numbers of both sides of every result, in the order of sorted results."""
    (lt, lk, l_kept), (rt, rk, r_kept) = streams.of("l"), streams.of("r")
    l_rows, r_rows = np.flatnonzero(l_kept), np.flatnonzero(r_kept)
    matrix = matches(streams, (lt[l_kept], lk[l_kept]), (rt[r_kept], rk[r_kept]))
    none = np.empty(0, np.int64)
    left, right = [none], [none]

    def add(lefts: Integers | None, rights: Integers | None) -> None:
        count = len(lefts if lefts is not None else rights)  # type: ignore[arg-type]
        left.append(np.full(count, NONE) if lefts is None else lefts)
        right.append(np.full(count, NONE) if rights is None else rights)

    if how in ("inner", "left", "right", "full"):
        l, r = np.nonzero(matrix)
        add(l_rows[l], r_rows[r])
    if how in ("left", "full", "anti"):
        add(l_rows[~matrix.any(1)], None)
    if how in ("right", "full"):
        add(None, r_rows[~matrix.any(0)])
    if how == "semi":
        add(l_rows[matrix.any(1)], None)
    return in_order(streams, np.concatenate(left), np.concatenate(right))


def result_times(streams: Streams, left: Integers, right: Integers) -> Integers:
    lt, rt = (np.append(streams.of(s)[0], -NONE) for s in ("l", "r"))  # type: ignore[arg-type]
    return np.maximum(lt[np.where(left == NONE, -1, left)], rt[np.where(right == NONE, -1, right)])


def in_order(streams: Streams, left: Integers, right: Integers) -> tuple[Integers, Integers]:
    order = np.lexsort((right, left, result_times(streams, left, right)))
    return left[order], right[order]


def pairs_of(table: pa.Table) -> tuple[Integers, Integers]:
    left = table["ln"].fill_null(NONE).to_numpy()
    return left, table["rn"].fill_null(NONE).to_numpy() if "rn" in table.column_names else np.full(len(left), NONE)


def judge(streams: Streams, how: str, order: str, index: str = "auto") -> int:
    """Run the join and compare: which pairs, in which sequence, with which payload, and every watermark's promise."""
    seen = {"l": 0, "r": 0}
    polled: list[pa.Table] = []
    promises: list[int | None] = []  # before each poll: the largest watermark that was read so far
    promise: int | None = None

    def read_watermark() -> None:
        nonlocal promise
        watermark = join.watermark
        if watermark is not None:
            promise = watermark if promise is None else max(promise, watermark)

    arguments: dict[str, Any] = {"time": "t", "lateness": streams.lateness} if streams.time else {}
    schemas = [pa.schema({"t": pa.int64(), "k": pa.int64(), name: pa.int64()}) for name in ("ln", "rn")]
    with sj.WindowJoin(
        *schemas, on=streams.on, window=streams.windows, how=how, order=order, index=index, **arguments
    ) as join:
        for i, (stream, t, k) in enumerate(streams.pushes):
            rows = np.arange(seen[stream], seen[stream] + len(t))
            seen[stream] += len(t)
            push, schema = (join.push_left, schemas[0]) if stream == "l" else (join.push_right, schemas[1])
            push(pa.table([t, k, rows], schema=schema))
            read_watermark()
            if not streams.polls or streams.polls[i]:
                promises.append(promise)
                polled.append(join.poll())
                read_watermark()
                if order == "punctuated" and join.watermark is not None:
                    assert polled[-1].schema.metadata == {b"streamjoin.watermark": str(join.watermark).encode()}
        promises.append(promise)
        polled.append(join.finish())
        metrics = join.metrics()
    whole = pa.concat_tables(table.replace_schema_metadata(None) for table in polled)
    found, wanted = pairs_of(whole), expected(streams, how)
    assert metrics["out"] == len(wanted[0])
    compare(found if order == "sorted" else in_order(streams, *found), wanted)
    check_payload(streams, whole, found)
    for table, promised in zip(polled, promises, strict=True):
        if promised is not None and table.num_rows:
            earliest = int(result_times(streams, *pairs_of(table)).min())
            assert earliest >= promised, f"a result at {earliest} after the watermark {promised}"
    return len(wanted[0])


def compare(found: tuple[Integers, Integers], wanted: tuple[Integers, Integers]) -> None:
    together = [np.stack(pair, axis=1) for pair in (found, wanted)]
    if not np.array_equal(*together):
        rows = [{(int(l), int(r)) for l, r in pairs} for pairs in together]
        missing, extra = sorted(rows[1] - rows[0])[:5], sorted(rows[0] - rows[1])[:5]
        counts = f"{len(together[0])} rows, expected {len(together[1])}"
        why = f"missing {missing}, too many {extra}" if missing or extra else "doubled or in the wrong sequence"
        raise AssertionError(f"{counts}; {why}")


def check_payload(streams: Streams, table: pa.Table, pairs: tuple[Integers, Integers]) -> None:
    """Every row number comes with the columns it was pushed with."""
    sides: list[tuple[Letter, str]] = [("l", "k"), ("r", "k_right")]
    for (stream, column), rows in zip(sides, pairs, strict=True):
        if column in table.column_names:
            keys = np.append(streams.of(stream)[1], NONE)
            assert np.array_equal(table[column].fill_null(NONE).to_numpy(), keys[np.where(rows == NONE, -1, rows)])


# --- Random streams ----------------------------------------------------------------------------------


def random_streams(
    seed: int,
    lengths: tuple[int, ...] = (3000, 4500, 6000),
    domains: tuple[int, ...] = (100, 1000, 100_000),
    sizes: tuple[int, ...] = (1, 50, 400, 5000),
) -> Streams:
    """Disorder, lateness, ties, windows, batch cuts and interleaving all drawn from the seed."""
    rng, choose = np.random.default_rng(seed), random.Random(seed).choice
    disorder = choose([0, 5, 300, 3000])
    lateness = choose([0, disorder // 2, disorder, 2 * disorder])
    domain = choose(domains)
    windows = tuple(choose([TimeWindow(choose(sizes)), CountWindow(choose(sizes))]) for _ in "lr")
    time = any(isinstance(window, TimeWindow) for window in windows) or choose([True, False])
    batches: dict[Letter, list[tuple[Letter, Integers, Integers]]] = {"l": [], "r": []}
    for stream, cut in batches.items():
        n = choose(lengths)
        t = np.cumsum(rng.integers(0, choose([2, 3]), n)) - rng.integers(0, disorder + 1, n)
        k = rng.integers(0, domain, n)
        size = choose([17, 300, 2500, 10_000, None])
        table = pa.table({"t": t, "k": k})
        for batch in testing.batches(table, size, seed=seed):
            cut.append((stream, batch["t"].to_numpy(), batch["k"].to_numpy()))
    sequence = ["l"] * len(batches["l"]) + ["r"] * len(batches["r"])
    if choose([True, True, False]):
        rng.shuffle(sequence)
    queues = {stream: iter(cut) for stream, cut in batches.items()}
    pushes = [next(queues[stream]) for stream in sequence]  # type: ignore[index]
    polls = [bool(poll) for poll in rng.random(len(pushes)) < choose([0.1, 0.5, 0.9])]
    return Streams(pushes, windows, choose(list(PREDICATES)), lateness if time else 0, time, polls)


WAYS = list(itertools.product(HOWS, ORDERS))


@pytest.mark.parametrize("seed", range(27 if LONG else len(WAYS)))
def test_random_long_streams(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    how, order = WAYS[seed % len(WAYS)]
    if seed % 2:  # what lies beyond is let go of early, and subwindows are many
        constants.replace(monkeypatch, RELEASE_ROWS=512, SMALLEST_SUBWINDOW=128)
    streams = random_streams(1000 + seed)
    judge(streams, how, order, "scan" if seed % 5 == 0 else "auto")


@pytest.mark.parametrize("way", WAYS, ids="-".join)
def test_the_reference_agrees_with_the_oracle(way: tuple[str, str]) -> None:
    """On streams short enough for both."""
    how, order = way
    found = 0
    for seed in range(12):
        streams = random_streams(7000 + 100 * WAYS.index(way) + seed, (1, 40, 70), (1, 3, 9), (1, 4, 20, 300))
        sides = []
        for stream in ("l", "r"):
            times, keys, _ = streams.of(stream)  # type: ignore[arg-type]
            sides.append([{"t": int(t), "k": int(k)} for t, k in zip(times, keys, strict=True)])
        wanted = oracle.join_rows(
            *sides,
            lambda l, r, on=streams.on: bool(PREDICATES[on](l["k"], r["k"])),
            streams.windows,
            ("t", "t") if streams.time else None,
            [("left" if stream == "l" else "right", len(t)) for stream, t, _ in streams.pushes],
            streams.lateness,
            how,  # type: ignore[arg-type]
        )
        pairs = np.array([[NONE if n is None else n for n in pair] for pair in wanted], np.int64).reshape(-1, 2)
        compare(expected(streams, how), (pairs[:, 0], pairs[:, 1]))
        found += judge(streams, how, order)
    assert found


# --- Single findings ---------------------------------------------------------------------------------


def push(stream: Letter, times: list[int], key: int) -> tuple[Letter, Integers, Integers]:
    return stream, np.array(times, np.int64), np.full(len(times), key, np.int64)


def mirrored(streams: Streams) -> Streams:
    pushes: list[Any] = [("r" if stream == "l" else "l", t, k) for stream, t, k in streams.pushes]
    return Streams(pushes, streams.windows[::-1], streams.on, streams.lateness, streams.time, streams.polls)


@pytest.mark.parametrize("released", [1 << 16, 256])
@pytest.mark.parametrize("how", HOWS)
def test_rows_released_out_of_their_order(how: str, released: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first row is the latest of its batch: 2,000 rows with larger numbers open, meet and close before it."""
    constants.replace(monkeypatch, RELEASE_ROWS=released)
    streams = Streams(
        [
            push("l", [900] + [1 + i % 400 for i in range(2000)], 1),
            push("r", [0], 1),
            push("r", [500], 9),  # rows 1 to 2,000 are let through and match; row 0 waits
            push("l", [5000] * 5000, 7),
            push("r", [6000], 9),
            push("l", [7000], 7),
            push("r", [10_500], 1),  # row 0 meets a second partner, most others' windows have closed
            push("l", [30_000] * 3, 1),
            push("r", [30_001] * 3, 1),
        ],
        (TimeWindow(10_000), TimeWindow(10_000)),
    )
    assert judge(streams, how, "sorted") > 0
    judge(mirrored(streams), how, "sorted")


@pytest.mark.parametrize("how", ["left", "full", "semi", "anti"])
def test_rows_that_met_long_ago_are_not_lonely(how: str) -> None:
    """Rows that have met a partner stay matched when the buffer of flags moves on."""
    sizes = {"left": 2001 + 5001, "full": 2001 + 5001 + 2, "semi": 2001, "anti": 5001}
    streams = Streams(
        [
            push("l", [900] + [1 + i % 400 for i in range(2000)], 1),
            push("r", [0], 1),
            push("r", [500], 9),
            push("l", [5000] * 5000, 7),
            push("r", [6000], 9),
            push("l", [7000], 7),
        ],
        (TimeWindow(10_000), TimeWindow(10_000)),
        polls=[False] * 6,
    )
    assert judge(streams, how, "sorted") == sizes[how]


@pytest.mark.parametrize("first", [1024, 2048])
@pytest.mark.parametrize("on", PREDICATES)
@pytest.mark.parametrize("younger", [10, 2000])
def test_the_newest_subwindow_expires_before_an_older_one(on: str, first: int, younger: int) -> None:
    """A full subwindow stays while the next one, whose timestamps are earlier, expires: what is left has no room."""
    streams = Streams(
        [
            push("l", [1000] * first, 1),
            push("l", [500] * 10, 1),
            push("r", [1500], 1),
            push("l", [1050] * younger, 1),
            push("r", [1040, 1120], 1),
            push("l", [1600] * 5, 1),
        ],
        (TimeWindow(100), TimeWindow(100)),
        on,
        lateness=600,
    )
    wanted = first + younger + younger + 5  # 1040 meets both, 1120 only the younger, 1600 nobody but 1500 is too old
    assert judge(streams, "inner", "none") == wanted - 5
    judge(streams, "full", "punctuated")
    judge(mirrored(streams), "inner", "none")


DAY = 86_400_000


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("other", [pa.date64(), pa.date32(), pa.timestamp("s"), pa.timestamp("ms"), pa.timestamp("ns")])
def test_date64_tells_time(other: pa.DataType, order: str) -> None:
    days = [0, 1, 2, 3, 499, 1000]
    left = pa.table({"t": pa.array([day * DAY for day in days], pa.int64()).cast(pa.date64()), "ln": range(6)})
    right_days = [500, 2, 3, 1001]
    ticks = pa.array([day * DAY for day in right_days], pa.int64())
    right = pa.table({"t": ticks.cast(pa.timestamp("ms")).cast(other), "rn": range(4)})
    wanted = sorted(
        (max(l, r), i, j)
        for i, l in enumerate(days)
        for j, r in enumerate(right_days)
        if abs(l - r) < 2
    )  # fmt: skip
    for tables, names in (((left, right), ("ln", "rn")), ((right, left), ("rn", "ln"))):
        out = sj.join(*tables, on="TRUE", window="2 days", time="t", order=order)  # type: ignore[arg-type]
        found = list(zip(*(out[name].to_pylist() for name in ("ln", "rn")), strict=True))
        testing.assert_same_rows(found, [(i, j) for _, i, j in wanted], ordered=order == "sorted" and names[0] == "ln")
    assert out.schema.field("t_right").type == pa.date64()


def test_date64_far_apart_never_joins() -> None:
    left = pa.table({"t": pa.array([0, 1000 * DAY], pa.int64()).cast(pa.date64()), "k": [1, 2]})
    right = pa.table({"t": pa.array([500 * DAY], pa.int64()).cast(pa.date64()), "k": [1]})
    assert sj.join(left, right, on="TRUE", window="2 days", time="t").num_rows == 0
    seconds = right.set_column(0, "t", pa.array([500 * 86_400], pa.timestamp("s")))
    assert sj.join(left, seconds, on="TRUE", window="2 days", time="t").num_rows == 0
    assert sj.join(left, seconds, on="TRUE", window="501 days", time="t").num_rows == 2
