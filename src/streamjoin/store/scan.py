"""The subwindow without an index: every probing tuple is compared with every stored one.

Serves every predicate. Blocks that no probing tuple's window touches are skipped, so a tuple that lingers beyond its
window costs next to nothing until its subwindow goes.
"""

from __future__ import annotations

import numpy as np

from .batch import Batch, PairSink
from .subwindow import Subwindow


class ScanIndex(Subwindow):
    """Probes with the predicate's compiled scan."""

    def probe(self, batch: Batch, sink: PairSink) -> int:
        return self._run(batch, sink, (self.block_low, self.block_high, self.count), (), np.zeros(2, np.int64))
