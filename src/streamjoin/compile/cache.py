"""Where compiled code is kept: a directory of generated modules, beside which Numba puts their machine code.

The directory is `$STREAMJOIN_CACHE_DIR`, or `streamjoin` in the user's cache directory. It may be deleted at any time,
and many processes may use it at once. A person who can write to it can run code as its users. So a directory that
belongs to somebody else, or that others can write to, is only used if `$STREAMJOIN_CACHE_DIR` names it.
"""

from __future__ import annotations

import atexit
import hashlib
import importlib.util
import os
import pickle
import re
import shutil
import stat
import sys
import tempfile
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

from numba import __version__ as numba_version
from numba import njit
from numba.core import config

from ..errors import ArgumentError
from ..version import __version__
from .background import is_first, is_rehearsing
from .turns import SharedCache

_settings: Any = config
Kernel = Callable[..., int]
UNREADABLE = (EOFError, pickle.UnpicklingError, ValueError, AttributeError, ImportError, IndexError, KeyError, OSError)
"""What Numba raises on a file of machine code that is cut off or garbled."""


def compiled(function: Callable[..., Any], *, nogil: bool = True) -> Any:
    """Compile a function of this package.

    Its machine code is kept under a name that changes with the text of its module and of all our modules that this one
    imports: their constants and functions become part of the machine code.
    """
    before = _settings.CACHE_DIR
    try:
        _settings.CACHE_DIR = _package_directory(function.__module__) or before
        return _kept(njit(nogil=nogil)(function))
    finally:
        _settings.CACHE_DIR = before


def _kept(function: Any) -> Any:
    """A compiled function whose machine code is kept in files."""
    with suppress(RuntimeError, OSError):  # nowhere to write, not even beside the source
        function._cache = SharedCache(function.py_func)  # type: ignore[no-untyped-call]
    return function


@cache
def _package_directory(module: str) -> str | None:
    """Where the machine code of a module's functions is kept; None: where Numba chooses."""
    try:
        home = _lasting_directory("package")
    except ArgumentError:  # the call that opens a join says so
        return None
    return None if home is None else str(home / _digest(module))


def has_machine_code(function: Any) -> bool:
    """Whether a compiled function can be called without waiting for the compiler, or may wait for it. Kernels that are
    interpreted need no compiler."""
    return bool(getattr(function, "overloads", True)) or is_rehearsing() or is_first()


class Meanwhile:
    """A compiled function that has a form in NumPy as well, which serves until the machine code is there."""

    def __init__(self, machine_code: Any, plain: Callable[..., Any]) -> None:
        self._machine_code, self._plain = machine_code, plain

    def __call__(self, *args: Any) -> Any:
        function = self._machine_code
        if getattr(function, "overloads", True) or has_machine_code(function):
            return function(*args)
        return self._plain(*args)


def compiled_with(plain: Callable[..., Any]) -> Callable[[Callable[..., Any]], Any]:
    """Compile a function that a join calls from its first row on. `plain` does the same in NumPy."""
    return lambda function: Meanwhile(compiled(function), plain)


def compiled_brief(function: Callable[..., Any]) -> Any:
    """The same for a function that returns at once. It keeps the GIL: to get it back takes longer than the call."""
    return compiled(function, nogil=False)


@cache
def cache_directory() -> Path:
    """Where generated kernels are kept. Its name changes with the versions that machine code depends on."""
    stamp = hashlib.sha256(f"{__version__} {numba_version} {sys.version}".encode()).hexdigest()[:12]
    return private_directory(f"kernels-{stamp}")


@cache
def private_directory(name: str) -> Path:
    """A directory of this name that nobody else can write to: in the cache directory if possible, else temporary."""
    directory = _lasting_directory(name)
    if directory is None:
        directory = Path(tempfile.mkdtemp(prefix=f"streamjoin-{name}-"))
        atexit.register(shutil.rmtree, directory, ignore_errors=True)
    return directory


