"""Settings of all tests: how long hypothesis looks, what JVMs do, and which tests `make quick` leaves out."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from xdist.scheduler import LoadFileScheduling

from .long import LONG

_QUIET = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]
settings.register_profile("default", deadline=None, max_examples=60, print_blob=True, suppress_health_check=_QUIET)
settings.register_profile("ci", settings.get_profile("default"), derandomize=True)
settings.register_profile("torture", settings.get_profile("default"), max_examples=2000)
settings.load_profile("torture" if LONG else "ci" if os.environ.get("CI") else "default")

os.environ.setdefault("STREAMJOIN_COMPILE", "first")
"""Kernels are compiled when they are called, so that tests run them. Tests of the time before turn this off."""
os.environ.setdefault(
    "JAVA_TOOL_OPTIONS",
    "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote",
)
"""No JVM lives for long here: one that compiles once and quickly, and does not check Spark's own classes, saves half of
the time."""

MARKED_ROOMS = ("spark", "hardware", "bench")
LONGEST_FIRST = ("spark", "hardware", "conformance", "bench")
"""Rooms whose tests begin first: they wait for other processes, or take long, and should not be alone at the end."""
ONE_SESSION = ("equal_to_join", "exactly_once", "job", "plan_join", "session")
"""Tests of Spark that share a session, and so a JVM, in one process."""


class Rooms(LoadFileScheduling):
    """The tests of a file stay in one process: they share fixtures and kernels. So do the files of `ONE_SESSION`."""

    def _split_scope(self, nodeid: str) -> str:
        file: str = super()._split_scope(nodeid)
        return "one session" if file in {f"tests/spark/test_{name}.py" for name in ONE_SESSION} else file


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Rooms:
    return Rooms(config, log)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests of some rooms with the marker of the same name, and let the longest begin first."""
    places = {}
    for item in items:
        path = item.path.relative_to(Path(__file__).parent)
        if path.parts[0] in MARKED_ROOMS:
            item.add_marker(path.parts[0])
        room = "spark" if item.get_closest_marker("spark") else path.parts[0]
        places[item] = [room != name for name in LONGEST_FIRST]
    items.sort(key=places.__getitem__)
