"""What contestants take and give: columns in, pairs of places or rows out."""

from __future__ import annotations

from ..arrays import Array

Columns = tuple[Array, Array]
"""A stream's two columns: x and y of the left, a and b of the right."""
Rows = tuple[Array, Array, Array, Array]
"""Result rows: x, y, a, b."""
Pairs = tuple[Array, Array]
"""Places of the probing tuples and of the stored tuples that match."""
