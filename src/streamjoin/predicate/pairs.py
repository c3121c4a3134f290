"""The lowered condition over columns of candidate pairs, in NumPy: the same text as in compiled loops."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..arrays import Array, Mask
from . import ops_vector
from .lower import Lowered
from .references import Names, filled

_NAMESPACE = {name: getattr(ops_vector, name) for name in ops_vector.__all__}


class PairCondition:
    """Says which of some candidate pairs meet the condition; `left` and `right` are the pairs' slots."""

    def __init__(self, lowered: Lowered) -> None:
        self._tested = lowered.tested

        def named(text: str) -> str:
            return filled(text, Names("left[", "]"), Names("right[", "]"), Names("t", ""), Names("w", ""))

        lines = "".join(f"    {named(line)}\n" for line in lowered.lines)
        source = f"def condition(left, right):\n{lines}    return {named(lowered.condition)}\n"
        namespace: dict[str, Any] = {**_NAMESPACE, "np": np}
        exec(compile(source, "<streamjoin pair condition>", "exec"), namespace)  # our own text: no user text gets in
        self._condition = namespace["condition"]

    def __call__(self, left: Sequence[Array], left_places: Any, right: Sequence[Array], right_places: Any) -> Mask:
        """Which pairs of tuples at these places match, as far as slots can say."""
        slots = [
            {number: columns[number][places] for number in tested}
            for columns, places, tested in (
                (left, left_places, self._tested.left), (right, right_places, self._tested.right),
            )
        ]  # fmt: skip
        with np.errstate(all="ignore"):
            matches = self._condition(*slots)
        found: Mask = np.broadcast_to(np.asarray(matches, np.bool_), (len(left_places),))
        return found
