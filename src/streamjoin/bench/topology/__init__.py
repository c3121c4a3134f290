"""`streamjoin bench topology`: the papers' figures for the multi-core topologies, and a model of 1 to 256 cores.

    l.x BETWEEN r.a - 10 AND r.a + 10 AND l.y BETWEEN r.b - 10. AND r.b + 10.      uniform 1..10,000 (CellJoin)

    throughput   every topology against kernels that only scan; the cost of punctuation and sorting
    index        an equality with low-latency handshake join, with and without an index
    latency      both handshake joins at half their highest rate, beside the model of handshake join's latency
    scalejoin    how evenly nodes share the work of several physical streams, and the gate's own throughput
    model        `lab.model` with costs measured here: against the runs, and for the papers' core counts

Each module says how it measures. Rates are tuples of both streams per second of wall time; "of each stream" marks
rates as the papers give them.
"""
