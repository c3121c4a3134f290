"""The board: where a caller puts the parts of a job, and threads that live in compiled code take them.

Threads never hold the GIL while they take parts, do them, or sleep. Invariants:

- A *ticket* is one word: the round, how many parts it has, and the next one to be taken. Whoever adds 1 to it has taken
  that part of that round, if there is one. So a late thread can never take a part with the description of another
  round: it reads the description after it has taken a part, and a round lasts until all parts that were taken are done.
- A round is over for the caller when as many parts are done as were taken, and no more can be taken.
- A thread looks at the ticket behind the lock before it sleeps, and the caller wakes threads behind the lock after it
  has written the ticket. So no thread sleeps through a round, unless there is nothing for it to do.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from numba import carray, types  # type: ignore[attr-defined]

from ..arrays import Integers
from ..compile.atomics import fetch_add, load_acquire, store_release
from ..compile.cache import compiled, compiled_brief
from ..compile.entries import call_entry
from ..compile.intrinsics import pointer
from ..tasks import DONE, FULL, MORE, SLOT_WORDS

LINE = 16
"""Integers of two cache lines: each field that is written often has one for itself."""
(
    TICKET, FINISHED, STOP, LEAVE, SLEEPERS, WANTED, CALLER_WAITS, MUTEX, CONDITION, CALLERS, OWN, ERRORS, JOBS, THREADS
) = (LINE // 2 + LINE * k for k in range(14))  # fmt: skip
BUSY, CORE, FILLED, TIME, ALLOWED, FREE, THREAD_WORDS = 0, 1, 2, 3, LINE, 2 * LINE, 4 * LINE
"""Places on the board:

TICKET: round << 40 | parts << 20 | next part. FINISHED: how many parts of the round are done.
STOP: the work is dropped, parts end as soon as they can. LEAVE: threads should return to Python.
SLEEPERS: how many threads sleep; WANTED: how many more of them this round could use.
MUTEX, CONDITION, CALLERS: a lock, and what threads and the caller sleep on. CALLER_WAITS: it may be asleep.
OWN: 1 + the part that the caller has begun and will go on with. ERRORS: how many parts have failed.
JOBS: how many jobs there are, the addresses of their table, of the slots, and of the parts, if they are named.
THREADS: `THREAD_WORDS` for each thread: `BUSY`, the nanoseconds that it has worked, `CORE`, the last round that it took
part in << 16 | the core that it was on, and `FILLED`, the last round in which its slot was full. `TIME`, `ALLOWED` and
`FREE` are for the system to read and write: a time, and sets of cores. An array that is made in a compiled function may
be gone after its last use there, although the system still has its address.
"""
NUMBER_BITS, ROUND_SHIFT = 20, 40
MASK = (1 << NUMBER_BITS) - 1
MOST_PARTS = 1 << (NUMBER_BITS - 1)
LOOKS = 100
"""How often a thread looks for work before it sleeps; it yields its core in between."""
NAP = 2_000_000
"""Nanoseconds that the caller sleeps at most before it looks again."""
CORE_WORDS = LINE
"""64-bit words of the system's sets of cores."""
CLOCK, WALL = time.CLOCK_MONOTONIC, time.CLOCK_REALTIME
OVER, TO_PYTHON = 0, 1
"""What a thread comes back with: no more parts can be taken; Python has asked for it. The caller also comes with
`tasks.MORE`: it has worked for long."""

_pointer: Any = pointer
_call_entry: Any = call_entry
_sched_yield: Any = types.ExternalFunction("sched_yield", types.int32())
_clock_gettime: Any = types.ExternalFunction("clock_gettime", types.int32(types.int32, types.voidptr))
_lock: Any = types.ExternalFunction("pthread_mutex_lock", types.int32(types.voidptr))
_unlock: Any = types.ExternalFunction("pthread_mutex_unlock", types.int32(types.voidptr))
_sleep: Any = types.ExternalFunction("pthread_cond_wait", types.int32(types.voidptr, types.voidptr))
_nap: Any = types.ExternalFunction(
    "pthread_cond_timedwait", types.int32(types.voidptr, types.voidptr, types.voidptr)
)  # fmt: skip
_core_in_use: Any = types.ExternalFunction("sched_getcpu", types.int32())
_get_cores: Any = types.ExternalFunction("sched_getaffinity", types.int32(types.int32, types.int64, types.voidptr))
_set_cores: Any = types.ExternalFunction("sched_setaffinity", types.int32(types.int32, types.int64, types.voidptr))
_signal: Any = types.ExternalFunction("pthread_cond_signal", types.int32(types.voidptr))
_signal_all: Any = types.ExternalFunction("pthread_cond_broadcast", types.int32(types.voidptr))


