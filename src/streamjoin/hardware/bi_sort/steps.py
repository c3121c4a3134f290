"""The steps that a worker carries out, checked before they reach the circuit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ...errors import ArgumentError
from .shape import BiSortShape
from .worker import Operation

Keys = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Insert:
    """A batch for the main array: ascending keys, and what is kept beside each (by default its number in the run)."""

    keys: ArrayLike
    values: ArrayLike | None = None


@dataclass(frozen=True, eq=False)
class Probe:
    """A batch that asks for the tuples with key BETWEEN probe - below AND probe + above; ascending keys."""

    keys: ArrayLike
    below: int = 0
    above: int = 0


@dataclass(frozen=True)
class Clear:
    """The subwindow expires."""


Step = Insert | Probe | Clear


@dataclass(frozen=True, eq=False)
class Checked:
    """A step that the worker can carry out."""

    operation: Operation
    keys: Keys
    values: Keys
    below: int = 0
    above: int = 0


def check_steps(steps: Sequence[Step], shape: BiSortShape) -> list[Checked]:
    """Batches must be sorted, as the manager node sorts them (PanJoin, section III-E), and must fit."""
    checked: list[Checked] = []
    nothing = np.empty(0, np.int64)
    size = inserted = 0
    for number, step in enumerate(steps):
        if isinstance(step, Clear):
            size = 0
            checked.append(Checked(Operation.CLEAR, nothing, nothing))
            continue
        keys = _integers(step.keys, f"keys of step {number}", shape.key_width)
        count = len(keys)
        if count > shape.batch:
            raise ArgumentError(f"step {number} has {count} tuples; a batch has at most {shape.batch}")
        if (keys[1:] < keys[:-1]).any():
            raise ArgumentError(f"the keys of step {number} do not ascend; sort the batch first")
        if isinstance(step, Probe):
            for name, offset in (("below", step.below), ("above", step.above)):
                if not -(1 << shape.key_width) <= offset < 1 << shape.key_width:
                    raise ArgumentError(
                        f"{name} of step {number} is {offset}; more than any two keys of {shape.key_width} bits differ"
                    )
            if step.below + step.above < 0:
                raise ArgumentError(f"below is {step.below} and above is {step.above}; the band ends before it begins")
            checked.append(Checked(Operation.PROBE, keys, np.zeros_like(keys), step.below, step.above))
            continue
        if step.values is None:
            values = np.arange(inserted, inserted + count) % (1 << shape.value_width)
        else:
            values = _integers(step.values, f"values of step {number}", shape.value_width, with_sign=False)
        if len(values) != count:
            raise ArgumentError(f"step {number} has {count} keys and {len(values)} values")
        size, inserted = size + count, inserted + count
        if size > shape.subwindow:
            raise ArgumentError(f"step {number} makes {size} tuples; the subwindow has {shape.subwindow}")
        checked.append(Checked(Operation.INSERT, keys, values))
    return checked


def words_to_move(steps: Sequence[Checked], shape: BiSortShape) -> int:
    """An estimate of the words that the steps move; it decides which simulator runs."""
    words = size = 0
    for step in steps:
        count = len(step.keys)
        if step.operation == Operation.INSERT:
            size += count
            words += 2 * size
        elif step.operation == Operation.PROBE:
            words += 4 * count + min(size, 2 * count * shape.partition_size)
        else:
            size = 0
    return words


def _integers(given: ArrayLike, name: str, width: int, with_sign: bool = True) -> Keys:
    least, behind = (-(1 << (width - 1)), 1 << (width - 1)) if with_sign else (0, 1 << width)
    array = np.asarray(given)
    if array.ndim != 1 or (array.size and array.dtype.kind not in "iu"):
        raise ArgumentError(f"the {name} are {array.dtype} of {array.ndim} dimensions; integers in a row are needed")
    if array.size and not least <= int(array.min()) <= int(array.max()) < behind:
        raise ArgumentError(f"the {name} go from {array.min()} to {array.max()}; {least} to {behind - 1} fit")
    return array.astype(np.int64)
