"""The product's constants that tests make smaller, so that short streams reach every corner: each by its place."""

from __future__ import annotations

from typing import Any

import pytest

PLACES = {
    "RELEASE_ROWS": "streamjoin.engine.steps.RELEASE_ROWS",
    "FORGET_ROWS": "streamjoin.engine.steps.FORGET_ROWS",
    "GATE_CAPACITY": "streamjoin.engine.scale_gate.CAPACITY",
    "SLICE": "streamjoin.engine.replay.SLICE",
    "ENOUGH": "streamjoin.engine.replay.ENOUGH",
    "LARGEST_STEP": "streamjoin.flow.front.LARGEST_STEP",
    "LONGEST_TEXTS": "streamjoin.payload.taking.LONGEST",
    "PART_ROWS": "streamjoin.payload.taking.PART_ROWS",
    "STREAMED_ROWS": "streamjoin.payload.taking.STREAMED_ROWS",
    "SMALL_BUFFER": "streamjoin.payload.taking.SMALL_BUFFER",
    "LENGTH_BITS": "streamjoin.payload.records.LENGTH_BITS",
    "TAIL": "streamjoin.store.ordered.TAIL",
    "BELATED": "streamjoin.store.ordered.BELATED",
    "SMALLEST_SUBWINDOW": "streamjoin.store.chain.SMALLEST",
    "SMALLEST_SCANNED": "streamjoin.store.chain.SMALLEST_SCANNED",
    "SHORTEST_TAIL": "streamjoin.store.ordered.SHORTEST_TAIL",
    "SCANNED_TAIL": "streamjoin.store.ordered.SCANNED_TAIL",
    "WORTH_TRIMMING": "streamjoin.store.batch.WORTH_TRIMMING",
    "MOST_ROWS": "streamjoin.store.chain.MOST_ROWS",
    "LARGEST_PART": "streamjoin.store.batch.LARGEST_PART",
    "QUOTA": "streamjoin.store.batch.QUOTA",
    "BUFFER": "streamjoin.store.batch.BUFFER",
    "SPARE_BUFFERS": "streamjoin.store.batch.PairSink._spare",
    "FEW_PROBES": "streamjoin.store.subwindow.FEW_PROBES",
    "MERGED": "streamjoin.store.word_jobs.MERGED",
    "LEAST_WORDS": "streamjoin.store.word_jobs.LEAST",
    "LEAST_STORED": "streamjoin.store.table_jobs.LEAST",
    "SHARED_ROWS": "streamjoin.payload.records.SHARED_ROWS",
    "FEW_ROWS": "streamjoin.payload.payload.FEW_ROWS",
    "PAIRS": "streamjoin.store.pair_slots.PAIRS",
    "LEAST_ROOM": "streamjoin.store.pair_slots.LEAST_ROOM",
    "ALONE": "streamjoin.topology.pan.ALONE",
    "IN_A_ROW": "streamjoin.topology.small_steps.IN_A_ROW",
    "MOST_REACHED": "streamjoin.store.few_scan.MOST_REACHED",
    "DEVICE_PART": "streamjoin.store.side_window.DEVICE_PART",
    "PLENTY_SECONDS": "streamjoin.topology.pace.PLENTY_SECONDS",
    "FEW_SECONDS": "streamjoin.topology.pace.FEW_SECONDS",
    "CORES": "streamjoin.parallel.crew.cores_here",
    "SMALL_SCANNED": "streamjoin.store.side_window.SMALL",
    "INTERIM_CANDIDATES": "streamjoin.topology.interim.CANDIDATES",
    "INTERIM_FEW": "streamjoin.topology.interim.FEW",
    "SMALLEST_BLOCK": "streamjoin.topology.driver.SMALLEST_BLOCK",
    "LARGEST_BLOCK": "streamjoin.topology.driver.LARGEST_BLOCK",
    "LARGEST_OF_STAR": "streamjoin.topology.driver.LARGEST_OF_STAR",
    "MOST_INSERTED": "streamjoin.topology.rounds.MOST_INSERTED",
    "MOST_ASKED": "streamjoin.topology.rounds.MOST_ASKED",
    "MERGED_BLOCKS": "streamjoin.topology.node_window.MERGED",
    "SHARED_TUPLES": "streamjoin.topology.rounds.SHARED_TUPLES",
    "GPU_THREADS": "streamjoin.gpu.kernel.THREADS",
    "GPU_LANES": "streamjoin.gpu.kernel.LANES",
    "GPU_ROOM": "streamjoin.gpu.machine.ROOM",
    "GPU_TILE": "streamjoin.gpu.pieces.TILE",
    "GPU_SMALLEST": "streamjoin.gpu.arena.SMALLEST",
    "GPU_FIRST_FETCH": "streamjoin.gpu.lane.FIRST_FETCH",
    "GPU_STAGED": "streamjoin.gpu.lane.STAGED",
    "GPU_GROUP": "streamjoin.gpu.runs.GROUP",
    "GPU_AT_ONCE": "streamjoin.gpu.launches.AT_ONCE",
    "GPU_SAMPLED": "streamjoin.gpu.runs.SAMPLED",
    "GPU_SELECTIVE": "streamjoin.gpu.runs.SELECTIVE",
    "GPU_CHUNK": "streamjoin.gpu.runs.CHUNK",
    "GPU_SHIFT": "streamjoin.gpu.row_numbers.SHIFT",
    "WALK_FREE": "streamjoin.store.walk_back.FREE",
    "WALK_PATIENCE": "streamjoin.store.walk_back.PATIENCE",
    "WALK_AT_ONCE": "streamjoin.store.walk_back.AT_ONCE",
    "WALK_MOST": "streamjoin.store.walk_back.MOST_COMPARED",
    "SMALL_STEP": "streamjoin.topology.driver.SMALL",
}


def replace(monkeypatch: pytest.MonkeyPatch, **values: Any) -> None:
    """Until the end of the test, these constants have these values."""
    for name, value in values.items():
        monkeypatch.setattr(PLACES[name], value)
