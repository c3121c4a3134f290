"""Which trials are made: the grid of sizes and batches, partitions, selectivities, and the splitters."""

from __future__ import annotations

from collections.abc import Callable

from ...reporting.measure import Others
from .contestants import CPP, INDEXES, CppContestant, make
from .convergence import convergence
from .measure import measure, measure_searchsorted
from .results import SubwindowResults
from .trial import make_trial

BATCH = 32_768
MOST_REPEATS = 8
"""Where few batches fit into a subwindow, the last rounds of several subwindows are measured."""
SELECTIVITIES = (1, 16, 256, 4_096)
PARTITIONS = (1_024, 4_096, 16_384, 65_536)


def measure_all(
    sizes: list[int], batches: list[int], rounds: int, seed: int, quick: bool, say: Callable[[str], None]
) -> SubwindowResults:
    results, others = SubwindowResults(), Others()
    names = [*INDEXES, CPP]
    try:
        probe = make(CPP, 64)
        assert isinstance(probe, CppContestant)
        results.compiler = probe.compiler
    except RuntimeError as error:
        names.remove(CPP)
        results.left_out.append(f"{CPP}: {error}")
    for name in names:  # so that kernels are compiled or loaded
        measure(make_trial(4_096, 512, 1, 2, seed), make(name, 4_096))
    for size in sizes:
        for batch in batches:
            if 2 * batch > size:
                results.left_out.append(f"batches of {batch:,} in a subwindow of {size:,}: too large to fill it")
                continue
            given = make_trial(size, batch, 1, rounds, seed)
            subwindows = 1 if quick else min(-(-rounds // len(given.while_filling)), MOST_REPEATS)
            for name in names:
                say(f"{name}, N = {size:,}, batches of {batch:,}")
                measured = measure(given, make(name, size))
                for repeat in range(1, subwindows):
                    measure(make_trial(size, batch, 1, rounds, seed + repeat), make(name, size), earlier=measured)
                results.grid.append(measured)
            results.grid += [measure_searchsorted(given, in_order) for in_order in (False, True)]
    middle, batch = sizes[len(sizes) // 2], max(batches)
    batch = min(BATCH, batch, max(middle // 4, 1))
    given = make_trial(middle, batch, 1, rounds, seed)
    for count in [p for p in PARTITIONS if 4 * p <= middle][:: 2 if quick else 1]:
        for name in INDEXES[1:]:
            say(f"{name}, P = {count:,}")
            results.partitions.append(measure(given, make(name, middle, count), count))
    for selectivity in SELECTIVITIES[: 3 if quick else None]:
        if selectivity * 4 > middle:
            continue
        given = make_trial(middle, batch, selectivity, min(rounds, 5), seed)
        for name in names:
            say(f"{name}, S = {selectivity:,}")
            results.selectivity.append(measure(given, make(name, middle)))
        results.selectivity.append(measure_searchsorted(given, False))
    say("adjustment of splitters")
    size = min(max(sizes), 200_000 if quick else 1_000_000)
    results.convergence = convergence(size, [p for p in (256, 1_024, 16_384) if 8 * p <= size] or [16], seed)
    results.others = others.cores()
    return results
