"""How the command line reads numbers and durations."""

from __future__ import annotations

import argparse
import re

from ..errors import ArgumentError

COLUMNS_HELP = 'its columns, as in "ts timestamp, price double", or a file that has them (Parquet, CSV, Arrow, NDJSON)'
MULTIPLES = {"": 1, "k": 1_000, "m": 1_000_000}


def count(text: str) -> int:
    """A positive number: 64, 1_000_000, 300K, 1M."""
    match = re.fullmatch(r"([0-9][0-9_]*)([km]?)", text.strip().lower())
    number = int(match[1].replace("_", "")) * MULTIPLES[match[2]] if match else 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a positive number; write 64, 300K or 1M")
    return number


def seconds(text: str) -> float:
    """A duration, such as 45s or 300ms."""
    from ..window import parse_duration

    try:
        return parse_duration(text) / 1e9
    except ArgumentError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
