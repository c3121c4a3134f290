"""`streamjoin bench machine`: how joins grow with the cores of this machine, and what its GPU adds.

A *cell* is one join. Its contestants are the numbers of workers, 1, 2, 4 and so on, the default (`workers=None`), and
the GPU if there is one:

    scan       CellJoin's predicate by `index="scan"`, each topology in a cell of its own      G comparisons/s
    equality   l.x = r.a                                      one match per tuple              M tuples/s
    band       l.x BETWEEN r.a - 1 AND r.a + 1                one match per tuple              M tuples/s
    square     CellJoin's bands on two columns                one match per tuple              M tuples/s
    keyless    abs(l.x * r.a - l.y * r.b) < 3                 nothing to search by             G comparisons/s
    latency    batches of 64: from the push of both to the results                             ms

Both count windows are full before the clock starts, and every round brings fresh tuples. A round pushes a batch of
each stream and polls all results. Contestants take turns with laps of some rounds, every second time in the reverse
order, so a change of the machine's speed hits all of them. A figure is the median of the laps, with the slowest and the
fastest.

All contestants must find as many results in every round that they share, and some rounds are also counted without the
join. The limits of the machine are measured in the same run: scans in processes that do not know each other, copies in
memory on 1, 2, 4 and so on threads, and the GPU's integer operations.
"""
