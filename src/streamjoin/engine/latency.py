"""How long results take."""

from __future__ import annotations

import time
from collections import deque
from typing import Any

import numpy as np

SAMPLES = 4096


class Latency:
    """Percentiles over the most recent samples, each weighted by the results it stands for; and the longest time of
    all, which is that of a result or of a call that gave none.

    Times are those of `time.perf_counter`.
    """

    def __init__(self) -> None:
        self._samples: deque[tuple[float, int]] = deque(maxlen=SAMPLES)
        self._longest = 0.0

    def add(self, began: float, results: int) -> None:
        """From now on so many results can be polled; the push that completed them began then."""
        if results:
            seconds = time.perf_counter() - began
            self._samples.append((seconds, results))
            self._longest = max(self._longest, seconds)

    def note(self, began: float) -> None:
        """A call that began then has done its work, whether it gave results or not."""
        seconds = time.perf_counter() - began
        if seconds > self._longest:
            self._longest = seconds

    def percentiles(self) -> dict[str, float | None]:
        """Milliseconds from the beginning of the push that completed a pair until the pair could be polled; "max" also
        counts calls that gave no results. None where nothing is known yet."""
        longest = self._longest * 1e3 or None
        if not self._samples:
            return {"p50": None, "p95": None, "p99": None, "max": longest}
        seconds, weights = np.array(self._samples).T
        order = np.argsort(seconds)
        share = np.cumsum(weights[order]) / weights.sum()
        figures: dict[str, Any] = {
            f"p{p}": float(seconds[order][np.searchsorted(share, p / 100)] * 1e3) for p in (50, 95, 99)
        }
        return {**figures, "max": longest}
