"""Nodes on threads, one each, over mailboxes.

Invariant: `run` ends when no message is on its way and no node is at work, and every pair that was reported has been
handed on. A node never waits for another one to take its messages: what does not fit into a mailbox waits at the
sender. A node that reports more pairs than are taken waits, so pairs never pile up.
"""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, Protocol

from ..arrays import Rows
from ..compile.background import same_for_threads
from .mailbox import Counter, Mailbox, Waiting
from .ports import Port

MESSAGES, REPORTS = 1024, 8
"""Messages that fit into a mailbox between nodes, and pieces of results that fit into one to the driver."""
PATIENCE, IDLE = 0.001, 1.0
"""A node without work looks for some for PATIENCE seconds, if there is a core for every node; then it sleeps. After
IDLE seconds of sleep in which nothing runs, its thread ends."""

NUMA = Path("/sys/devices/system/node")


Send = Callable[[Port, Any], None]
"""Hands a message on at once, before the node goes on with what it is doing."""


class Receiver(Protocol):
    """A node, as the thread that runs it sees it: see `topology.node`."""

    def receive(self, port: Port, message: Any, send: Send) -> None: ...


class Threads:
    """Every node listens to all `ports`.

    Where `alone` is set before messages are fed, the driver's own thread runs the nodes in turns: for work that is too
    little to wake anybody. Between runs only the driver touches the nodes.
    """

    def __init__(self, workers: int, ports: Sequence[Port]) -> None:
        self._ports = ports
        self._boxes = {(node, port): Mailbox(MESSAGES) for node in range(workers) for port in ports}
        self._reports = [Mailbox(REPORTS) for _ in range(workers)]
        self._overflow: list[dict[tuple[int, Port], deque[Any]]] = [{} for _ in range(workers)]
        self._pending, self._idle, self._closing = Counter(1), Counter(), Counter()
        self._results = Waiting(self._reports, self._idle)
        self._running = False
        self._calls: list[SimpleQueue[None]] = [SimpleQueue() for _ in range(workers)]
        """One queue for each thread, which wakes it. Queue and lock are compiled, so an interrupt of the driver cannot
        leave them half changed."""
        self._resting = [False] * workers
        self._patience = PATIENCE if workers <= cores_allowed() else 0.0
        self._news: SimpleQueue[None] = SimpleQueue()
        self._asleep = False
        self._error: BaseException | None = None
        self._nodes: Sequence[Receiver] = []
        self.alone = False
        self._fed: deque[tuple[int, Port, Any]] = deque()
        self._found: list[tuple[Rows, Rows]] = []
        self._alive: dict[int, threading.Thread] = {}
        self._begin = same_for_threads()
        self._changing = threading.Lock()
        self.busy = [0.0] * workers

    def drive(self, nodes: Sequence[Receiver]) -> None:
        """Say whom to run, before the first run."""
        self._nodes = nodes

    def _wake(self) -> None:
        """Start the threads, or those that have ended because there was nothing to do for long."""
        with self._changing:
            self._running = True
            if len(self._alive) < len(self._nodes):
                cores = neighbouring_cores(len(self._nodes))
                for k, node in enumerate(self._nodes):
                    if k not in self._alive:
                        name, arguments = f"streamjoin-{k}", (k, node, cores[k])
                        thread = threading.Thread(target=self._work, args=arguments, name=name, daemon=True)
                        thread.start()
                        self._alive[k] = thread

    def _call(self, number: int) -> None:
        """Wake a node that has a message, if it sleeps. Before a node sleeps, it first says so and then looks into its
        mailboxes once more. So either it finds the message, or the sender sees that it sleeps."""
        if self._resting[number] and self._calls[number].empty():  # one call is enough
            self._calls[number].put(None)

    def _rest(self, number: int, waiting: Waiting) -> bool:
        """Sleep until there is a message. Returns False after a long time in which nothing ran: the thread then ends,
        so a join that was not closed does not keep its threads and all they hold."""
        self._resting[number] = True
        try:
            if not waiting.wait(0.0):
                self._calls[number].get(timeout=IDLE)
        except Empty:
            with self._changing:
                if not self._running:
                    self._resting[number] = False  # before another thread can take this one's place
                    self._alive.pop(number, None)
                    return False
        self._resting[number] = False
        return True

    def checkpoint(self) -> None:
        """Called by a node's windows between the pieces of their work. It ends the work if the join is being closed."""
        if self._closing.value:
            raise _Closed

    def report(self, node: int, left: Rows, right: Rows) -> None:
        """Called by a node's windows: hand pairs on, and wait while nobody takes them."""
        if self.alone:
            self._found.append((left, right))
            return
        started = time.perf_counter()
        while not self._reports[node].put((left, right)):
            self.checkpoint()
            time.sleep(PATIENCE)
        self.busy[node] -= time.perf_counter() - started
        self._tell()

    def _tell(self) -> None:
        """Wake the driver, if it sleeps."""
        if self._asleep and self._news.empty():
            self._news.put(None)

    def feed(self, node: int, port: Port, message: Any) -> None:
        """Give a node a message. The driver calls this between runs, with fewer messages than a mailbox holds. The node
        may begin at once, so whatever it reads must be ready."""
        if self.alone:
            self._fed.append((node, port, message))
            return
        self._pending.add(1)
        if not self._boxes[node, port].put(message):
            raise RuntimeError(f"the mailbox of node {node} is full")
        self._call(node)

    def run(self) -> Iterator[tuple[Rows, Rows]]:
        """Let the nodes work; gives pairs as they are found.

        Between runs the driver itself counts as pending: the nodes may finish what was fed before all of it is fed.
        """
        if self.alone:
            yield from self._run_alone()
            return
        self._wake()
        if self._pending.add(-1) == 0:
            self._idle.add(1)
        try:
            yield from self._collect()
        except BaseException:  # also when nobody takes the rest: the nodes must not wait for ever
            self._closing.add(1)
            raise
        self._running = False
        self._idle.add(-1)
        self._pending.add(1)

    def _run_alone(self) -> list[tuple[Rows, Rows]]:
        while self._fed:
            number, at, message = self._fed.popleft()

            def send(to: Port, message: Any, number: int = number) -> None:
                step, port = _NEIGHBOUR[to]
                if 0 <= number + step < len(self._nodes):
                    self._fed.append((number + step, port, message))

            with self.at_work(number):
                self._nodes[number].receive(at, message, send)
        found, self._found = self._found, []
        return found

    @contextmanager
    def at_work(self, number: int) -> Iterator[None]:
        """The driver does a node's work."""
        started = time.perf_counter()
        yield
        self.busy[number] += time.perf_counter() - started

    def _collect(self) -> Iterator[tuple[Rows, Rows]]:
        ended = 0
        while not ended:
            self._asleep = True  # the core belongs to the nodes
            if not self._results.wait(0.0):
                with suppress(Empty):
                    self._news.get(timeout=0.05)
            self._asleep = False
            ended = self._idle.value  # looked at first: whatever was reported before is found below
            if self._error is not None:
                raise self._error
            for box in self._reports:
                while (pairs := box.get()) is not None:
                    yield pairs

    def close(self) -> None:
        self._closing.add(1)
        for call in self._calls:
            call.put(None)
        with self._changing:
            threads = list(self._alive.values())
        for thread in threads:
            thread.join()

    # -- on a node's thread ----------------------------------------------------------------------------------------

    def _work(self, number: int, node: Receiver, cores: set[int] | None) -> None:
        self._begin()
        if cores is not None:
            with suppress(OSError):  # pinning is only faster; the cores may be gone by now
                os.sched_setaffinity(0, cores)
        boxes = [(port, self._boxes[number, port]) for port in self._ports]
        waiting = Waiting([box for _, box in boxes], self._closing)
        overflow = self._overflow[number]

        def send(to: Port, message: Any) -> None:
            step, port = _NEIGHBOUR[to]
            target = number + step, port
            if target in self._boxes:
                self._pending.add(1)
                late = overflow.get(target)
                if late or not self._boxes[target].put(message):
                    overflow.setdefault(target, deque()).append(message)
                else:
                    self._call(target[0])

        try:
            while not self._closing.value:
                if waiting.wait(PATIENCE if any(overflow.values()) else self._patience):
                    started = time.perf_counter()
                    for port, box in boxes:
                        message = box.get()
                        if message is not None:
                            node.receive(port, message, send)
                            if self._pending.add(-1) == 0:
                                self._idle.add(1)
                                self._tell()
                    self._flush(overflow)
                    self.busy[number] += time.perf_counter() - started
                elif any(overflow.values()):
                    self._flush(overflow)
                elif not self._rest(number, waiting):
                    return
        except _Closed:
            return
        except BaseException as error:
            self._error = error
            self._idle.add(1)
            self._tell()

    def _flush(self, overflow: dict[tuple[int, Port], deque[Any]]) -> None:
        for target, late in overflow.items():
            while late and self._boxes[target].put(late[0]):
                late.popleft()
                self._call(target[0])


class _Closed(Exception):
    """The join was closed while a node had pairs to report."""


_NEIGHBOUR: dict[Port, tuple[int, Port]] = {"left": (-1, "right"), "right": (1, "left")}


def cores_allowed() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def neighbouring_cores(workers: int) -> list[set[int] | None]:
    """For each worker the cores it may use: workers next to each other share a NUMA node as long as it has cores, and
    each stays on its own. On a machine with one such node the system places them better: None."""
    if not hasattr(os, "sched_getaffinity"):
        return [None] * workers
    allowed = os.sched_getaffinity(0)
    nodes = [_cpus(path.read_text()) & allowed for path in sorted(NUMA.glob("node*/cpulist"))]
    nodes = [cpus for cpus in nodes if cpus]
    if len(nodes) < 2:
        return [None] * workers
    places = [cpus for cpus in nodes for _ in cpus]
    return [places[k * len(places) // workers if workers > len(places) else k] for k in range(workers)]


def _cpus(text: str) -> set[int]:
    """What "0-3,8" means."""
    found: set[int] = set()
    for part in filter(None, text.strip().split(",")):
        first, _, last = part.partition("-")
        found.update(range(int(first), int(last or first) + 1))
    return found
