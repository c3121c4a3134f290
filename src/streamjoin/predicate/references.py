"""References: places in generated text for names that only the kernel around the text knows.

`{left[3]}` is slot 3 of the left tuple, `{right[2]}` slot 2 of the right one, `{result[5]}` the sixth intermediate
result and `{width[0]}` a number that a scan prepares per probing tuple. The dialect has no braces of its own, so
`str.format` puts the names in.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Literal

from ..side import Side

Kind = Side | Literal["result", "width"]


def reference(kind: Kind, number: int) -> str:
    return f"{{{kind}[{number}]}}"


def is_reference(text: str) -> bool:
    """Whether the text is one reference and nothing else."""
    return text.startswith("{") and text.find("}") == len(text) - 1


@dataclass(frozen=True, slots=True)
class Names:
    """The names of all references of one kind: the number between two texts."""

    before: str
    after: str

    def __getitem__(self, number: int) -> str:
        return f"{self.before}{number}{self.after}"


def filled(text: str, left: Any, right: Any, result: Any, width: Any) -> str:
    """The text with a name in place of each reference."""
    return text.format(left=left, right=right, result=result, width=width)


def referenced_slots(texts: Iterable[str]) -> dict[Side, set[int]]:
    """The slots of either side that the texts refer to."""
    left, right, any_other = _Asked(), _Asked(), _Asked()
    for text in texts:
        filled(text, left, right, any_other, any_other)
    return {"left": left.numbers, "right": right.numbers}


@dataclass(slots=True)
class _Asked:
    """Gives no names, but notes which were asked for."""

    numbers: set[int] = field(default_factory=set)

    def __getitem__(self, number: int) -> str:
        self.numbers.add(number)
        return ""
