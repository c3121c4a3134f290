"""One hash table for all hashed tuples of a window.

Tuples have numbers, in the order of insertion. They lie in a ring of records, the one with number n at place
n % capacity. A bucket is a chain through the tuples of its hashes, from the newest to the oldest. `heads` has the
number of its newest tuple, and `following` of each tuple has that of the next older one. So a probe costs one chain,
however many subwindows there are, and nothing needs to be removed: a chain ends at the first number out of the ring.
It also ends where all older tuples have left the probing tuple's window. Older tuples have lower coordinates, but for
the `disorder`: the most by which the coordinate of a tuple was below that of one inserted before.

Numbers have 32 bits and wrap around. A number that was left in a bucket for so long that it is in use again leads to
tuples of another bucket, none of which has an equal key. A chain must lead to older tuples, or it ends.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from ..arrays import INT64_MAX, INT64_MIN, Array, Integers, Words
from ..compile.background import is_rehearsing
from ..compile.cache import compiled
from ..payload.segments import address_of
from ..predicate.condition import KERNEL_HEADER, ConditionText
from ..predicate.lower import Lowered
from ..side import Side, other
from ..tasks import Job, Walk, one_after_another, together
from .batch import Batch, PairSink, Probing
from .hashing import hash_keys
from .table_jobs import hash_job, link_job, store_and_link, store_job
from .words import COMPARED, NEXT, STOPPED, new_state

if TYPE_CHECKING:
    from .stored_side import StoredSide

SMALLEST, REHEARSED = 1 << 12, 1 << 9
"""Records of an empty table, and of one in a rehearsal: it has to grow."""
BUCKETS = 2
"""Buckets per record, at least."""
FIRST_NUMBER = 1 << 31
"""So that 0, which untouched buckets hold, is out of the ring for long."""
BLOCK = 128
"""Probing tuples that walk along their chains together."""
HASH_WORDS = 11
"""What all parts of a probe share, by place: 0: where the ring's five numbers lie. 1, 2: the heads, and how many there
are. 3 to 5: the hashes of probing tuples, how many they are, and in how many parts they probe. 6 to 9: their rows, the
lower and upper ends of their windows, and the floors. 10: whether left tuples probe. Addresses of their slots follow.
"""
MOVED = 1 << 13
"""Tuples that are moved to a larger ring at a time."""
LINE, HALF_LINE = 64, 32
"""Bytes. Records of up to half a line are as long as one, so none lies in two lines."""


def record_type(lowered: Lowered, stored: Side) -> np.dtype[Any]:
    """What is kept of a tuple, wide fields first: its slots by their numbers, its row and coordinate, and the chain."""
    slots = lowered.slots[stored]
    fields = [(str(number), np.dtype(slots[number].dtype)) for number in lowered.kept[stored]]
    fields += [("row", np.dtype(np.int64)), ("coordinate", np.dtype(np.int64)), ("following", np.dtype(np.uint32))]
    fields.sort(key=lambda field: -field[1].itemsize)
    offsets = np.cumsum([0, *(dtype.itemsize for _, dtype in fields)])
    size = HALF_LINE if offsets[-1] <= HALF_LINE else -(-int(offsets[-1]) // 16) * 16
    names, formats = zip(*fields, strict=True)
    return np.dtype({"names": names, "formats": formats, "offsets": offsets[:-1].tolist(), "itemsize": size})


class HashTable:
    """Invariant: the tuples numbered from `first` to before `end` are in the ring, each in the chain of its bucket."""

    def __init__(self, stored: StoredSide) -> None:
        lowered, mine = stored.lowered, stored.side == "right"
        self._stored = stored
        self._record = record_type(lowered, stored.side)
        self._own_keys = [pair[mine] for pair in lowered.hash_slots]
        self._probing_keys = [pair[not mine] for pair in lowered.hash_slots]
        self._names = [name for name in self._record.names or () if name != "following"]
        self.first = self.end = FIRST_NUMBER
        self._live: list[int] = []
        """Where the ranges of numbers begin that are in use."""
        self._highest, self.disorder, self._in_order_from = INT64_MIN, 0, FIRST_NUMBER
        self._allocate(REHEARSED if is_rehearsing() else SMALLEST)

    def _allocate(self, capacity: int) -> None:
        memory = np.empty(capacity * self._record.itemsize + LINE, np.uint8)
        memory = memory[-memory.ctypes.data % LINE :][: capacity * self._record.itemsize]
        self._records: Array = memory.view(self._record)
        self._heads = np.empty(BUCKETS * capacity, np.uint32)  # NumPy gets huge pages for this, but not for zeros
        self._heads.fill(0)

    @property
    def nbytes(self) -> int:
        return self._records.nbytes + self._heads.nbytes

    def open(self) -> int:
        """Begin a range of numbers; all that is inserted belongs to the newest one."""
        self._live.append(self.end)
        return self.end

    def release(self, start: int) -> None:
        """The tuples of a range are no longer needed."""
        self._live.remove(start)
        self.first = self._live[0] if self._live else self.end
        if self.first >= self._in_order_from:
            self.disorder = 0

    def insert(self, batch: Batch) -> None:
        together([self.inserting(batch)], one_after_another)

    def inserting(self, batch: Batch) -> Walk:
        """Take tuples in, in stages."""
        count, workers = len(batch), self._stored.workers
        self.reserve(count)
        fields = self._record.fields
        assert fields is not None
        own = {"row": batch.row, "coordinate": batch.coordinate}
        columns = [
            (own[name] if name in own else batch.slots[int(name)], fields[name][1]) for name in self._names
        ]  # fmt: skip
        keys, following = [batch.slots[number] for number in self._own_keys], fields["following"][1]
        if workers == 1:
            kept = [(np.ascontiguousarray(column), place) for column, place in columns]
            lines = np.array([(address_of(column), place, column.itemsize) for column, place in kept], np.int64)
            ring = address_of(self._records), len(self._records), self._record.itemsize
            store_and_link(lines, hash_keys(keys), self.end, *ring, self._heads, following)
        else:
            jobs = [store_job(columns, self._records, len(self._records), self.end, workers)]
            hashing = hash_job(keys, workers)
            if hashing is not None:
                jobs.append(hashing[0])
            yield jobs
            hashes = hash_keys(keys) if hashing is None else hashing[1]
            yield [link_job(hashes, self.end, self._heads, self._records, following, workers)]
        self._highest, disorder = disordered(batch.coordinate, self._highest)
        self.end += count
        if disorder:
            self.disorder, self._in_order_from = max(self.disorder, disorder), self.end

    def reserve(self, count: int) -> None:
        """Have room for so many more tuples."""
        needed = self.end + count - self.first
        if needed > len(self._records):
            self._grow(needed)

    def _grow(self, needed: int) -> None:
        """A larger ring with the same tuples. Some are moved and linked at a time, so that they stay in the cache."""
        old = self._records
        assert self._record.fields is not None
        following = self._record.fields["following"][1]
        self._allocate(1 << (needed + needed // 4).bit_length())
        new, start = self._records, self.first
        bytes_of_old, bytes_of_new = (ring.view(np.uint8).reshape(len(ring), -1) for ring in (old, new))
        while start < self.end:
            source, target = start & (len(old) - 1), start & (len(new) - 1)
            count = min(MOVED, self.end - start, len(old) - source, len(new) - target)
            bytes_of_new[target : target + count] = bytes_of_old[source : source + count]
            moved = new[target : target + count]
            hashes = hash_keys([np.ascontiguousarray(moved[str(number)]) for number in self._own_keys])
            link_job(hashes, start, self._heads, self._records, following, 1)()
            start += count

    def _tuples(self, start: int, stop: int) -> Array:
        """A copy of the records of these numbers."""
        records, count = self._records, stop - start
        place = start & (len(records) - 1)
        return np.concatenate([records[place : place + count], records[: max(place + count - len(records), 0)]])

    def batch(self, start: int, stop: int) -> Batch:
        """Some tuples as they are stored; nobody is said to be in their windows."""
        found = self._tuples(start, stop)
        slots: list[Any] = [None] * len(self._stored.lowered.slots[self._stored.side])
        for number in self._stored.lowered.kept[self._stored.side]:
            slots[number] = np.ascontiguousarray(found[str(number)])
        coordinate = np.ascontiguousarray(found["coordinate"])
        return Batch(np.ascontiguousarray(found["row"]), coordinate, coordinate, coordinate, slots)

    def _floors(self, low: Integers) -> Integers:
        """A tuple with a coordinate below these has no older one in its chain with a coordinate of at least `low`."""
        if not self.disorder:
            return low
        if self.disorder == INT64_MAX:  # or more
            return np.full(len(low), INT64_MIN)
        return np.where(low < INT64_MIN + self.disorder, INT64_MIN, low - np.int64(self.disorder))

    def _ring(self, start: int, stop: int) -> Integers:
        """What compiled code must know of the ring to look for these numbers."""
        return np.array([address_of(self._records), len(self._records) - 1, start, stop, self.end], np.int64)

    def probe(self, batch: Batch, start: int, stop: int, sink: PairSink) -> Iterator[int]:
        """Find the pairs of probing tuples with the tuples of these numbers."""
        hashes: Words = hash_keys([batch.slots[number] for number in self._probing_keys])
        records = self._records  # the kernel knows it only by its address
        kernel = self._stored.kernel(hash_source, "hash_probe")
        walk = np.empty((2, BLOCK), np.uint32)
        floors = self._floors(batch.low)
        arguments = (self._ring(start, stop), self._heads, hashes, batch.row, batch.low, batch.high, floors, walk)
        slots, state = self._stored.tested_of_probes(batch), new_state()
        while state[NEXT] < len(batch) or state[STOPPED]:
            compared = int(state[COMPARED])
            sink.add_rows(kernel(*arguments, tuple(sink.row_buffers), state, *slots))
            yield int(state[COMPARED]) - compared
        del records

    def hashing(self, probing: Probing, workers: int) -> Walk:
        """Compute the hashes of probing tuples, in stages."""
        keys = [probing.batch.slots[number] for number in self._probing_keys]
        found = hash_job(keys, workers)
        if found is None:
            probing.once(self, lambda: hash_keys(keys))
        else:
            yield [found[0]]
            probing.once(self, lambda: found[1])

    def job(self, probing: Probing, start: int, stop: int, parts: int, left_probes: bool) -> Job:
        """The same as a job whose parts fill slots."""
        batch = probing.batch
        hashes: Words = probing.once(self, lambda: hash_keys([batch.slots[number] for number in self._probing_keys]))
        ring, floors = self._ring(start, stop), self._floors(batch.low)
        arrays = [batch.row, batch.low, batch.high, floors, *self._stored.tested_of_probes(batch)]
        kept = [np.ascontiguousarray(array) for array in arrays]
        where = [address_of(array) for array in kept]
        block: Integers = np.array([
            address_of(ring), address_of(self._heads), len(self._heads), address_of(hashes), len(batch), parts,
            *where[:4], left_probes, *where[4:],
        ], np.int64)  # fmt: skip
        entry = self._stored.entry(hash_source, "hash_probe_part")
        return Job(entry, block, parts, (ring, hashes, kept, self._records, self._heads))


@compiled
def disordered(coordinates, highest):
    """The highest coordinate so far, and the most that one of these was below an earlier one."""
    disorder = np.int64(0)
    for i in range(len(coordinates)):
        if coordinates[i] >= highest:
            highest = coordinates[i]
        else:
            below = np.uint64(highest) - np.uint64(coordinates[i])  # signed, it might not fit
            disorder = max(disorder, np.int64(min(below, np.uint64(INT64_MAX))))
    return highest, disorder


def hash_source(lowered: Lowered, stored: Side) -> str:
    """Every probing tuple against its bucket.

    A block of probing tuples walks along its chains in step: first to the heads of their buckets, then to the newest
    tuples, then to the next older ones, until the last chain has ended. So all that a step reads was asked for in the
    step before, and no jump depends on how long a chain is. `walk` has the probing tuples whose chains go on, and the
    numbers where they do; state[STOPPED] is how many they are when the outputs were full, and state[NEXT] the first
    probing tuple of the next block.
    """
    text = ConditionText(lowered, stored, "j, 0")
    record = record_type(lowered, stored)
    assert record.fields is not None
    named = {f"v{number}": str(number) for number in text.stored_slots}
    named |= {"rows": "row", "coordinates": "coordinate", "following": "following"}
    views = ""
    for name, field in named.items():
        dtype, offset = record.fields[field][:2]
        kind = "bool_" if dtype == np.bool_ else dtype.name
        shape = f"(1, {record.itemsize // dtype.itemsize})"
        views += f"    {name} = carray(pointer(ring[0] + {offset}), {shape}, np.{kind})\n"
    probing = "".join(f", p{number}" for number in text.probing_slots)
    given = "".join(
        f", carray(pointer(b[{HASH_WORDS + n}] + {np.dtype(dtype).itemsize} * first), count, "
        f"np.{'bool_' if dtype == 'bool' else dtype})"
        for n, dtype in enumerate(lowered.slots[other(stored)][k].dtype for k in text.probing_slots)
    )
    words = record.itemsize // 8
    ask = f"prefetch(rows, (np.int64(n) & places) * {words})"
    if record.itemsize > HALF_LINE:
        ask += f"; prefetch(rows, (np.int64(n) & places) * {words} + {words - 1})"
    return f"""{KERNEL_HEADER}from numba import carray
