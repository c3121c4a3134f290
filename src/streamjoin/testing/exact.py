"""Decimals without rounding."""

from __future__ import annotations

from decimal import Decimal

import pyarrow as pa


def decimal(unscaled: int, arrow_type: pa.DataType) -> Decimal:
    """A decimal with any number of digits; arithmetic would round to the digits of the context."""
    sign, digits = int(unscaled < 0), tuple(int(digit) for digit in str(abs(unscaled)))
    return Decimal((sign, digits, -arrow_type.scale))
