"""The throughput of ScaleJoin's gate (ScaleJoin, Fig. 7a)."""

from __future__ import annotations

import threading
import time

import numpy as np

from ...parallel.gate import Gate
from ...reporting.measure import check

GATE_SOURCES, GATE_READERS = 4, 2
GATE_CAPACITY = 1 << 14
GATE_BATCHES = (1, 256)


def gate_throughput(sources: int, readers: int, batch: int, seconds: float) -> float:
    """Tuples per second through a gate, each to all readers, with a thread for each source and each reader."""
    gate, stop = Gate(sources, readers, GATE_CAPACITY), threading.Event()
    added, taken = [0] * sources, [0] * readers

    def add(number: int) -> None:
        rows = np.arange(batch, dtype=np.int64)
        while not stop.is_set():
            rest = (added[number] + rows) * sources + number
            while len(rest) and not stop.is_set():
                count = gate.add(number, rest, rest)
                added[number] += count
                rest = rest[count:]
                if not count:
                    time.sleep(0)
        gate.end(number)

    def read(number: int, last: int = -1) -> None:
        while not stop.is_set() or any(thread.is_alive() for thread in adding) or taken[number] < sum(added):
            times = gate.next_ready(number, GATE_CAPACITY)[0]
            if len(times):
                taken[number] += int((np.diff(times, prepend=last) > 0).sum())  # what goes back in time does not count
                last = int(times[-1])
            else:
                time.sleep(0)

    adding = [threading.Thread(target=add, args=(number,)) for number in range(sources)]
    reading = [threading.Thread(target=read, args=(number,)) for number in range(readers)]
    started = time.perf_counter()
    for thread in (*adding, *reading):
        thread.start()
    time.sleep(seconds)
    stop.set()
    for thread in (*adding, *reading):
        thread.join()
    elapsed = time.perf_counter() - started
    for number, count in enumerate(taken):
        check(f"the gate's reader {number}", count, sum(added))
    return sum(added) / elapsed
