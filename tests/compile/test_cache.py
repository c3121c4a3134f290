"""The directory of compiled kernels: it is shared, not trusted, and may be missing. Each test starts its processes."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

from ..long import LONG

KERNEL = """
from streamjoin.compile.cache import LazyKernel, cache_directory
source = "from numba import njit\\n\\n@njit\\ndef double(x):\\n    return 2 * x\\n"
print("found", LazyKernel(source, "double")(21), cache_directory(), cache_directory().is_dir())
"""
"""Compiles the smallest kernel there is."""

JOIN = """
import pyarrow as pa, streamjoin as sj
from streamjoin.compile.cache import cache_directory
table = pa.table({"k": [1, 2]})
try:
    join = sj.WindowJoin(table.schema, table.schema, on="l.k = r.k", window=5)
except sj.ArgumentError as error:
    print("refused", str(error).replace(" ", "_"))
    raise SystemExit(0)
join.push_left(table)
join.push_right(table)
print("found", join.finish().num_rows, cache_directory(), cache_directory().is_dir())
"""

WHERE = "from streamjoin.compile.cache import cache_directory; print(cache_directory())"


def environment(**changes: str | None) -> dict[str, str]:
    """That of this process with some changes; None removes a variable."""
    kept = {name: value for name, value in os.environ.items() if name not in changes}
    kept["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)
    return kept | {name: value for name, value in changes.items() if value is not None}


def start(code: str = KERNEL, **changes: str | None) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", code],
        env=environment(**changes),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def outcome(process: subprocess.Popen[str]) -> list[str]:
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    return out.split()


def run(code: str = KERNEL, **changes: str | None) -> list[str]:
    return outcome(start(code, **changes))


@pytest.fixture(scope="module")
def warm(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache directory in which the kernel has been compiled."""
    directory = tmp_path_factory.mktemp("kernels")
    word, result, used, _ = run(STREAMJOIN_CACHE_DIR=str(directory))
    assert (word, result) == ("found", "42")
    assert Path(used).parent == directory
    return directory


def contents(directory: Path) -> dict[Path, tuple[int, int]]:
    files = [path for path in directory.rglob("*") if path.is_file()]
    return {path: (path.stat().st_mtime_ns, path.stat().st_ino) for path in files}


def sources(directory: Path) -> list[Path]:
    found = [path for path in directory.rglob("*.py") if "__pycache__" not in path.parts]
    assert found
    return found


def test_a_second_process_loads_without_writing(warm: Path) -> None:
    before = contents(warm)
    assert any(path.suffix == ".nbc" for path in before)
    assert run(STREAMJOIN_CACHE_DIR=str(warm))[:2] == ["found", "42"]
    assert contents(warm) == before
    assert not [path for path in before if path.suffix == ".tmp"]


