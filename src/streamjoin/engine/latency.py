"""How long results take."""

from __future__ import annotations

from collections import deque
from typing import Any

import numpy as np

SAMPLES = 4096


class Latency:
    """Percentiles over the most recent samples, each weighted by the results it stands for."""

    def __init__(self) -> None:
        self._samples: deque[tuple[float, int]] = deque(maxlen=SAMPLES)

    def add(self, seconds: float, results: int) -> None:
        if results:
            self._samples.append((seconds, results))

    def percentiles(self) -> dict[str, float | None]:
        """Milliseconds from the push that completed a pair until the pair could be polled."""
        if not self._samples:
            return {"p50": None, "p95": None, "p99": None, "max": None}
        seconds, weights = np.array(self._samples).T
        order = np.argsort(seconds)
        share = np.cumsum(weights[order]) / weights.sum()
        figures: dict[str, Any] = {
            f"p{p}": float(seconds[order][np.searchsorted(share, p / 100)] * 1e3) for p in (50, 95, 99)
        }
        return {**figures, "max": float(seconds.max() * 1e3)}
