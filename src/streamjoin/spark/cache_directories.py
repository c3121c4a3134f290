"""Directories of the cache: to whom they belong, and when they go.

Only directories whose names end in the identity of a join are looked at: `cache_dir` may have others of the user.

Law: a join's directory goes when its query has ended, or when all executors that have used it have. If nobody can say,
because they ran in another container or before a restart of the machine, it goes after a day without use. What is lost
is made again.
"""

from __future__ import annotations

import os
import re
import shutil
import time
from collections.abc import Collection
from functools import cache
from pathlib import Path

from .local_files import ABANDONED

PREFIX, OWNER = "streamjoin-", ".owner-"
_IDENTITY = re.compile("[0-9a-f]{32}")
SPARKS_OWN = "blockmgr-"
"""How Spark calls an executor's directory of files. It stays if the executor is killed."""


def directory_of(root: str | Path, join: str) -> Path:
    return Path(root) / f"{PREFIX}{join}"


def claim(directory: Path) -> None:
    """Note in a directory that this process's executor uses it."""
    number, began = _executor()
    (directory / f"{OWNER}{number}-{began}-{_machine()}").touch(mode=0o600)


def sweep(root: Path, ended: Collection[str] = ()) -> None:
    """Remove the directories of joins that have ended: of those that are named, and of those whose executors are
    gone. Where the place is Spark's own, look into those of other executors beside it, too."""
    roots = [root, *root.parent.glob(f"{SPARKS_OWN}*/")] if root.name.startswith(SPARKS_OWN) else [root]
    for directory in (found for place in roots for found in place.glob(f"{PREFIX}*/")):
        join = directory.name.removeprefix(PREFIX)
        if _IDENTITY.fullmatch(join) and (join in ended or _is_abandoned(directory)):
            remove(directory)


def remove(directory: Path) -> None:
    shutil.rmtree(directory, ignore_errors=True)


def _is_abandoned(directory: Path) -> bool:
    owners = [path.name.removeprefix(OWNER).split("-", 2) for path in directory.glob(f"{OWNER}*")]
    here = [(number, began) for number, began, machine in owners if machine == _machine()]
    if any(_lives(number, began) for number, began in here):
        return False
    if owners and len(here) == len(owners):
        return True
    try:
        last = max(path.stat().st_mtime for path in (directory, *directory.glob("*/")))
    except OSError:
        return False
    return last < time.time() - ABANDONED


def _lives(number: str, began: str) -> bool:
    try:
        os.kill(int(number), 0)
    except (ProcessLookupError, ValueError, OverflowError):
        return False
    except OSError:
        pass  # it lives, and belongs to another user
    return _stat(int(number))[1] in (began, "")


@cache
def _machine() -> str:
    """What processes have in common that know each other's numbers: the start of the machine, and the container."""
    try:
        started = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{started}-{os.stat('/proc/self/ns/pid').st_ino}"
    except OSError:
        return os.uname().nodename


def _executor() -> tuple[int, str]:
    """The process that has started Python here, and when it began: the JVM, behind PySpark's daemon."""
    number = os.getppid()
    parent, began, name = _stat(number)
    if name != "java" and parent > 1 and _stat(parent)[2] == "java":
        return parent, _stat(parent)[1]
    return number, began


def _stat(number: int) -> tuple[int, str, str]:
    """A process's parent, when it began, and its name; where there is no such file, nothing."""
    try:
        before, _, behind = Path(f"/proc/{number}/stat").read_text().rpartition(")")
    except OSError:
        return 0, "", ""
    fields = behind.split()
    return int(fields[1]), fields[19], before.partition("(")[2]