from streamjoin.store.pair_slots import after_part, room_in_slot
from streamjoin.store.words import COMPARED, MOST_TUPLES, NEXT, STOPPED


@njit(nogil=True, error_model="numpy")
def hash_probe(ring, heads, hashes, probing_rows, low, high, floor, walk, out, state{probing}):
    found, room, count = 0, len(out[0]), len(hashes)
    begin, walking, compared = state[NEXT], state[STOPPED], state[COMPARED]
    most = compared + MOST_TUPLES
    buckets, places = np.uint64(len(heads) - 1), ring[1]
    # Ages count back from the newest tuple of the ring. Those from `youngest` to before `oldest` are asked for.
    newest, youngest, oldest = np.uint32(ring[4] - 1), np.uint32(ring[4] - ring[3]), np.uint32(ring[4] - ring[2])
{views}    while walking > 0 or begin < count:
        if walking == 0:
            block = min(walk.shape[1], count - begin, room)
            for b in range(block):
                prefetch(heads, np.int64(hashes[begin + b] & buckets))
            for b in range(block):
                n = heads[hashes[begin + b] & buckets]
                {ask}
                walk[0, walking], walk[1, walking] = np.uint32(begin + b), n
                walking += np.uint32(newest - n) < oldest
            begin += block
        if found + walking > room or compared > most:
            break
        compared += walking
        going, filled = np.uint64(0), np.uint64(found)
        for w in range(walking):
            i, n = np.int64(walk[0, w]), walk[1, w]
            j, age = np.int64(n) & places, np.uint32(newest - n)
{text.load("i", "i", 12)}{text.lines("i", 12)}            hit = {text.lane(lowered.condition, "i")}
            out[0][filled] = probing_rows[i]
            out[1][filled] = rows[j, 0]
            where = coordinates[j, 0]
            filled += np.uint64(hit & (age >= youngest) & (low[i] <= where) & (where < high[i]))
            n = following[j, 0]
            {ask}
            walk[0, going], walk[1, going] = np.uint32(i), n
            older = np.uint32(newest - n)
            going += np.uint64((older > age) & (older < oldest) & (where >= floor[i]))
        found, walking = np.int64(filled), np.int64(going)
    state[NEXT], state[COMPARED], state[STOPPED] = begin, compared, walking
    return found


@njit(nogil=True)
def hash_probe_part(block, part, slot):
    b = carray(pointer(block), {HASH_WORDS + len(text.probing_slots)}, np.int64)
    first, last = b[4] * part // b[5], b[4] * (part + 1) // b[5]
    count = last - first
    out, places, state = room_in_slot(b[10], slot)
    found = hash_probe(
        carray(pointer(b[0]), 5, np.int64), carray(pointer(b[1]), b[2], np.uint32)[: b[2]],
        carray(pointer(b[3] + 8 * first), count, np.uint64)[:count], carray(pointer(b[6] + 8 * first), count, np.int64),
        carray(pointer(b[7] + 8 * first), count, np.int64), carray(pointer(b[8] + 8 * first), count, np.int64),
        carray(pointer(b[9] + 8 * first), count, np.int64), places[:, :{BLOCK}].view(np.uint32), out, state{given}
    )
    is_done = (state[NEXT] >= count) & (state[STOPPED] == 0)
    return after_part(slot, found, is_done, len(out[0]) - found <= {BLOCK})
"""
