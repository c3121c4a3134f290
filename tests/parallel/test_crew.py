"""A crew runs all it is given, nested runs included, and raises the first error."""

from __future__ import annotations

import pytest

from streamjoin.parallel.crew import Crew


def test_crew_runs_everything_and_raises_the_first_error() -> None:
    crew = Crew(3)
    assert crew.run([lambda n=n: n * n for n in range(50)]) == [n * n for n in range(50)]

    def nested(n: int) -> list[int]:
        return crew.run([lambda k=k: n * k for k in range(5)])

    assert crew.run([lambda n=n: nested(n) for n in range(20)]) == [[n * k for k in range(5)] for n in range(20)]
    done: list[int] = []

    def fails() -> None:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        crew.run([fails, *(lambda n=n: done.append(n) for n in range(20))])
    assert sorted(done) == list(range(20))
    crew.close()
