"""Words that several threads read and write at the same time: acquire loads, release stores, atomic additions."""

from __future__ import annotations

from typing import Any

from numba import types
from numba.extending import intrinsic

from .cache import compiled_brief
from .intrinsics import element


def _load(typing: Any, words: Any, place: Any) -> Any:
    """Return words[place]; the caller then also sees all that the writer of this value wrote before it."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.load_atomic(element(context, builder, signature.args[0], *args), "acquire", 8)

    return types.int64(words, types.int64), codegen


def _store(typing: Any, words: Any, place: Any, value: Any) -> Any:
    """Set words[place] = value; a thread that loads this value also sees all that was written before."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        builder.store_atomic(args[2], element(context, builder, signature.args[0], *args[:2]), "release", 8)
        return context.get_dummy_value()

    return types.void(words, types.int64, types.int64), codegen


def _add(typing: Any, words: Any, place: Any, amount: Any) -> Any:
    """Add to words[place] in one step, even if other threads add to it too; returns the value before."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.atomic_rmw("add", element(context, builder, signature.args[0], *args[:2]), args[2], "acq_rel")

    return types.int64(words, types.int64, types.int64), codegen


load_acquire: Any = intrinsic(_load)
store_release: Any = intrinsic(_store)
fetch_add: Any = intrinsic(_add)


@compiled_brief
def publish(words, place, value):  # type: ignore[no-untyped-def]
    """`store_release` for callers that are not compiled."""
    store_release(words, place, value)
