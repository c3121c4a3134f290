"""`streamjoin bench scan`: CellJoin's band join on one core, against C++ written by hand for it.

    l.x BETWEEN r.a - 10 AND r.a + 10 AND l.y BETWEEN r.b - 10. AND r.b + 10.

x, a are int32 and y, b float32, uniform from 1 to 10,000, so that one pair in about 250,000 matches. y and b are
multiples of 1/128: then float32 and double arithmetic agree on every sum, and all contestants, however the predicate
is spelled, must find the same pairs. That is checked in every round. The window is full before the first round, each
round has fresh probing tuples, and all contestants take turns within it. The clock is the thread's CPU time: all of
them run in one thread, and being interrupted by other programs is no property of theirs.
"""
