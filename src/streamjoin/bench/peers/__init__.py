"""The peers of the windowed joins: what a user would write with NumPy, DuckDB or Polars.

Peers get the two streams batch by batch. Both streams have two columns: x and y of the left, a and b of the right. x
and a are int32; y and b are int32, or float32 for "celljoin":

    equality    x = a
    band        x BETWEEN a - width AND a + width
    celljoin    x BETWEEN a - width AND a + width AND y BETWEEN b - width AND b + width

"band" needs keys that are at least the width away from the ends of int32; "celljoin" needs values from 0 to 16,000.
Measurements chose how each peer works: batches of 32,768, one match per tuple (celljoin: 1..10,000, width 10), 2 idle
cores of a Zen 4 EPYC. Figures in comments are M tuples/s of both streams, at windows of 100,000 and 1,000,000 tuples.

`table_peers` has peers for any other join of two tables, and `streamed` runs those on streams.
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
"""The peers of each kind of join. The plain ones are slow for celljoin (DuckDB 2 K, Polars 0.13 M tuples/s)."""
