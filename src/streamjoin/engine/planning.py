"""What every call that joins does first: it checks its arguments and plans its predicate."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import pyarrow as pa

from ..predicate import Predicate, not_too_deep, plan_for
from ..predicate.lower import Lowered, lower
from ..predicate.plan import Plan
from .options import Options, check_options


class Planned(NamedTuple):
    """A predicate that has been understood, and options that are valid."""

    plan: Plan
    lowered: Lowered
    options: Options


def planned(
    left: pa.Schema, right: pa.Schema, on: Predicate, aliases: Sequence[str] | None, **arguments: Any
) -> Planned:  # fmt: skip
    """Plan a join of two streams. `arguments` are those of `check_options`."""
    with not_too_deep():
        plan = plan_for(on, left, right, aliases)
        lowered = lower(plan)
    options = check_options(
        left, right, has_equality=bool(plan.equalities), has_order=lowered.has_order, **arguments
    )  # fmt: skip
    return Planned(plan, lowered, options)