@pytest.mark.parametrize("harm", ["foreign", "cut", "bytes", *(["emptied", "replaced"] if LONG else [])])
def test_a_harmed_kernel_is_replaced_and_not_run(warm: Path, harm: str, tmp_path: Path) -> None:
    directory = Path(shutil.copytree(warm, tmp_path / "copy"))
    originals = {path: path.read_bytes() for path in sources(directory)}
    foreign = b'print("FOREIGN CODE RAN")\n'
    for path, original in originals.items():
        path.write_bytes({
            "emptied": b"",
            "foreign": original + foreign,
            "replaced": foreign,
            "cut": original[: len(original) // 2],
            "bytes": b"\xff\xfe\x00" + original,
        }[harm])  # fmt: skip
    assert run(STREAMJOIN_CACHE_DIR=str(directory))[:2] == ["found", "42"]
    assert any(path.read_bytes() == original for path, original in originals.items())


NO_HOME = """
from pathlib import Path
def home(*args):
    raise RuntimeError("Could not determine home directory.")
Path.home = home
import os.path
os.path.expanduser = lambda path: path
"""


def is_temporary(directory: str) -> bool:
    return Path(directory).is_relative_to(tempfile.gettempdir()) and "streamjoin-kernels-" in directory


def without_default(**changes: Any) -> dict[str, str | None]:
    return {"STREAMJOIN_CACHE_DIR": None, "XDG_CACHE_HOME": None, **changes}


def test_no_home_at_all() -> None:
    word, result, used, is_there = run(NO_HOME + KERNEL, **without_default(HOME=""))
    assert (word, result, is_there) == ("found", "42", "True")
    assert is_temporary(used)
    assert not Path(used).exists()  # it was this process's alone, and went with it


@pytest.mark.parametrize("home", ["/dev/null", "a file"])
def test_a_home_that_cannot_be_written(home: str, tmp_path: Path) -> None:
    if home == "a file":
        home = str(tmp_path / "file")
        Path(home).write_text("")
    word, result, used, is_there = run(**without_default(HOME=home))
    assert (word, result, is_there) == ("found", "42", "True")
    assert is_temporary(used)
    assert not Path(used).exists()


def test_the_default_is_in_the_users_cache_directory(tmp_path: Path) -> None:
    for changes, base in (
        ({"HOME": str(tmp_path / "home")}, tmp_path / "home" / ".cache"),
        ({"HOME": str(tmp_path / "home"), "XDG_CACHE_HOME": str(tmp_path / "xdg")}, tmp_path / "xdg"),
    ):
        (used,) = run(WHERE, **without_default(**changes))
        assert Path(used).parent == base / "streamjoin"
        assert Path(used).stat().st_mode & 0o077 == 0


def test_a_default_directory_open_to_others_is_not_used(tmp_path: Path) -> None:
    (used,) = run(WHERE, **without_default(HOME=str(tmp_path)))
    for mode in (0o777, 0o775):
        Path(used).chmod(mode)
        (another,) = run(WHERE, **without_default(HOME=str(tmp_path)))
        assert is_temporary(another)
    (chosen,) = run(WHERE, STREAMJOIN_CACHE_DIR=str(tmp_path / ".cache" / "streamjoin"))
    assert chosen == used


def test_a_chosen_directory_that_cannot_be_written_is_refused_at_the_call(tmp_path: Path) -> None:
    """Below a regular file no one can make a directory, whatever their rights."""
    (tmp_path / "file").write_text("")
    word, message = run(JOIN, STREAMJOIN_CACHE_DIR=str(tmp_path / "file" / "x"))
    assert word == "refused"
    assert message.startswith("STREAMJOIN_CACHE_DIR:")
    assert str(tmp_path / "file" / "x") in message


NOTED = """
import time
from numba.core import event
class Noted(event.Listener):
    count = 0
    def on_start(self, event):
        if event.data["dispatcher"].py_func.__name__ == "double":
            Noted.count += 1
            time.sleep(1)  # so that the others must wait
    def on_end(self, event):
        pass
event.register("numba:compile", Noted())
"""
"""Counts how often the kernel is compiled, and makes that slow."""


def test_several_processes_at_once_compile_once(tmp_path: Path) -> None:
    code = f"{NOTED}{KERNEL}print(Noted.count)\n"
    processes = [start(code, STREAMJOIN_CACHE_DIR=str(tmp_path / "cold")) for _ in range(4)]
    ended = [outcome(process) for process in processes]
    for found in ended:
        assert found[:2] == ["found", "42"]
        assert Path(found[2]).parent == tmp_path / "cold"
    assert sum(int(found[-1]) for found in ended) == 1
    before = contents(tmp_path / "cold")
    assert not [path for path in before if path.suffix == ".tmp"]
    assert run(STREAMJOIN_CACHE_DIR=str(tmp_path / "cold"))[:2] == ["found", "42"]
    assert contents(tmp_path / "cold") == before


FAILING = """
failing = LazyKernel("from numba import njit\\n\\n@njit\\ndef fails(x):\\n    return x.no\\n", "fails")
try:
    failing(1)
except Exception as error:
    print(type(error).__name__, flush=True)
"""


def test_a_compilation_that_fails_gives_its_turn_away(tmp_path: Path) -> None:
    waits = "import time; time.sleep(5)\n"
    with start(KERNEL + FAILING + waits, STREAMJOIN_CACHE_DIR=str(tmp_path)) as first:
        assert first.stdout is not None
        assert [first.stdout.readline().split()[0] for _ in range(2)] == ["found", "TypingError"]
        assert run(KERNEL + FAILING, STREAMJOIN_CACHE_DIR=str(tmp_path))[-1] == "TypingError"
        assert first.poll() is None, "the first still runs, and held nobody up"
        first.kill()


def test_an_interrupt_gives_the_turn_away(tmp_path: Path) -> None:
    """Ctrl-C comes while a function is compiled: it is compiled, the call ends, and no lock is left."""
    code = """
import os, signal
from streamjoin.compile import turns
try:
    LazyKernel(source, "double")(21)
except KeyboardInterrupt:
    print("interrupted", len(turns._HELD.levels), LazyKernel(source, "double")(4))
"""
    press = NOTED.replace("time.sleep(1)", "os.kill(os.getpid(), signal.SIGINT)").replace(
        "import time", "import os, signal"
    )
    define = KERNEL[: KERNEL.index("print(")]
    assert run(press + define + code, STREAMJOIN_CACHE_DIR=str(tmp_path)) == ["interrupted", "0", "8"]


def test_nobody_waits_for_ever(tmp_path: Path) -> None:
    """A process may stand still while it compiles."""
    hold = """
import time
from streamjoin.compile.cache import load
held = load(source.replace("double", "held"), "held")._cache._lock()
print("holds", flush=True)
time.sleep(60)
"""
    impatient = """
from streamjoin.compile import turns
turns.PATIENCE = 0.1
print(LazyKernel(source.replace("double", "held"), "held")(4))
"""
    with start(KERNEL + hold, STREAMJOIN_CACHE_DIR=str(tmp_path)) as first:
        assert first.stdout is not None
        assert [first.stdout.readline().split()[0] for _ in range(2)] == ["found", "holds"]
        assert run(KERNEL + impatient, STREAMJOIN_CACHE_DIR=str(tmp_path))[-1] == "8"
        assert first.poll() is None
        first.kill()


def test_a_directory_deleted_while_in_use(tmp_path: Path) -> None:
    code = """
import shutil
shutil.rmtree(cache_directory())
print(LazyKernel(source.replace("double", "again"), "again")(4))
"""
    assert run(KERNEL + code, STREAMJOIN_CACHE_DIR=str(tmp_path))[-1] == "8"
