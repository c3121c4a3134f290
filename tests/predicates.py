"""The predicates that most tests share: every further one costs a second or more to compile in a fresh clone.

Kernels depend on the predicate's form and on the types of its columns, not on their names.
"""

from __future__ import annotations

KEY = "l.k = r.k"
BAND = "l.k BETWEEN r.k - 1 AND r.k + 1"
RANGE = "l.k < r.k"
TWO_BANDS = "l.x BETWEEN r.x - 10 AND r.x + 10 AND l.y BETWEEN r.y - 10 AND r.y + 10"
NO_KEY = "l.k * r.k % 7 = 3"
