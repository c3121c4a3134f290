"""`streamjoin bench shapes`: the default arguments against every index and against peers, over many shapes of work.

A cell is one shape. The grid has five predicates, four windows and three batches:

    equality      l.x = r.a                                         keys unique within the window, nearly
    composite     l.x = r.a AND l.y BETWEEN r.b - w AND r.b + w     500 values of x
    band          l.x BETWEEN r.a - 1 AND r.a + 1
    square        bands on two columns
    ratio         l.x <> r.a AND l.y > r.b * c                      no equality and no band

with about one match per tuple. Windows of the grid count tuples; `time-equality` and `time-band` have windows of time
instead, which hold as many tuples. Further cells have skew, texts, decimals, outer
joins, disorder, changing rates and many results. `ticks-*` and `stocks-*` are real work: whole tables.

Streams are pushed and polled, with full windows and fresh tuples. Tables are joined by one call. Contestants of a cell
take turns, a lap each: rounds for some time, or one join of tables. A rate is tuples of both inputs per second of wall
time, in the best lap. Everything is compiled before the first lap. Regret is the rate of the best index chosen by hand
over the rate of the defaults.

All contestants of a cell must find the same number of results, in every round that they share. They run in a process
of their own, which is stopped when one of them takes too long. Who is far slower than the defaults has one lap only.
"""
