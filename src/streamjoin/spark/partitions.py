"""Worker numbers that Spark puts into different partitions.

`groupBy(worker)` sends a worker to the partition pmod(murmur3(worker), shuffle partitions). Of the numbers 0..P-1,
several would meet in one partition, and other partitions would stay empty.
"""

from __future__ import annotations

_SEED, _WORD = 42, 0xFFFFFFFF


def _rotated(value: int, by: int) -> int:
    return ((value << by) | (value >> (32 - by))) & _WORD


def murmur3(value: int) -> int:
    """Spark's hash of an int column: 32-bit Murmur3 of four bytes, with its seed, as a signed number."""
    mixed = _rotated((value & _WORD) * 0xCC9E2D51 & _WORD, 15) * 0x1B873593 & _WORD
    state = (_rotated(_SEED ^ mixed, 13) * 5 + 0xE6546B64) & _WORD
    state ^= 4
    state = (state ^ (state >> 16)) * 0x85EBCA6B & _WORD
    state = (state ^ (state >> 13)) * 0xC2B2AE35 & _WORD
    state ^= state >> 16
    return state - (1 << 32) if state >> 31 else state


def spread_workers(count: int, partitions: int) -> tuple[int, ...]:
    """`count` numbers, each in a partition of its own; there are at least as many partitions."""
    found: dict[int, int] = {}
    candidate = 0
    while len(found) < count:
        found.setdefault(murmur3(candidate) % partitions, candidate)
        candidate += 1
    return tuple(sorted(found.values()))
