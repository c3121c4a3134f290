"""All columns of the rows that can still be part of a result, kept by row number."""

from __future__ import annotations

from .payload import Payload, gathered, have_same_texts

__all__ = ["Payload", "gathered", "have_same_texts"]
