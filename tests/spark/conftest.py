"""One Spark session for all tests of a process, a Kafka broker for those that ask for it, and random choices."""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from streamjoin.store.costs import Costs

from .. import interpreted
from ..long import LONG
from .broker import Broker, connector_jars
from .sessions import LOCAL_FILES, QUICK


@pytest.fixture(scope="session")
def java() -> None:
    if shutil.which("java") is None:
        pytest.skip("there is no java, which Spark and Kafka need")


@pytest.fixture(scope="session")
def spark(java: None) -> Iterator[Any]:
    from streamjoin.spark import session

    running = session("local[2]", "tests", **QUICK, **LOCAL_FILES)
    yield running
    running.stop()


@pytest.fixture
def rng(request: pytest.FixtureRequest) -> random.Random:
    """The same choices every time; other ones under STREAMJOIN_TORTURE=1, which STREAMJOIN_SEED repeats."""
    seed = int(os.environ.get("STREAMJOIN_SEED", random.randrange(2**32) if LONG else 1))
    print(f"STREAMJOIN_SEED={seed}")
    return random.Random(f"{seed} {request.node.name}")


@pytest.fixture
def small_segments(monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker merges, splits and indexes already what is very small, and routers share it out."""
    monkeypatch.setattr("streamjoin.spark.side_segments.SMALL", 8)
    monkeypatch.setattr("streamjoin.spark.router.ENOUGH", 1)
    monkeypatch.setattr("streamjoin.spark.key_router.ENOUGH", 1)
    monkeypatch.setattr("streamjoin.spark.key_router.UNEVEN", 1.01)
    monkeypatch.setattr("streamjoin.spark.key_router.SHARE", 0.1)
    monkeypatch.setattr("streamjoin.spark.router.UNEVEN", 1.01)
    monkeypatch.setattr("streamjoin.spark.router.BETTER", 1.0)
    monkeypatch.setattr("streamjoin.store.ordered.TAIL", 4)
    monkeypatch.setattr("streamjoin.store.index_choice.costs", lambda: Costs(scan_step=1e9))


@pytest.fixture
def few_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernels of predicates are plain Python, except in the long version: other tests prove the machine code."""
    if not LONG:
        interpreted.install(monkeypatch)


@pytest.fixture(scope="session")
def broker(java: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    directory: Path = tmp_path_factory.mktemp("kafka")
    with ThreadPoolExecutor() as pool:
        pool.submit(connector_jars)  # whoever needs the broker needs these too, and Maven takes its time
        with Broker(directory) as running:
            yield running
