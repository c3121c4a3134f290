"""Every algorithm that users can choose. A new one is a file that says what it needs, and a line here."""

from __future__ import annotations

from .cell import CellJoin
from .handshake import HandshakeJoin
from .low_latency import LowLatencyHandshakeJoin
from .pan import PanJoin
from .protocol import Topology
from .scale import ScaleJoin
from .split import SplitJoin
from .three_step import ThreeStep

ALGORITHMS: dict[str, type[Topology]] = {
    algorithm.name: algorithm
    for algorithm in (
        ThreeStep,
        CellJoin,
        HandshakeJoin,
        LowLatencyHandshakeJoin,
        SplitJoin,
        ScaleJoin,
        PanJoin,
    )
}


def default_algorithm(workers: int) -> str:
    """What "auto" stands for."""
    return PanJoin.name if workers > 1 else ThreeStep.name