def new_board(threads: int) -> Integers:
    """An empty board. A lock and a condition of zeros are open and without sleepers."""
    return np.zeros(THREADS + THREAD_WORDS * (threads + 1), np.int64)


@compiled
def _at(board, place):  # type: ignore[no-untyped-def]
    return _pointer(np.int64(board.ctypes.data) + 8 * place)


@compiled
def _now(board, clock, thread):  # type: ignore[no-untyped-def]
    place = THREADS + THREAD_WORDS * thread + TIME
    _clock_gettime(clock, _at(board, place))
    return board[place] * 1_000_000_000 + board[place + 1]


@compiled
def _left(ticket):  # type: ignore[no-untyped-def]
    """How many parts can still be taken."""
    return ((ticket >> NUMBER_BITS) & MASK) - (ticket & MASK)


@compiled
def _do(board, number, thread):  # type: ignore[no-untyped-def]
    """Do a part of the round, with the slot of this thread. Where parts are named, each is a number and a thread."""
    if board[JOBS + 3] != 0:
        named = carray(_pointer(board[JOBS + 3]), 2 * (number + 1), np.int64)
        number, thread = named[2 * number], named[2 * number + 1]
    table = carray(_pointer(board[JOBS + 1]), 3 * board[JOBS] + 3, np.int64)
    job = 0
    while table[3 * (job + 1) + 2] <= number:
        job += 1
    slot = np.int64(0)
    if board[JOBS + 2] != 0:
        slot = board[JOBS + 2] + 8 * SLOT_WORDS * thread
    return _call_entry(table[3 * job], table[3 * job + 1], number - table[3 * job + 2], slot), number, slot


@compiled
def _wake(board, most):  # type: ignore[no-untyped-def]
    """Wake a few sleepers, if more are wanted; those wake others in turn."""
    _lock(_at(board, MUTEX))
    count = min(board[SLEEPERS], board[WANTED], most)
    board[WANTED] -= count
    _unlock(_at(board, MUTEX))
    for _ in range(count):
        _signal(_at(board, CONDITION))


@compiled
def _spread(board, thread, round_):  # type: ignore[no-untyped-def]
    """Move to another core if a thread before this one takes part in the round on the same one.

    The system leaves two threads on one core for some milliseconds, even if another core is idle. A round may be over
    by then.
    """
    mine, own = np.int64(_core_in_use()), THREADS + THREAD_WORDS * thread
    board[own + CORE] = round_ << 16 | mine
    meets = False
    for other in range(thread):
        meets |= load_acquire(board, THREADS + THREAD_WORDS * other + CORE) == (round_ << 16 | mine)
    if not meets or mine < 0 or mine >= 64 * CORE_WORDS:
        return
    allowed, free = own + ALLOWED, own + FREE
    board[allowed : allowed + CORE_WORDS] = 0
    if _get_cores(0, 8 * CORE_WORDS, _at(board, allowed)) < 0:
        return
    board[free : free + CORE_WORDS] = board[allowed : allowed + CORE_WORDS]
    for other in range(thread):
        theirs = load_acquire(board, THREADS + THREAD_WORDS * other + CORE)
        if theirs >> 16 == round_:
            core = theirs & 0xFFFF
            board[free + (core >> 6)] &= ~(np.int64(1) << (core & 63))
    is_one_free = False
    for word in range(CORE_WORDS):
        is_one_free |= board[free + word] != 0
    if is_one_free and _set_cores(0, 8 * CORE_WORDS, _at(board, free)) == 0:
        board[own + CORE] = round_ << 16 | np.int64(_core_in_use())
        _set_cores(0, 8 * CORE_WORDS, _at(board, allowed))


