"""What must be installed for a session, and how its absence is told."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.cloudpickle import dumps

from streamjoin.spark import python_workers

from .job_files import job_file


@pytest.mark.parametrize(
    ("before", "environment", "message"),
    [
        ("sys.modules['pyspark'] = None", {}, "streamjoin.spark needs PySpark 4.1 or newer: pip install"),
        ("", {"PATH": "", "JAVA_HOME": ""}, "Spark needs Java 17 or newer, and there is no java on the PATH"),
    ],
)
def test_what_must_be_installed(before: str, environment: dict[str, str], message: str, tmp_path: Path) -> None:
    file = job_file(tmp_path)
    program = (
        f"import sys; {before}\nfrom streamjoin.cli import main\nsys.exit(main(['run', {str(file)!r}, '--quiet']))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True, text=True, timeout=60, check=False, env={**os.environ, **environment},
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"streamjoin: {message}")
    assert done.stderr.count("\n") == 1


def test_workers_without_the_package_can_be_asked() -> None:
    """The function that asks them can be loaded where nothing of this package can."""
    asking = python_workers._look(python_workers.MODULE)
    program = (
        "import sys, pickle; sys.modules['streamjoin'] = None\n"
        "look = pickle.loads(sys.stdin.buffer.read())\n"
        "(found,) = look([None])\n"
        "print(found.to_pylist()[0]['problem'])"
    )
    done = subprocess.run([sys.executable, "-c", program], input=dumps(asking), capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    assert b"streamjoin" in done.stdout
