"""`streamjoin bench panjoin`: whole joins with indexes, Arrow in and Arrow out (PanJoin, Fig. 15).

    equality    l.x = r.a                               keys uniform over W: one match per tuple
    band        l.x BETWEEN r.a - 1 AND r.a + 1         keys uniform over 3W: one match per tuple
    celljoin    l.x BETWEEN r.a - 10 AND r.a + 10 AND l.y BETWEEN r.b - 10. AND r.b + 10.      uniform 1..10,000

Both count windows have W tuples and are full before the first round. A round pushes a batch of each stream and polls
all results as tables. A rate is tuples of both streams per second of wall time. All contestants get the same streams,
each in its own arrays. They run one after another, each with all its rounds. In the first and the last round the number
of results is compared with an independent count (for celljoin: that of the NumPy peer with newly filled windows).
"""
