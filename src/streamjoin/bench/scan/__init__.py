"""`streamjoin bench scan`: CellJoin's band join on one core, against C++ written by hand for it.

    l.x BETWEEN r.a - 10 AND r.a + 10 AND l.y BETWEEN r.b - 10. AND r.b + 10.

x, a are int32 and y, b float32, uniform from 1 to 10,000, so about one pair in 250,000 matches. y and b are multiples
of 1/128, so float32 and double arithmetic agree on every sum. All contestants must find the same pairs, and every round
checks that. The window is full before the first round. Each round has new probing tuples, and the contestants take
turns in it. All run in one thread. The clock is the thread's CPU time, which other programs do not change.
"""
