"""Which row is meant, in two words that every worker computes alike from the row itself.

Rows with the same coordinate, and the same values in all columns that the predicate reads, are in the same pairs where
windows are by time: they may share an identity. Where the merged order counts, the coordinate is a row's position in
its stream, which no other row has. Two other rows have the same identity with a chance of about one in 2**120: numbers
go into both words as they are, and texts by two hashes that have nothing in common.

An identity does not depend on where a row stands in its partition: if Spark computes a part of a micro-batch again,
rows may come in another order.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from ..arrays import Array, Integers, Words
from ..arrow.fields import read
from ..arrow.tables import contiguous, decoded, is_text, valid_rows
from ..compile.cache import compiled_with
from ..predicate.dialect import is_wide
from ..predicate.encode import OFFSETS, text_words
from ..predicate.frames import read_numbers, read_words
from ..predicate.types import from_arrow
from ..side import Side
from ..store.hashing import hash_keys
from .spec import JoinSpec

MULTIPLIER, SHIFT, SEED = np.uint64(0xD6E8FEB86659FD93), np.uint64(32), np.uint64(0x243F6A8885A308D3)


def identities(spec: JoinSpec, side: Side, table: pa.Table, coordinate: Integers) -> Integers:
    """The identities of a table's rows: their first words, and their second ones."""
    words = [coordinate, *(word for name in spec.read[side] for word in _words(contiguous(read(table, name))))]
    return np.stack([hash_keys(words), hash_keys(words[::-1])]).view(np.int64)


def positions_as_identities(position: Integers) -> Integers:
    """The identities of rows in the merged order, from their positions alone, which are the second words."""
    return np.stack([hash_keys([position]).view(np.int64), position])


def places_of(identity: Integers, workers: int) -> Integers:
    """For each row the place of one of so many workers, which its identity chooses."""
    return ((identity[0].view(np.uint64) >> np.uint64(32)) % np.uint64(workers)).astype(np.int64)


def _words(column: pa.Array) -> list[Integers]:
    """What says which value each one is, and then whether it is there."""
    column = decoded(column)
    type_ = from_arrow(column.type)
    assert type_ is not None, "the predicate reads no other types"
    valid = valid_rows(column)
    if is_text(column.type):
        text = column if column.type.id in OFFSETS else column.cast(pa.large_string())
        words = [text_words(text, "hash")[0], _second_words(text)]
    elif is_wide(type_):
        words = [np.ascontiguousarray(word).view(np.int64) for word in read_words(column)]
    else:
        values = read_numbers(column, type_)[0]
        words = [(values.view(f"i{values.itemsize}") if values.dtype.kind == "f" else values).astype(np.int64)]
    if valid is None:
        return [*words, np.ones(len(column), np.int64)]
    return [*(np.where(valid, word, 0) for word in words), valid.astype(np.int64)]


def _second_words(text: pa.Array) -> Integers:
    """A second hash of each text, which has nothing to do with that of its slot."""
    words = np.full(len(text), SEED, np.uint64)
    if len(text):
        _, offsets, data = text.buffers()
        starts = np.frombuffer(offsets, OFFSETS[text.type.id])[text.offset : text.offset + len(text) + 1]
        content = np.frombuffer(data, np.uint8) if data is not None and data.size else np.zeros(1, np.uint8)
        _hash_bytes(starts.astype(np.int64, copy=False), content, words)
    return words.view(np.int64)


def _hash_bytes_in_numpy(starts: Integers, content: Array, words: Words) -> None:
    lengths = np.diff(starts)
    for k in range(int(lengths.max(initial=0))):
        here = lengths > k
        mixed = (words[here] + content[starts[:-1][here] + k] + np.uint64(1)) * MULTIPLIER
        words[here] = mixed ^ (mixed >> SHIFT)


@compiled_with(_hash_bytes_in_numpy)
def _hash_bytes(starts, content, words):  # type: ignore[no-untyped-def]
    for i in range(len(words)):
        word = words[i]
        for place in range(starts[i], starts[i + 1]):
            mixed = (word + np.uint64(content[place]) + np.uint64(1)) * MULTIPLIER
            word = mixed ^ (mixed >> SHIFT)
        words[i] = word
