"""The sizes of a BI-Sort worker, the layouts that follow from them, and where its arrays lie in external memory.

Invariant: the arrays do not overlap. The main array exists twice, because a merge that several mergers share cannot
be done in place: they read one and write the other, and the two change roles.

    0              subwindow        2 * subwindow    + batch            + 2 * batch
    | main array 0 | main array 1   | batch          | results          |

A result record is two words, idstart and idend, so that the two can be written at different times.
"""

from __future__ import annotations

from dataclasses import dataclass

from amaranth import Shape, ShapeLike, Signal, Value, signed
from amaranth.lib import data
from amaranth.utils import ceil_log2

from ...errors import ArgumentError


@dataclass(frozen=True)
class BiSortShape:
    """What a worker is built for.

    `partitions` is P, the length of the index; a partition is `subwindow / partitions` tuples, whether the subwindow
    is full or not, so the index of a subwindow that is still filling is only partly in use. `buffer` is how many words
    lie between the memory and each unit that reads a stream: as many as the memory's latency, or the stream pauses.
    `turns` is how many pieces of a probing batch there are per prober.
    """

    subwindow: int = 1024
    partitions: int = 64
    batch: int = 64
    mergers: int = 8
    probers: int = 8
    key_width: int = 32
    value_width: int = 32
    buffer: int = 32
    turns: int = 2

    def __post_init__(self) -> None:
        for name in ("subwindow", "partitions", "batch", "mergers", "probers", "key_width", "value_width", "turns"):
            if getattr(self, name) < 1:
                raise ArgumentError(f"{name} is {getattr(self, name)}; it must be at least 1")
        if self.key_width > 64 or self.value_width > 62:
            raise ArgumentError(
                f"key_width is {self.key_width} and value_width is {self.value_width}; at most 64 and 62 are possible"
            )
        if self.buffer < 2:
            raise ArgumentError(f"buffer is {self.buffer}; it must be at least 2")
        size, rest = divmod(self.subwindow, self.partitions)
        if rest or size & (size - 1):
            raise ArgumentError(
                f"subwindow is {self.subwindow} and partitions is {self.partitions}; "
                "there must be a power of two of tuples in each partition"
            )
        if self.word.size < ceil_log2(self.subwindow + 1):
            raise ArgumentError(f"key_width + value_width is {self.word.size}; a place in the subwindow does not fit")

    @property
    def partition_size(self) -> int:
        return self.subwindow // self.partitions

    @property
    def word(self) -> data.StructLayout:
        """A tuple, and what a memory access moves."""
        return data.StructLayout({"value": self.value_width, "key": signed(self.key_width)})

    def pack(self, key: int, value: int) -> int:
        """A tuple as the bits of a word."""
        return (key & ((1 << self.key_width) - 1)) << self.value_width | value

    def unpack(self, word: int) -> tuple[int, int]:
        key, value = word >> self.value_width, word & ((1 << self.value_width) - 1)
        return key - (key >> (self.key_width - 1) << self.key_width), value

    @property
    def bound(self) -> data.StructLayout:
        """Tuples with a smaller key lie before the bound. One bit more than a key: it may lie behind the largest.

        `record` is where in the results the answer goes: 2 * i or 2 * i + 1 for the i-th probing tuple.
        """
        return data.StructLayout({"record": range(2 * self.batch), "key": signed(self.key_width + 1)})

    @property
    def target(self) -> data.StructLayout:
        """A bound and its target partition; `fresh` where that differs from the partition of the bound before."""
        return data.StructLayout({"bound": self.bound, "partition": range(self.partitions), "fresh": 1})

    @property
    def band(self) -> data.StructLayout:
        """key BETWEEN probe - below AND probe + above; negative ones move the band to one side."""
        return data.StructLayout({"below": signed(self.key_width + 1), "above": signed(self.key_width + 1)})

    @property
    def write(self) -> data.StructLayout:
        return data.StructLayout({"data": self.word, "address": self.address})

    @property
    def burst(self) -> data.StructLayout:
        """So many words from an address on; none are allowed."""
        return data.StructLayout({"count": self.place, "address": self.address})

    @property
    def piece(self) -> data.StructLayout:
        """A stretch of the probing batch."""
        return data.StructLayout({"count": range(self.batch + 1), "offset": range(self.batch)})

    @property
    def place(self) -> Shape:
        """Holds a place in the subwindow or a length of it, and the length of a batch."""
        return Shape.cast(range(max(self.subwindow, self.batch) + 1))

    @property
    def address(self) -> Shape:
        return Shape.cast(range(self.memory_size))

    @property
    def batch_base(self) -> int:
        return 2 * self.subwindow

    @property
    def result_base(self) -> int:
        return self.batch_base + self.batch

    @property
    def memory_size(self) -> int:
        return self.result_base + 2 * self.batch

    @property
    def read_ports(self) -> int:
        return 2 * self.mergers + 3 * self.probers

    @property
    def write_ports(self) -> int:
        return self.mergers + self.probers


def signals(shape: ShapeLike, *names: str) -> tuple[Signal, ...]:
    """Signals of the same shape. Amaranth cannot see the names that several get in one assignment."""
    return tuple(Signal(shape, name=name) for name in names)


def ceil_div(value: Value, divisor: int) -> Value:
    """value / divisor, rounded up, by a multiplication with a constant, which is exact for every value."""
    dividend = value + (divisor - 1)
    shift = len(dividend) + ceil_log2(divisor)
    return (dividend * -(-(1 << shift) // divisor)) >> shift
