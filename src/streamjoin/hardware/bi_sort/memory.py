"""External memory: how a unit reads a stream from it, and a model of it for simulation.

The paper implements "continuous memory access as a data stream to utilize the memory bandwidth" (PanJoin, section IV).
A `Reader` turns one burst command into such a stream. The `ExternalMemory` is the only part of the design that is not
meant to be synthesised; its ports are what a controller and its interconnect offer.
"""

from __future__ import annotations

from typing import Any

from amaranth import Cat, Const, Module, Mux, Signal
from amaranth.lib import fifo, stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from ...errors import ArgumentError
from .shape import BiSortShape, signals

STALL_STEPS = 16
"""Stalls are given in sixteenths of all cycles."""
COUNTER = 48
BLOCK = 8
SEED = 0x9E3779B9


def read_port(shape: BiSortShape) -> wiring.Signature:
    """A word per cycle at most. Words come in the order of the requests; they cannot be refused when they arrive."""
    return wiring.Signature({
        "request": Out(stream.Signature(shape.address)),
        "arrived": In(1),
        "word": In(shape.word),
    })  # fmt: skip


def write_port(shape: BiSortShape) -> stream.Signature:
    return stream.Signature(shape.write)


def check_memory(latency: int, bandwidth: int, stalls: int) -> None:
    if latency < 1:
        raise ArgumentError(f"latency is {latency}; it must be at least 1 cycle")
    if bandwidth < 1:
        raise ArgumentError(f"bandwidth is {bandwidth}; it must be at least 1 word per cycle")
    if not 0 <= stalls < STALL_STEPS:
        raise ArgumentError(f"stalls is {stalls}; it must be between 0 and {STALL_STEPS - 1} sixteenths")


class Reader(wiring.Component):
    """A burst as a stream of words, through a buffer (the buffers of Fig. 8 and 9).

    Invariant: words asked for and not yet passed on never exceed the buffer, so every answer finds a place. `room` is
    what is left of it. The next command is taken with the last request of the one before, so bursts follow each other
    without a gap.
    """

    def __init__(self, shape: BiSortShape) -> None:
        self._shape = shape
        super().__init__({
            "command": In(stream.Signature(shape.burst)),
            "words": Out(stream.Signature(shape.word)),
            "port": Out(read_port(shape)),
        })  # fmt: skip

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        shape = self._shape
        m.submodules.buffer = buffer = fifo.SyncFIFO(width=shape.word.size, depth=shape.buffer)
        request = self.port.request
        address = Signal(shape.address)
        left = Signal(shape.place)
        room = Signal(range(shape.buffer + 1), init=shape.buffer)
        asked, passed = signals(1, "asked", "passed")
        m.d.comb += [
            request.payload.eq(address),
            request.valid.eq((left != 0) & (room != 0)),
            asked.eq(request.valid & request.ready),
            buffer.w_data.eq(self.port.word.as_value()),
            buffer.w_en.eq(self.port.arrived),
            self.words.payload.eq(buffer.r_data),
            self.words.valid.eq(buffer.r_rdy),
            buffer.r_en.eq(self.words.ready),
            passed.eq(self.words.valid & self.words.ready),
            self.command.ready.eq((left == 0) | ((left == 1) & asked)),
        ]
        m.d.sync += room.eq(room - asked + passed)
        with m.If(self.command.valid & self.command.ready):
            m.d.sync += [address.eq(self.command.p.address), left.eq(self.command.p.count)]
        with m.Elif(asked):
            m.d.sync += [address.eq(address + 1), left.eq(left - 1)]
        return m


class Arbiter(wiring.Component):
    """Serves at most `bandwidth` of the ports that ask in a cycle; the one behind the last served comes first.

    Invariant: a port is served if, counted from `first` on, fewer than `bandwidth` of those before it ask. The counts
    are taken in blocks, without a chain of signals, which simulators would have to follow one after the other.
    """

    def __init__(self, ports: int, bandwidth: int, stalls: int) -> None:
        self._ports, self._bandwidth, self._stalls = ports, bandwidth, stalls
        super().__init__({"asking": In(ports), "granted": Out(ports), "full": Out(1)})

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        ports = self._ports
        open_ports, turned, turned_grant = signals(ports, "open_ports", "turned", "turned_grant")
        first = Signal(range(ports))
        after_last = Signal(range(2 * ports + 1))
        m.d.comb += [
            open_ports.eq(self.asking & self._doors(m)),
            turned.eq(Cat(open_ports, open_ports) >> first),
            self.granted.eq((Cat(turned_grant, turned_grant) << first)[ports : 2 * ports]),
        ]
        for block in range(0, ports, BLOCK):
            before_block = Signal(range(ports + 1), name=f"before{block}")
            m.d.comb += before_block.eq(sum(turned[:block]))
            for i in range(block, min(block + BLOCK, ports)):
                before = before_block + sum(turned[block:i])
                m.d.comb += turned_grant[i].eq(turned[i] & (before < self._bandwidth))
                with m.If(turned_grant[i]):
                    m.d.comb += after_last.eq(first + (i + 1))
        m.d.comb += self.full.eq(sum(turned) >= self._bandwidth)
        with m.If(turned.any()):
            m.d.sync += first.eq(Mux(after_last >= ports, after_last - ports, after_last))
        return m

    def _doors(self, m: Module) -> Any:
        """Which ports are open in this cycle: bits of a xorshift register, different ones for each port."""
        if not self._stalls:
            return Const(-1, self._ports)
        state = Signal(32, init=SEED)
        first, second = signals(32, "first", "second")
        m.d.comb += [first.eq(state ^ (state << 13)), second.eq(first ^ (first >> 17))]
        m.d.sync += state.eq(second ^ (second << 5))
        return Cat(state.rotate_right(5 * i % 32)[:4] >= self._stalls for i in range(self._ports))


