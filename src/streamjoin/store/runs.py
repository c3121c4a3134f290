"""Ascending runs of words, and the table that describes the runs of a whole window to a kernel.

A run has samples: the first word of each partition of 16 words. Behind its words lies a padding of the largest word, so
that a partition can always be read whole.
"""

from __future__ import annotations

import numpy as np

from ..arrays import Words
from ..compile.cache import compiled
from .spare_words import spare_words
from .words import AT_ONCE, RunPlace

SAMPLE = AT_ONCE
"""Words per partition: two cache lines, compared at once."""
STRIDE = 8
"""Samples that are compared at once."""

(
    WORDS, COUNT, SAMPLES, SAMPLE_COUNT, FIRST_ROW, ROWS, FIRST_COORDINATE, COORDINATES, LOWEST, HIGHEST, RECORD, SLOTS
) = range(12)  # fmt: skip
"""The columns of the run table, which has a line for each run:

WORDS, COUNT, SAMPLES, SAMPLE_COUNT: the run's `RunPlace`.
FIRST_ROW, ROWS: the row number of the subwindow's first tuple, and the address of all of them (0: they count up).
FIRST_COORDINATE, COORDINATES: the same of the coordinates.
LOWEST, HIGHEST: no tuple has a lower or a higher coordinate.
RECORD: the bytes from one tuple's slots to the next one's.
SLOTS and what follows: the addresses of the stored slots that the condition reads.
"""


class Run:
    """Ascending words and their samples, both with padding behind."""

    __slots__ = ("count", "place", "samples", "words")

    def __init__(self, words: Words, count: int, samples: Words | None = None) -> None:
        """`samples` may have the first word of each partition already."""
        self.words, self.count = words, count
        self.samples = room_for_samples(count) if samples is None else samples
        _sample(words, count, self.samples, samples is None)
        self.place = self._place()

    def _place(self) -> RunPlace:
        return RunPlace(self.words.ctypes.data, self.count, self.samples.ctypes.data, len(self.samples))

    def __getstate__(self) -> tuple[Words, int, Words]:
        return self.words, self.count, self.samples

    def __setstate__(self, state: tuple[Words, int, Words]) -> None:
        self.words, self.count, self.samples = state
        self.place = self._place()

    @property
    def view(self) -> Words:
        return self.words[: self.count]


def room_for_samples(count: int) -> Words:
    """An array for the samples of so many words, and their padding."""
    return spare_words(max(-(-count // SAMPLE), 1) + STRIDE)


def padded(count: int) -> int:
    """The length of an array for `count` words and the padding."""
    return (count // SAMPLE + 2) * SAMPLE


@compiled
def _sample(words, count, samples, all_of_them):  # type: ignore[no-untyped-def]
    """Note the first word of each partition, or only pad behind the last one; pad behind the last word."""
    for k in range(count, min(count + 2 * SAMPLE, len(words))):
        words[k] = np.uint64(0xFFFFFFFFFFFFFFFF)
    known = (count + SAMPLE - 1) // SAMPLE
    if all_of_them:
        for s in range(known):
            samples[s] = words[s * SAMPLE]
    for s in range(known, len(samples)):
        samples[s] = np.uint64(0xFFFFFFFFFFFFFFFF)
