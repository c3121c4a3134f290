"""Which row is meant, in two words that every worker computes alike from the row itself.

Rows with the same coordinate, and the same values in all columns that the predicate reads, are in the same pairs where
windows are by time: they may share an identity. Where the merged order counts, the coordinate is a row's position in
its stream, which no other row has. Two other rows have the same identity with a chance of one in 2**128.

An identity does not depend on where a row stands in its partition: if Spark computes a part of a micro-batch again,
rows may come in another order.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from ..arrays import Integers, Words
from ..arrow.fields import read
from ..arrow.tables import contiguous, decoded, is_text, valid_rows
from ..predicate.dialect import is_wide
from ..predicate.encode import OFFSETS, text_words
from ..predicate.frames import read_numbers, read_words
from ..predicate.types import from_arrow
from ..side import Side
from ..store.hashing import hash_keys
from .spec import JoinSpec

NULL = np.uint64(0x6A09E667F3BCC909)
"""The word of a missing value."""


def identities(spec: JoinSpec, side: Side, table: pa.Table, coordinate: Integers) -> Integers:
    """The identities of a table's rows: their first words, and their second ones."""
    words = [coordinate, *(_word(contiguous(read(table, name))) for name in spec.read[side])]
    return np.stack([hash_keys(words), hash_keys(words[::-1])]).view(np.int64)


def positions_as_identities(position: Integers) -> Integers:
    """The identities of rows in the merged order, from their positions alone, which are the second words."""
    return np.stack([hash_keys([position]).view(np.int64), position])


def places_of(identity: Integers, workers: int) -> Integers:
    """For each row the place of one of so many workers, which its identity chooses."""
    return ((identity[0].view(np.uint64) >> np.uint64(32)) % np.uint64(workers)).astype(np.int64)


def _word(column: pa.Array) -> Words:
    """A word for each value of a column."""
    column = decoded(column)
    type_ = from_arrow(column.type)
    assert type_ is not None, "the predicate reads no other types"
    valid = valid_rows(column)
    if is_text(column.type):
        words = [text_words(column if column.type.id in OFFSETS else column.cast(pa.large_string()), "hash")[0]]
    elif is_wide(type_):
        words = list(read_words(column))
    else:
        values = read_numbers(column, type_)[0]
        words = [values.view(f"i{values.itemsize}") if values.dtype.kind == "f" else values]
    hashed = hash_keys(words)
    if valid is not None:
        hashed[~valid] = NULL
    return hashed
