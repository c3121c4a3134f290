"""What is wrong with a job file is said in one line, which names the line of the file."""

from __future__ import annotations

from pathlib import Path

import pytest

from streamjoin.cli import main

from .job_files import FILES_JOB, KAFKA_JOB, ROOT, job_file, replaced


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (replaced("[join]", "[join"), "line 13, column 6: Expected ']' at the end of a table declaration"),
        (
            replaced("[sink]", "[sinc]"),
            "line 19: [sinc] there is no such table (did you mean 'sink'?); choose from left",
        ),
        (replaced("[sink]", "[[sink]]"), "line 19: [sink] this is a table: write [sink]"),
        (FILES_JOB[: FILES_JOB.index("[sink]")], "job.toml: the table [sink] is missing"),
        (replaced("window", "windows"), "line 15: [join] windows: there is no such key here (did you mean 'window'?)"),
        (replaced('time = "ts"', ""), "line 13: [join] time is missing"),
        (replaced('path = "quotes"', "path = 5"), "line 9: [right] path: 5 is not valid; give a text in quotes"),
        (replaced("trigger = 2", "trigger = 0"), "line 5: [left] max_files_per_trigger: 0 is not valid; give a whole"),
        (replaced('format = "parquet"', 'format = "parket"'), "line 2: [left] format: 'parket' is not valid (did you"),
        (replaced('format = "parquet"', ""), "line 1: [left] format is missing; choose from kafka, parquet"),
        (replaced('"checkpoints/joined"', '""'), "line 22: [sink] checkpoint: '' is not valid"),
        (replaced("checkpoint =", "#"), "line 19: [sink] a parquet sink needs a checkpoint"),
        (
            FILES_JOB + '[spark]\nmastr = "x"',
            "line 24: [spark] mastr: there is no such key here (did you mean 'master'?)",
        ),
        (FILES_JOB + "[spark]\nspark.a.b = [1]", "line 24: [spark] spark.a.b: [1] is not valid; give a text in quotes"),
        (FILES_JOB + '[trigger]\nevery = "soon"', "line 24: [trigger] every: got 'soon' "),
    ],
)
def test_wrong_files_name_the_line(
    text: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:  # fmt: skip
    file = job_file(tmp_path, text)
    assert main(["run", str(file), "--once"]) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"streamjoin: {file}")
    assert message in error
    assert error.count("\n") == 1


def test_no_such_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", str(tmp_path / "none.toml")]) == 2
    assert capsys.readouterr().err == f"streamjoin: {tmp_path / 'none.toml'}: there is no such job file\n"
    (tmp_path / "latin.toml").write_bytes(b"# \xe9")
    assert main(["run", str(tmp_path / "latin.toml")]) == 2
    assert "the job file cannot be read: 'utf-8'" in capsys.readouterr().err
    with pytest.raises(SystemExit) as exit_:
        main(["run", "job.toml", "--for", "60"])
    assert exit_.value.code == 2


def test_the_job_of_the_readme_is_the_one_that_is_tested() -> None:
    assert KAFKA_JOB in (ROOT / "README.md").read_text()
