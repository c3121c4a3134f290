"""Compiles a C++ baseline with the system's compiler and loads it."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import tempfile
from pathlib import Path

COMPILERS = ("c++", "g++", "clang++")
FLAGS = ("-O3", "-march=native", "-std=c++17", "-shared", "-fPIC")


def load(source: str) -> tuple[ctypes.CDLL, str]:
    """The library of a source file beside this module, and which compiler built it; RuntimeError if none can."""
    compiler = next((path for name in COMPILERS if (path := shutil.which(name))), None)
    if compiler is None:
        raise RuntimeError(f"no C++ compiler found; looked for {', '.join(COMPILERS)}")
    with tempfile.TemporaryDirectory(prefix="streamjoin-bench-") as directory:
        library = Path(directory) / "baseline.so"
        command = [compiler, *FLAGS, str(Path(__file__).with_name(source)), "-o", str(library)]
        built = subprocess.run(command, capture_output=True, text=True, check=False)
        if built.returncode:
            raise RuntimeError(f"{compiler} cannot build the C++ baseline: {built.stderr.strip()[:500]}")
        loaded = ctypes.CDLL(str(library))
    version = subprocess.run([compiler, "--version"], capture_output=True, text=True, check=False).stdout
    return loaded, f"{version.splitlines()[0] if version else compiler}, {' '.join(FLAGS[:2])}"
