"""All indexes, in the order in which users see them. To add one, write its file and name the file here."""

from __future__ import annotations

from importlib import import_module

from .index import IndexKind

FILES = (
    "scan",
    "hash",
    "bi_sort",
    "rap_table",
    "wib_tree",
)
"""Modules of this room. Each defines one index as its `KIND`."""

_KINDS: list[IndexKind] = [import_module(f".{file}", __package__).KIND for file in FILES]
INDEXES: dict[str, IndexKind] = {kind.name: kind for kind in _KINDS}
