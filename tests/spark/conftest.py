"""One Spark session for all tests of a process, and a Kafka broker for those that ask for it."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from .broker import Broker


@pytest.fixture(scope="session")
def java() -> None:
    if shutil.which("java") is None:
        pytest.skip("there is no java, which Spark and Kafka need")


@pytest.fixture(scope="session")
def spark(java: None) -> Iterator[Any]:
    from streamjoin.spark import session

    running = session("local[2]", "tests")
    yield running
    running.stop()


@pytest.fixture(scope="session")
def broker(java: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    directory: Path = tmp_path_factory.mktemp("kafka")
    with Broker(directory) as running:
        yield running