class ExternalMemory(wiring.Component):
    """A memory with many ports that moves at most `bandwidth` words per cycle over all of them, read or written.

    Invariant: an access happens in the cycle in which its request is granted, and what was written in an earlier cycle
    is seen. The answer to a read arrives `latency` cycles later. Ports that ask take turns: the one behind the last
    that was served comes first. With `stalls`, each port is moreover shut in so many sixteenths of all cycles, at
    random. The host's access is beside all this: it costs no bandwidth, and what it reads comes one cycle later.

    The counters say how many words were read and written, in how many cycles all of the bandwidth was used, and how
    often a port had to wait (`refused`: ports times cycles).
    """

    def __init__(self, shape: BiSortShape, latency: int = 8, bandwidth: int = 8, stalls: int = 0) -> None:
        check_memory(latency, bandwidth, stalls)
        self._shape, self._latency, self._bandwidth, self._stalls = shape, latency, bandwidth, stalls
        super().__init__({
            "read": In(read_port(shape)).array(shape.read_ports),
            "write": In(write_port(shape)).array(shape.write_ports),
            "host_address": In(shape.address),
            "host_write": In(1),
            "host_data": In(shape.word.size),
            "host_word": Out(shape.word.size),
            "words_read": Out(COUNTER),
            "words_written": Out(COUNTER),
            "full": Out(COUNTER),
            "refused": Out(COUNTER),
        })  # fmt: skip

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        shape = self._shape
        m.submodules.words = words = Memory(shape=shape.word, depth=shape.memory_size, init=[])
        requests = [port.request for port in self.read] + list(self.write)
        m.submodules.arbiter = arbiter = Arbiter(len(requests), self._bandwidth, self._stalls)
        granted, reads = arbiter.granted, len(self.read)
        m.d.comb += arbiter.asking.eq(Cat(request.valid for request in requests))
        m.d.sync += [
            self.words_read.eq(self.words_read + sum(granted[:reads])),
            self.words_written.eq(self.words_written + sum(granted[reads:])),
            self.full.eq(self.full + arbiter.full),
            self.refused.eq(self.refused + sum(arbiter.asking & ~granted)),
        ]
        slot = Signal(range(max(self._latency - 1, 1)))
        m.d.sync += slot.eq(Mux(slot == self._latency - 2, 0, slot + 1))
        for i, port in enumerate(self.read):
            access = words.read_port()
            arrived = Signal(name=f"arrived{i}")
            m.d.comb += [
                port.request.ready.eq(granted[i]),
                access.en.eq(granted[i]),
                access.addr.eq(port.request.payload),
            ]
            m.d.sync += arrived.eq(granted[i])
            answer = self._delay(m, f"delay{i}", slot, Cat(arrived, access.data.as_value()))
            m.d.comb += Cat(port.arrived, port.word.as_value()).eq(answer)
        for i, port in enumerate(self.write, reads):
            access = words.write_port()
            m.d.comb += [
                port.ready.eq(granted[i]),
                access.en.eq(granted[i]),
                access.addr.eq(port.p.address),
                access.data.eq(port.p.data),
            ]
        host_read, host_write = words.read_port(), words.write_port()
        m.d.comb += [
            host_read.addr.eq(self.host_address),
            host_write.addr.eq(self.host_address),
            host_write.en.eq(self.host_write),
            host_write.data.eq(self.host_data),
            self.host_word.eq(host_read.data.as_value()),
        ]
        return m

    def _delay(self, m: Module, name: str, slot: Signal, answer: Any) -> Any:
        """Delay the answer by `latency - 1` cycles: a ring in which every slot is read and then overwritten."""
        if self._latency == 1:
            return answer
        m.submodules[name] = ring = Memory(shape=len(answer), depth=self._latency - 1, init=[])
        old, new = ring.read_port(domain="comb"), ring.write_port()
        m.d.comb += [old.addr.eq(slot), new.addr.eq(slot), new.en.eq(1), new.data.eq(answer)]
        return old.data
