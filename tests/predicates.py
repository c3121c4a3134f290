"""The predicates that most tests share: every further one costs a second or more to compile in a fresh clone.

Kernels depend on the predicate's form and on the types of its columns, not on their names.
"""

from __future__ import annotations

KEY = "l.k = r.k"
BAND = "l.k BETWEEN r.k - 1 AND r.k + 1"
RANGE = "l.k < r.k"
EQUALITY_AND_BAND = "l.k = r.k AND l.x BETWEEN r.x - 5 AND r.x + 5"
TWO_BANDS = "abs(l.x - r.x) <= 10 AND abs(l.y - r.y) <= 10"
NO_KEY = "l.k * r.k % 7 = 3"
