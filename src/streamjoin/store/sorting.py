"""Sorting and merging of words."""

from __future__ import annotations

import numpy as np

from ..arrays import Words
from ..compile.cache import compiled

DIGIT = 11
SHORT = 64


def sort_words(words: Words, low_bit: int) -> Words:
    """The words in ascending order, given that those equal above `low_bit` are so already; `words` is overwritten."""
    scratch = np.empty_like(words)
    return scratch if radix_sort(words, scratch, low_bit) else words


@compiled
def radix_sort(words, scratch, low_bit):  # type: ignore[no-untyped-def]
    """Least significant digit first, 11 bits at a time; bits that are the same in all words are skipped.

    Returns whether the result lies in `scratch`.
    """
    n = len(words)
    # A few words: insert each into the sorted ones before it.
    if n <= SHORT:
        for i in range(1, n):
            word = words[i]
            j = i
            while j > 0 and words[j - 1] > word:
                words[j] = words[j - 1]
                j -= 1
            words[j] = word
        return False
    either, both = np.uint64(0), ~np.uint64(0)
    for i in range(n):
        either |= words[i]
        both &= words[i]
    varying = (either ^ both) >> np.uint64(low_bit) << np.uint64(low_bit)
    source, target = words, scratch
    swapped = False
    starts = np.empty(1 << DIGIT, np.int32)
    shift = low_bit
    while shift < 64 and (varying >> np.uint64(shift)) != 0:
        while (varying >> np.uint64(shift)) & np.uint64(1) == 0:
            shift += 1
        by = np.uint64(shift)
        mask = np.uint64((1 << DIGIT) - 1)
        # Count the words of each digit, sum up where each digit's words begin, and move the words there.
        starts[:] = 0
        for i in range(n):
            starts[(source[i] >> by) & mask] += 1
        total = np.int32(0)
        for d in range(1 << DIGIT):
            count = starts[d]
            starts[d] = total
            total += count
        for i in range(n):
            word = source[i]
            digit = (word >> by) & mask
            target[starts[digit]] = word
            starts[digit] += 1
        source, target = target, source
        swapped = not swapped
        shift += DIGIT
    return swapped


@compiled
def merge_words(a, b, out):  # type: ignore[no-untyped-def]
    """Two ascending arrays as one, merged from both ends at once: two chains of comparisons that do not wait for each
    other."""
    na, nb = len(a), len(b)
    n = na + nb
    i, j, p, q = 0, 0, na - 1, nb - 1
    front, back = 0, n - 1
    half = n // 2
    # Take the smaller first word and the larger last word, until one of the arrays has no more words.
    while front < half and i < na and j < nb and p >= 0 and q >= 0:
        x, y = a[i], b[j]
        first = x < y
        out[front] = x if first else y
        i += first
        j += not first
        front += 1
        x, y = a[p], b[q]
        last = x > y
        out[back] = x if last else y
        p -= last
        q -= not last
        back -= 1
    # What is left lies between both ends.
    while front <= back:
        if j > q or (i <= p and a[i] < b[j]):
            out[front] = a[i]
            i += 1
        else:
            out[front] = b[j]
            j += 1
        front += 1


@compiled
def split_merge(a, b, count):  # type: ignore[no-untyped-def]
    """How many of `a` and how many of `b` are the `count` smallest of both (ascending) arrays together."""
    low, high = max(0, count - len(b)), min(count, len(a))
    while low < high:
        i = (low + high) // 2
        if a[i] < b[count - i - 1]:
            low = i + 1
        else:
            high = i
    return low, count - low
