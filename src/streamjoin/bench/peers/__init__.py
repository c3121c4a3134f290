"""What streamjoin's indexes and windowed joins are measured against: BI-Sort in C++, and what a user would write
himself with NumPy, DuckDB or Polars.

The windowed joins are given the two streams batch by batch. Both streams have two columns, x and y of the left, a and b
of the right; x and a are int32, y and b are int32, or float32 for "celljoin":

    equality    x = a
    band        x BETWEEN a - width AND a + width
    celljoin    x BETWEEN a - width AND a + width AND y BETWEEN b - width AND b + width

In "band", keys must not be nearer than the width to the ends of int32; in "celljoin", values are from 0 to 16,000.
The ways they go were chosen by measuring, with batches of 32,768 and one match per tuple (celljoin: 1..10,000, width
10) on 2 idle cores of a Zen 4 EPYC. The levels in the comments are M tuples/s, both streams together, at windows of
100,000 and 1,000,000 tuples.
"""

from __future__ import annotations

from .base import Peer
from .duckdb_peer import DuckDB, DuckDBBinned
from .numpy_peer import NumPy
from .polars_peer import Polars, PolarsBinned

PEERS: dict[str, tuple[type[Peer], ...]] = {
    "equality": (NumPy, DuckDB, Polars),
    "band": (NumPy, DuckDB, DuckDBBinned, Polars, PolarsBinned),
    "celljoin": (NumPy, DuckDB, DuckDBBinned, Polars, PolarsBinned),
}
"""Who can be asked for what. The plain ones take long for celljoin: DuckDB 2 K, Polars 0.13 M tuples/s at 100,000."""
