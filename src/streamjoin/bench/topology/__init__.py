"""`streamjoin bench topology`: the papers' figures for the multi-core topologies, and a model of 1 to 256 cores.

    l.x BETWEEN r.a - 10 AND r.a + 10 AND l.y BETWEEN r.b - 10. AND r.b + 10.      uniform 1..10,000 (CellJoin)

    throughput   every topology against kernels that only scan; what punctuation and sorting cost
    index        an equality with low-latency handshake join, with and without an index
    latency      both handshake joins at half their highest rate, beside the model of handshake join's latency
    scalejoin    how evenly threads share the work of several physical streams, and the gate's own throughput
    model        `topology.model` with costs measured here: against the runs, and for the papers' core counts

How each is measured stands in `handshaking` and `scaling`. Rates are tuples of both streams per second of wall time,
except where they are said to be each stream's, as the papers give them.
"""
