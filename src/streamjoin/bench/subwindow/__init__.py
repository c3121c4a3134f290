"""`streamjoin bench subwindow`: insertion into and probing of one subwindow, one thread (PanJoin, Figs. 10-13).

Keys are 32-bit integers, uniform. A batch arrives unsorted: the time of an insertion includes making the batch's words
and sorting them, and that of a probe sorting its ranges. A subwindow is filled with batches of the measured size, or
with larger ones up to the last rounds where that would take over 512 batches. In each of the last rounds before it is
full one batch is inserted and one of fresh ranges is probed; then it is sealed, and probed again. The pairs found are
counted in every round and compared with what `np.searchsorted` counts on the sorted keys. Contestants run one after
another, each on its own copies of the same tuples. The clock is the thread's CPU time.
"""
