"""Directories that belong to one user: what lies there was written by that user."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from ..errors import StateError

_BY_OTHERS = stat.S_IWGRP | stat.S_IWOTH


def made_private(directory: Path) -> None:
    """Make a directory within one within any third one, both of them private. Raises `OSError` if that is not
    possible."""
    directory.parent.parent.mkdir(parents=True, exist_ok=True)
    for one in (directory.parent, directory):
        one.mkdir(mode=0o700, exist_ok=True)
    check_private(directory)


def check_private(directory: Path) -> None:
    """Raise an error if others may have written here. There need be no such directory."""
    for one in (directory.parent, directory):
        try:
            found = one.lstat()
        except OSError:
            return
        if not stat.S_ISDIR(found.st_mode):
            problem = "is no directory"
        elif found.st_uid != os.getuid():
            problem = f"belongs to another user (uid {found.st_uid}; this one is {os.getuid()})"
        elif found.st_mode & _BY_OTHERS:
            problem = f"may be written by other users (mode {stat.S_IMODE(found.st_mode):o})"
        else:
            continue
        raise StateError(f"cache_dir: {one} {problem}; remove it, or give another cache_dir")


def open_private(path: Path) -> int:
    """The descriptor of a file to read. Raises `OSError` if the file is somebody else's."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    found = os.fstat(descriptor)
    if not stat.S_ISREG(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & _BY_OTHERS:
        os.close(descriptor)
        raise PermissionError(f"{path} may have been written by another user")
    return descriptor
