"""What a BI-Sort worker must give, by numpy, and batches to try it on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamjoin.errors import StateError
from streamjoin.hardware.bi_sort import BiSortRun, BiSortShape, Insert, Probe, simulate_bi_sort
from streamjoin.hardware.bi_sort.steps import Step, check_steps
from streamjoin.hardware.bi_sort.worker import Operation

Keys = NDArray[np.int64]


class Finding(AssertionError):
    """The circuit did something wrong: `what` names it."""

    def __init__(self, what: str, detail: str = "") -> None:
        super().__init__(f"{what}: {detail}")
        self.what = what


def check(steps: Sequence[Step], shape: BiSortShape, **memory: Any) -> BiSortRun:
    """Run the steps and compare all that comes out with a stable sort and with searchsorted."""
    try:
        run = simulate_bi_sort(steps, shape, **{"simulator": "amaranth", "latency": 3, "bandwidth": 4, **memory})
    except StateError as error:
        raise Finding("hangs", str(error)) from error
    keys = values = np.empty(0, np.int64)
    expected, subwindows = [], []
    for step in check_steps(steps, shape):
        if step.operation == Operation.CLEAR:
            subwindows.append((keys, values))
            keys = values = keys[:0]
        elif step.operation == Operation.INSERT:
            keys, values = np.concatenate([keys, step.keys]), np.concatenate([values, step.values])
            order = np.argsort(keys, kind="stable")
            keys, values = keys[order], values[order]
        else:
            expected.append([interval(keys.tolist(), key, step.below, step.above) for key in step.keys.tolist()])
    subwindows.append((keys, values))
    for name, given, right in (("subwindows", run.subwindows, subwindows), ("probes", run.intervals, expected)):
        if len(given) != len(right):
            raise Finding(name, f"{len(given)} instead of {len(right)}")
    for number, (given_arrays, right_arrays) in enumerate(zip(run.subwindows, subwindows, strict=True)):
        for name, given_array, right_array in zip(
            ("main array", "order of equal keys"), given_arrays, right_arrays, strict=True
        ):
            if not np.array_equal(given_array, right_array):
                raise Finding(name, f"subwindow {number}: {given_array} instead of {right_array}")
    for number, (given, right) in enumerate(zip(run.intervals, expected, strict=True)):
        if given.tolist() != right:
            raise Finding("intervals", f"probe {number}: {given.tolist()} instead of {right}")
    for figures in run.figures:
        if figures.cycles < figures.bound:
            raise Finding("bandwidth", f"{figures.words} words in {figures.cycles} cycles")
        if figures.operation == Operation.INSERT and not figures.words_written == figures.size + figures.count:
            raise Finding("words written", f"{figures}")
    return run


def interval(keys: list[int], key: int, below: int, above: int) -> list[int]:
    """In Python's integers, which do not wrap around."""
    from bisect import bisect_left, bisect_right

    return [bisect_left(keys, key - below), bisect_right(keys, key + above)]


def draw(kind: str, rng: np.random.Generator, count: int, number: int, width: int) -> Keys:
    """The sorted keys of batch `number`."""
    least, largest = -(1 << (width - 1)), (1 << (width - 1)) - 1
    match kind:
        case "random":
            keys = rng.integers(-100, 100, count)
        case "duplicates":
            keys = rng.integers(-2, 3, count)
        case "all equal":
            keys = np.full(count, 7)
        case "increasing":
            keys = np.arange(count) + number * count
        case "decreasing":
            keys = np.arange(count) - number * count
        case "extreme":
            keys = rng.choice([least, least + 1, -1, 0, 1, largest - 1, largest], count)
        case _:
            raise ValueError(kind)
    return np.sort(keys).astype(np.int64)


KINDS = ("random", "duplicates", "all equal", "increasing", "decreasing", "extreme")


def scenario(kind: str, seed: int, shape: BiSortShape, batches: int, below: int = 2, above: int = 3) -> list[Step]:
    """Batches of that kind, some of them short, each followed by a probe."""
    rng = np.random.default_rng(seed)
    steps: list[Step] = []
    for number in range(batches):
        count = shape.batch if number % 2 == 0 else max(shape.batch - 1 - number, 1)
        steps.append(Insert(draw(kind, rng, count, number, shape.key_width)))
        probing = draw(kind, rng, max(shape.batch - number, 1), number, shape.key_width)
        steps.append(Probe(probing, below, above))
    return steps