@cache
def _lasting_directory(name: str) -> Path | None:
    """A directory of this name in the cache directory; None if there can be none that is private."""
    chosen = os.environ.get("STREAMJOIN_CACHE_DIR")
    try:
        base = Path(chosen) if chosen else _user_cache() / "streamjoin"
        directory = base / name
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        with tempfile.TemporaryFile(dir=directory):
            return directory if chosen or _is_private(directory) else None
    except (OSError, RuntimeError):
        if chosen:
            message = f"STREAMJOIN_CACHE_DIR: cannot write to {chosen!r}; name a writable directory"
            raise ArgumentError(message) from None
    return None


def _user_cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")


def _is_private(directory: Path) -> bool:
    status = directory.stat()
    return status.st_uid == os.getuid() and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def forget(source: str) -> None:
    """Remove the files of a module that cannot be read."""
    load.cache_clear()
    _module.cache_clear()
    path = _path(source)
    for file in [path, *(path.parent / "__pycache__").glob(f"{path.stem}*")]:
        file.unlink(missing_ok=True)


def _path(source: str) -> Path:
    """A generated module's file. Its name begins with that of the first function, and changes with the text and with
    all of our modules that the text imports."""
    digest = hashlib.sha256(source.encode())
    for module in sorted(_imported(source, "")):
        digest.update(_digest(module).encode())
    first = _FUNCTION.search(source)
    return cache_directory() / f"{'kernel' if first is None else first[1]}_{digest.hexdigest()[:20]}.py"


_FUNCTION = re.compile(r"^def (\w+)", re.MULTILINE)


@cache
def _digest(module: str) -> str:
    """Changes with the text of a module, and of all our modules that it imports, directly or through others."""
    found, waiting = dict[str, bytes](), [module]
    while waiting:
        name = waiting.pop()
        path = _file_of(name)
        if name not in found and path is not None:
            found[name] = path.read_bytes()
            waiting += _imported(found[name].decode(), name)
    versions = f"{numba_version} {sys.version}".encode()
    return hashlib.sha256(b"".join([versions, *(found[name] for name in sorted(found))])).hexdigest()[:20]


_IMPORT = re.compile(r"^\s*from (\.+[\w.]*|streamjoin[\w.]*) import ([\w, ]*)", re.MULTILINE)


def _imported(source: str, importer: str) -> set[str]:
    """Our modules that a module's text imports. Some of the names may be functions, which have no file."""
    found = set()
    for module, names in _IMPORT.findall(source):
        dots = len(module) - len(module.lstrip("."))
        above = importer.rsplit(".", dots)[0] if dots else ""
        room = ".".join(part for part in (above, module[dots:]) if part)
        found |= {room, *(f"{room}.{name.split()[0]}" for name in names.split(",") if name.strip())}
    return found


def _file_of(module: str) -> Path | None:
    """A module's file; None for a package or a name that is no module. Packages here only gather names."""
    path = Path(__file__).parents[1].joinpath(*module.split(".")[1:]).with_suffix(".py")
    return path if path.is_file() else None


@cache
def load(source: str, name: str) -> Kernel:
    """Import a generated function, whose machine code is kept."""
    function: Kernel = _kept(imported(source, name))
    return function


def imported(source: str, name: str) -> Any:
    """What a generated module calls by this name."""
    return getattr(_module(source), name)


@cache
def _module(source: str) -> ModuleType:
    """A generated module; its functions share what they call, so that nothing is compiled twice. A file that does not
    hold exactly this source is replaced, never run."""
    path = _path(source)
    if not path.exists() or path.read_text() != source:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        descriptor, temporary = tempfile.mkstemp(dir=path.parent, suffix=".tmp")
        with os.fdopen(descriptor, "w") as file:
            file.write(source)
        os.replace(temporary, path)
    spec = importlib.util.spec_from_file_location(f"streamjoin_kernel_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


class LazyKernel:
    """A kernel that is compiled when it is first called."""

    def __init__(self, source: str, name: str) -> None:
        self._source, self._name = source, name
        self._function: Kernel | None = None

    @property
    def function(self) -> Kernel:
        """The function itself, which may have to be compiled."""
        if self._function is None:
            self._function = load(self._source, self._name)
        return self._function

    def __call__(self, *args: Any) -> int:
        if self._function is None:
            try:
                self._function = load(self._source, self._name)
                return self._function(*args)
            except UNREADABLE:  # a damaged file of machine code: compile anew
                forget(self._source)
                self._function = load(self._source, self._name)
        return self._function(*args)
