"""The job files of the documentation, which are the ones that are tested."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from streamjoin.spark.session import SHUFFLE

from .sessions import LOCAL_FILES, QUICK

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "spark-jobs.md").read_text()
FILES_JOB, KAFKA_JOB = (block for block in re.findall(r"^```toml\n(.*?)^```$", PAGE, re.M | re.S) if "[left]" in block)
RUN = [sys.executable, "-m", "streamjoin", "run"]
JOIN = {
    "on": "l.symbol = r.symbol AND l.price BETWEEN r.bid - 0.01 AND r.ask + 0.01",
    "window": ("2 seconds", "5 seconds"),
    "time": "ts",
}


def job_file(directory: Path, text: str = FILES_JOB) -> Path:
    file = directory / "job.toml"
    file.write_text(text)
    return file


def replaced(old: str, new: str) -> str:
    """The job of files with one text in the place of another."""
    assert old in FILES_JOB
    return FILES_JOB.replace(old, new, 1)


def with_quick_session(text: str) -> str:
    """The job with two workers in a session with one core; settings may follow."""
    settings = {"master": "local[1]", SHUFFLE: 2, **QUICK, **LOCAL_FILES}
    return "\n".join([text, "[spark]", *(f'"{key}" = "{value}"' for key, value in settings.items()), ""])


def run_job(file: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """The command in a process of its own."""
    return subprocess.run(
        [*RUN, str(file), *options], capture_output=True, text=True, timeout=300, check=False,
        env=temporary(file.parent),
    )  # fmt: skip


def temporary(directory: Path) -> dict[str, str]:
    """An environment in which temporary files lie in this directory."""
    return {**os.environ, "TMPDIR": str(directory)}
