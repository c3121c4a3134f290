"""How cores share the work: one file per algorithm of the papers (docs/algorithms.md), found in `registry`."""
