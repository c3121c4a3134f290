"""Two simulators behind one protocol: Amaranth's own, and one compiled from the circuit's netlist (`compiled`).

A circuit is driven clock by clock: `set` inputs, `settle`, read outputs with `get`, then `edge`. `settle` may run
through up to `limit` clocks while nothing watched happens, because the driver has nothing to decide in them.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Literal, Protocol

from amaranth.lib import wiring
from amaranth.sim import Simulator

Backend = Literal["amaranth", "compiled", "auto"]


class Simulated(Protocol):
    """A circuit under simulation. Ports are named as in its netlist: `left__payload`, `results__valid`."""

    def set(self, port: str, value: int) -> None: ...

    def get(self, port: str) -> int: ...

    def count(self, port: str) -> int:
        """In how many clocks a counted port was up so far."""
        ...

    async def settle(self, limit: int = 1) -> int:
        """Returns the clocks that passed, at most `limit - 1`. It stops in the first clock in which all ports of a
        watched group are up, or in the last of `limit` clocks. That clock has not ended, so outputs can be read."""
        ...

    async def edge(self) -> None:
        """End the clock."""
        ...


Driver = Callable[[Simulated], Awaitable[None]]


class Interpreted:
    """Amaranth's simulator, for small circuits: it needs no tools and takes about a millisecond per clock."""

    def __init__(self, top: wiring.Component, watch: Sequence[tuple[str, ...]], counted: Sequence[str]) -> None:
        self._top, self._watch, self._counts = top, watch, dict.fromkeys(counted, 0)
        self._ports = dict(ports(top))
        self._context: Any = None

    def run(self, driver: Driver) -> None:
        simulator = Simulator(self._top)
        simulator.add_clock(1e-6)

        async def bench(context: Any) -> None:
            self._context = context
            await driver(self)

        simulator.add_testbench(bench)
        simulator.run()

    def set(self, port: str, value: int) -> None:
        self._context.set(self._ports[port], value)

    def get(self, port: str) -> int:
        return self._context.get(self._ports[port])

    def count(self, port: str) -> int:
        return self._counts[port]

    async def settle(self, limit: int = 1) -> int:
        for passed in range(limit):
            if any(all(self.get(port) for port in group) for group in self._watch):
                return passed
            if passed < limit - 1:
                await self.edge()
        return limit - 1

    async def edge(self) -> None:
        for port in self._counts:
            self._counts[port] += self.get(port)
        await self._context.tick()


def ports(top: wiring.Component) -> list[tuple[str, Any]]:
    """The component's ports as plain values, by the names that its netlist gives them."""
    found = []
    for path, _, value in top.signature.flatten(top):
        found.append(("__".join(str(part) for part in path), value))
    return [(name, value.as_value() if hasattr(value, "as_value") else value) for name, value in found]
