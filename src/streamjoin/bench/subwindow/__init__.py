"""`streamjoin bench subwindow`: insertion into and probing of one subwindow, one thread (PanJoin, Figs. 10-13).

Keys are uniform 32-bit integers. A batch arrives unsorted: an insertion's time includes making and sorting the batch's
words, and a probe's time includes sorting its ranges. A subwindow is filled with batches of the measured size. If that
would take more than 512 batches, larger batches fill it up to the last rounds. Each of the last rounds inserts one
batch and probes one batch of new ranges. Then the subwindow is sealed and probed again. In every round the number of
pairs is compared with the count of `np.searchsorted` on the sorted keys. Contestants run one after another, each on its
own copies of the same tuples. The clock is the thread's CPU time.
"""