@compiled
def work(board, thread):  # type: ignore[no-untyped-def]
    """Take parts and do them. The caller (thread 0) comes back when there is none to take, others when `LEAVE` says so.

    A thread whose slot is full takes no more parts in its round; the slot's first word says which part is unfinished.
    Where parts are named, each has a slot for itself.
    """
    number, round_, looks = np.int64(-1), np.int64(-1), 0
    line = THREADS + THREAD_WORDS * thread
    full = board[line + FILLED]
    begun = np.int64(-1)
    if thread == 0:
        number, board[OWN] = board[OWN] - 1, 0
        if number >= 0:
            round_ = load_acquire(board, TICKET) >> ROUND_SHIFT
    while True:
        if number < 0:
            ticket = load_acquire(board, TICKET)
            may = _left(ticket) > 0 and ticket >> ROUND_SHIFT != full
            if may:
                ticket = fetch_add(board, TICKET, 1)
                may = _left(ticket) > 0
            if not may:
                if begun >= 0:
                    board[line + BUSY] += _now(board, CLOCK, thread) - begun
                    begun = np.int64(-1)
                if thread == 0:
                    return OVER
                if load_acquire(board, LEAVE) > 0:
                    return TO_PYTHON
                looks += 1
                if looks < LOOKS:
                    _sched_yield()
                    continue
                _lock(_at(board, MUTEX))
                ticket = load_acquire(board, TICKET)
                idle = _left(ticket) <= 0 or ticket >> ROUND_SHIFT == full
                if idle and load_acquire(board, LEAVE) == 0:
                    board[SLEEPERS] += 1
                    _sleep(_at(board, CONDITION), _at(board, MUTEX))
                    board[SLEEPERS] -= 1
                _unlock(_at(board, MUTEX))
                looks = 0
                if _left(load_acquire(board, TICKET)) > 1:
                    _wake(board, 2)
                continue
            number = ticket & MASK
            if ticket >> ROUND_SHIFT != round_:
                round_ = ticket >> ROUND_SHIFT
                _spread(board, thread, round_)
        looks = 0
        if begun < 0:
            begun = _now(board, CLOCK, thread)
        code, part, slot = _do(board, number, thread)
        if code == MORE and load_acquire(board, STOP) == 0:
            if thread == 0:
                board[OWN] = number + 1
                board[line + BUSY] += _now(board, CLOCK, thread) - begun
                return MORE
            continue
        if code == FULL:
            carray(_pointer(slot), 1, np.int64)[0] = part + 1
            if board[JOBS + 3] == 0:
                full = board[line + FILLED] = round_
        elif code != DONE:
            fetch_add(board, ERRORS, 1)
        number = np.int64(-1)
        fetch_add(board, FINISHED, 1)
        if thread > 0 and load_acquire(board, CALLER_WAITS) > 0:
            _lock(_at(board, MUTEX))
            _unlock(_at(board, MUTEX))
            _signal(_at(board, CALLERS))


@compiled
def work_alone(lines, place, slot):  # type: ignore[no-untyped-def]
    """Do parts without a board, from `place` on: a job and a part. `lines`: each job's entry, block, number of parts.

    Returns `DONE` at the end, or what the last part has returned.
    """
    while place[0] < len(lines):
        job = place[0]
        while place[1] < lines[job, 2]:
            code: int = _call_entry(lines[job, 0], lines[job, 1], place[1], slot)
            if code != DONE:
                return code
            place[1] += 1
        place[0], place[1] = job + 1, 0
    return DONE


@compiled_brief
def put(board, jobs, table, slots, named, first, parts, wanted):  # type: ignore[no-untyped-def]
    """Begin a round: parts [first, parts) of some jobs. `wanted`: how many threads could help."""
    board[JOBS], board[JOBS + 1], board[JOBS + 2], board[JOBS + 3] = jobs, table, slots, named
    board[FINISHED] = first
    round_ = (board[TICKET] >> ROUND_SHIFT) + 1 & (1 << 22) - 1
    _lock(_at(board, MUTEX))
    board[WANTED] = wanted
    _unlock(_at(board, MUTEX))
    store_release(board, TICKET, round_ << ROUND_SHIFT | parts << NUMBER_BITS | first)
    if wanted > 0:
        _wake(board, 2)


@compiled
def close_round(board):  # type: ignore[no-untyped-def]
    """No more parts can be taken; returns how many were. Called once for a round."""
    ticket = fetch_add(board, TICKET, MASK >> 1)  # beyond any number of parts
    return min(ticket & MASK, (ticket >> NUMBER_BITS) & MASK)


@compiled
def finished(board, taken):  # type: ignore[no-untyped-def]
    """Wait a little until all parts that were taken are done; returns whether they are."""
    for _ in range(LOOKS):
        if load_acquire(board, FINISHED) >= taken:
            return True
        _sched_yield()
    until = _now(board, WALL, 0) + NAP
    board[THREADS + TIME], board[THREADS + TIME + 1] = until // 1_000_000_000, until % 1_000_000_000
    fetch_add(board, CALLER_WAITS, 1)
    _lock(_at(board, MUTEX))
    if load_acquire(board, FINISHED) < taken:
        _nap(_at(board, CALLERS), _at(board, MUTEX), _at(board, THREADS + TIME))
    _unlock(_at(board, MUTEX))
    fetch_add(board, CALLER_WAITS, -1)
    return load_acquire(board, FINISHED) >= taken


@compiled_brief
def set_flag(board, place, amount):  # type: ignore[no-untyped-def]
    """Change STOP or LEAVE, and wake all who sleep, so that they see it."""
    fetch_add(board, place, amount)
    if amount > 0:
        _lock(_at(board, MUTEX))
        _unlock(_at(board, MUTEX))
        _signal_all(_at(board, CONDITION))
