"""`streamjoin bench panjoin`: whole joins with indexes, Arrow in and Arrow out (PanJoin, Fig. 15).

    equality    l.x = r.a                               keys uniform over W: one match per tuple
    band        l.x BETWEEN r.a - 1 AND r.a + 1         keys uniform over 3W: one match per tuple
    celljoin    l.x BETWEEN r.a - 10 AND r.a + 10 AND l.y BETWEEN r.b - 10. AND r.b + 10.      uniform 1..10,000

Count windows of W tuples on both sides, full before the first round. In a round a batch of each stream is pushed, and
all results are taken as tables. A rate is tuples of both streams per second of wall time. All contestants get the same
streams, each in its own arrays, one after another and each for all its rounds at once. Counts of results are compared
with an independent count (of celljoin: the NumPy peer's, from windows filled anew) in the first and the last round.
"""
