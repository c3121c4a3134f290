"""Ctrl-C stops a call that would run for many minutes, and leaves no thread behind."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap

import pytest

from ..long import LONG

PROGRAM = textwrap.dedent(
    """
    import os, signal, sys, threading, time

    import numpy as np
    import pyarrow as pa

    import streamjoin as sj

    ROWS = 400_000  # most pairs are candidates, and none matches
    NEVER = "l.k = r.k AND (l.x + r.x) % 1000003 = -1"


    def rows(count):
        return pa.table({"k": np.arange(count) % 3, "x": np.arange(count) % 999_983})


    def opened(algorithm, index, workers):
        schema = rows(1).schema
        late = {"max_batch": 1 << 30, "max_wait": 1e6}  # nothing is joined before it is asked for
        return sj.WindowJoin(
            schema, schema, on=NEVER, window=ROWS, algorithm=algorithm, index=index, workers=workers, **late
        )


    def threads():
        return {thread for thread in threading.enumerate() if thread.name.startswith("streamjoin")}


    def interrupted(join, call):
        began = threading.Event()

        def press():
            began.wait()
            time.sleep(0.5)
            os.kill(os.getpid(), signal.SIGINT)

        threading.Thread(target=press, daemon=True).start()
        with join:
            join.push_left(rows(ROWS))
            join.push_right(rows(ROWS))
            try:
                began.set()
                getattr(join, call)()
            except KeyboardInterrupt:
                pass
            else:
                sys.exit("it was not interrupted")
            try:
                join.poll()
            except sj.StateError as error:
                assert "failed half way" in str(error), error
            else:
                sys.exit("it goes on")
        while threads():  # one that compiles ends a little later
            time.sleep(0.01)


    for case in sys.argv[1:]:
        algorithm, index, workers, call = case.split("/")
        interrupted(opened(algorithm, index, int(workers)), call)
        print(case, flush=True)
    """
)
CASES = (
    "three-step/hash/1/finish",
    "panjoin/bi-sort/2/poll",
    "panjoin/scan/2/metrics",
    "handshake/scan/3/finish",
)
MORE = (
    "three-step/scan/1/poll",
    "panjoin/hash/3/finish",
    "celljoin/scan/4/poll",
    "splitjoin/scan/2/poll",
    "scalejoin/scan/16/poll",
    "low-latency-handshake/hash/4/finish",
    "handshake/bi-sort/2/poll",
)


@pytest.mark.skipif(os.name != "posix", reason="sends SIGINT")
def test_an_interrupt_stops_any_call_and_all_threads() -> None:
    cases = [*CASES, *MORE] if LONG else CASES
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *cases], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.split() == list(cases)
