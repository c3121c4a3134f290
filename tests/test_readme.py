"""Every example in the README and the docs runs: Python blocks in order, and `streamjoin` commands beside `examples/`.

Demos run for as long as they are told to; here they are told less.
"""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path
from typing import Any

import pytest

from streamjoin.cli import main

from . import interpreted
from .long import LONG

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(page: Path, language: str) -> list[tuple[int, str]]:
    """The blocks of a language, each with the number of its first line."""
    text = page.read_text()
    return [(text[: m.start()].count("\n") + 2, m[2]) for m in BLOCK.finditer(text) if m[1] == language]


def commands(page: Path) -> list[str]:
    lines = [line for _, block in blocks(page, "") for line in block.splitlines()]
    return [line for line in lines if line.startswith("streamjoin ")]


def marked(page: Path) -> Any:
    starts_spark = any("streamjoin.spark" in block for _, block in blocks(page, "python"))
    return pytest.param(page, id=page.name, marks=pytest.mark.spark if starts_spark else ())


@pytest.mark.parametrize("page", [marked(page) for page in PAGES])
def test_python_blocks_run_in_order(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As users run it. The short run interprets the page with dozens of predicates on a few rows each."""
    if page.name == "predicates.md" and not LONG:
        interpreted.install(monkeypatch)
    program = ""
    for line, block in blocks(page, "python"):  # each at its own line, so that errors point into the page
        program += "\n" * (line - 1 - program.count("\n")) + block
    file = tmp_path / f"{page.stem}.py"  # functions as predicates need their source in a file
    file.write_text(program)
    exec(compile(program, str(file), "exec"), {"__name__": "__main__"})


def marked_commands() -> list[Any]:
    rooms = {"demo": "spark", "run": "spark", "bench": "bench", "hardware": "hardware"}
    found = []
    for command in sorted({command for page in PAGES for command in commands(page)}):
        room = None if "--embedded" in command else rooms.get(command.split()[1])
        found.append(pytest.param(command, id=command, marks=getattr(pytest.mark, room) if room else ()))
    return found


@pytest.mark.parametrize("command", marked_commands())
def test_commands_run(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(ROOT / "examples", tmp_path / "examples")  # commands write files
    monkeypatch.chdir(tmp_path)
    try:
        status = main(shlex.split(re.sub(r"--for \d+s", "--for 5s", command))[1:])
    except SystemExit as exit_:  # argparse, after --version
        status = exit_.code
    assert status == 0
    assert capsys.readouterr().out


def test_links_lead_somewhere() -> None:
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"
