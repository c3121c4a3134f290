"""Job files, values of the state store and cache files in which something has been changed: a clear error or the right
result, and never a wrong row or a bare trace."""

from __future__ import annotations

import os
import pickle
import random
import re
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

import streamjoin as sj
from streamjoin.errors import ArgumentError, StateError
from streamjoin.spark import segment_files
from streamjoin.spark.jobfile import Job
from streamjoin.spark.private_directory import check_private, made_private
from streamjoin.spark.sealed_values import opened, sealed
from streamjoin.spark.segments import Cache
from streamjoin.store.registry import INDEXES
from streamjoin.testing import assert_same_rows

from ..long import LONG
from .job_files import FILES_JOB, KAFKA_JOB, job_file, replaced
from .simulated import Dictionary, Simulated, make_spec, stream
from .test_pickled_state import JOINS, joining, states
from .test_pickled_state import stream as small_stream

pytestmark = pytest.mark.usefixtures("few_kernels", "small_segments")
MUTATIONS = 10_000 if LONG else 300
STEPS, ROUNDS = (10_000, 500) if LONG else (40, 5)
"""Micro-batches over a changed state, and how often each cache file of an index is changed."""
WORDS = [
    b'"', b"'", b"[", b"]", b"[[", b"{", b"}", b"=", b".", b",", b"#", b"\n", b"\\", b"\0", b"\xff", b"-1", b"1e999",
    b"9" * 400,
    b"9" * 5_000, b'"""', b"inf", b"nan", b"true", b"1979-05-27", b"[" * 2_000, b"spark.", b"left", b"join", b"\r",
    b"\\u0000",
    b"format = ", b"options = ", b"options.kafka.password = ",
]  # fmt: skip
SECRET = "hunter2-and-more"


def mutated(rng: random.Random, body: bytes, words: list[bytes] | None = None) -> bytes:
    """One to three changes: bytes changed, left out, put in, doubled or exchanged."""
    for _ in range(rng.choice([1, 1, 2, 3])):
        start = rng.randrange(len(body) + 1)
        stop = min(len(body), start + rng.choice([1, 1, 4, 16, 200]))
        kind = rng.randrange(5)
        if kind == 0 and start < len(body):
            body = body[:start] + bytes([body[start] ^ rng.randrange(1, 256)]) + body[start + 1 :]
        elif kind == 1:
            body = body[:start] + body[stop:]
        elif kind == 2:
            body = body[:start] + (rng.choice(words) if words else rng.randbytes(rng.choice([1, 4, 30]))) + body[start:]
        elif kind == 3:
            body = body[:stop] + body[start:stop] + body[stop:]
        else:
            body = body[:start]
    return body


def refusal(action: Callable[[], object]) -> str | None:
    """What the product's own error says, if there is one. Any other error is a failure."""
    try:
        action()
    except (ArgumentError, StateError) as error:
        return str(error)
    return None


# -- job files -----------------------------------------------------------------------------------------------------


def test_job_files(tmp_path: Path) -> None:
    rng = random.Random("job files")
    jaas = f'org.apache.kafka.common.security.plain.PlainLoginModule required password=\\"{SECRET}\\";'
    options = f'options = {{"kafka.sasl.jaas.config" = "{jaas}", "kafka.ssl.key.password" = "{SECRET}"}}\n'
    kafka = KAFKA_JOB.replace("[right]", f"{options}\n[right]", 1) + '[spark]\n"spark.driver.memory" = "1g"\n'
    refused = 0
    for _ in range(MUTATIONS):
        file = tmp_path / "job.toml"
        file.write_bytes(mutated(rng, rng.choice([FILES_JOB, kafka]).encode(), WORDS))
        problem = refusal(lambda file=file: Job(file))
        if problem is not None:
            refused += 1
            assert problem.startswith(str(file))
            assert "\n" not in problem
            assert SECRET not in problem
    assert refused > MUTATIONS // 3


# -- the state store -----------------------------------------------------------------------------------------------


def test_values_of_the_state_store(tmp_path: Path) -> None:
    """One value of a state that this version has written is changed."""
    rng = random.Random("state")
    left, right = small_stream(3), small_stream(11)
    before, want = {}, {}
    for name in JOINS:
        run = joining(name, str(tmp_path / name))
        for start in (0, 20):
            run.step([left.slice(start, 20)], [right.slice(start, 20)])
        before[name] = [[dict(state) for state in kept] for kept in (run.states, run.routers)]
        want[name] = run.step([left.slice(40)], [right.slice(40)])
    for number in range(STEPS):
        name = rng.choice(list(JOINS))
        run = joining(name, str(tmp_path / str(number)))
        run.states, run.routers = ([Dictionary(one) for one in kept] for kept in before[name])
        state = rng.choice([one for one in (*run.states, *run.routers) if one])
        key = rng.choice(list(state))
        body = state[key]
        state[key] = mutated(rng, body) if rng.random() < 0.8 else state[rng.choice(list(state))]
        found: list[pa.Table] = []
        problem = refusal(lambda run=run, found=found: found.append(run.step([left.slice(40)], [right.slice(40)])))
        if problem is None:
            assert_same_rows(found[0], want[name], context=(number, key))
        else:
            assert re.search(r"is damaged|has version", problem)
            assert state[key] != body


def test_every_change_of_a_value_is_seen() -> None:
    rng = random.Random("values")
    value = sealed("left-40", rng.randbytes(300))
    assert bytes(opened("left-40", value)) == value[-300:]
    for _ in range(MUTATIONS):
        other = mutated(rng, value)
        if other != value:
            with pytest.raises(StateError, match=r"the state store's value 'left-40' (is damaged|has version)"):
                opened("left-40", other)
    with pytest.raises(StateError, match="'left-41' is damaged: its checksum is wrong; restore"):
        opened("left-41", value)
    with pytest.raises(StateError, match="has version 2, and this streamjoin reads version 1; go on with the release"):
        opened("left-40", value[:3] + b"\2" + value[4:])


def test_values_of_an_older_state(tmp_path: Path) -> None:
    """Such values have no checksum: what a change breaks is told, and what runs code is not run."""
    rng = random.Random("older")
    left, right = small_stream(3), small_stream(11)
    for number in range(STEPS):
        name = rng.choice(["ordered", "unmatched"])
        run = joining(name, str(tmp_path / str(number)))
        run.states = [Dictionary(one) for one in states()[name]["workers"]]
        state = rng.choice(run.states)
        state["memory"] = mutated(rng, state["memory"])[: rng.choice([None, None, 60])]
        if not state["memory"].startswith(b"\x80"):
            with pytest.raises(StateError, match="is damaged"):
                run.step([left.slice(40)], [right.slice(40)])


def test_a_lost_value_is_told(tmp_path: Path) -> None:
    left, right = small_stream(3), small_stream(11)
    run = joining("unmatched", str(tmp_path / "one"))
    run.step([left.slice(0, 20)], [right.slice(0, 20)])
    for state in run.states:
        for name in [name for name in state if name.startswith(("left-", "right-"))]:
            del state[name]
    Cache.loaded.clear()
    run.spec = make_spec(
        left.schema, left.schema, time="ts", lateness=5, workers=2, cache=str(tmp_path / "other"), **JOINS["unmatched"]
    )  # fmt: skip
    with pytest.raises(
        StateError, match=r"the state store has lost the value '(left|right)-0'; restore the checkpoint"
    ):
        run.step([left.slice(20)], [right.slice(20)])


# -- cache files ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("index", INDEXES)
def test_cache_files(index: str, tmp_path: Path) -> None:
    """Files of every index are read again; files that have been changed are not."""
    rng = random.Random(f"files {index}")
    on = "l.k = r.k" if index == "hash" else "l.v BETWEEN r.v - 3 AND r.v + 3"
    tables = [stream(random.Random(seed), 60, 0) for seed in (1, 2)]
    schema = tables[0].schema
    arguments = dict(on=on, window=sj.TimeWindow(1000), time="ts", index=index, how="full")
    run = Simulated(make_spec(schema, schema, workers=1, cache=str(tmp_path), lateness=5, **arguments))
    for start in (0, 30):
        run.step(*([table.slice(start, 20)] for table in tables))
    states = [dict(state) for state in run.states]
    files = sorted(path for path in tmp_path.rglob("[!.]*") if path.is_file())
    assert len(files) >= 2
    bodies = {file: file.read_bytes() for file in files}
    rest = [[table.slice(50)] for table in tables]
    want = None
    built = []
    real = segment_files.read

    def read(path: Path, label: str) -> segment_files.Content | None:
        built.append(real(path, label))
        return built[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(segment_files, "read", read)
        for number in range(ROUNDS):
            for file, body in bodies.items():
                file.parent.mkdir(exist_ok=True, parents=True)
                file.unlink(missing_ok=True)
                file.write_bytes(body if number == 0 else mutated(rng, body))
                file.chmod(0o600)
            changed = [file.read_bytes() != body for file, body in bodies.items()]
            Cache.loaded.clear()
            built.clear()
            run.states = [Dictionary(one) for one in states]
            found = run.step(*rest)
            want = found if want is None else want
            assert_same_rows(found, want, context=(index, number))
            assert sum(one is None for one in built) == sum(changed)


class Evil:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.mkdir, ("evil",)


def test_a_cache_file_cannot_run_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    table = pa.table({"x": [1]})
    path = tmp_path / "one" / "two" / "file"
    segment_files.write(path, "label", (table, [], None, None))
    assert segment_files.read(path, "label") is not None
    assert segment_files.read(path, "another") is None
    for evil in (Evil(), os.system, pickle.loads):
        segment_files.write(path, "label", (table, [evil], None, None))  # type: ignore[list-item]
        assert segment_files.read(path, "label") is None
    assert not (tmp_path / "evil").exists()


def test_cache_directories_are_private(tmp_path: Path) -> None:
    """They are made so; others that do not belong to this user alone are refused, and so are files."""
    table = stream(random.Random(0), 20, 0)
    os.chmod(tmp_path, 0o777)
    spec = make_spec(
        table.schema, table.schema, on="l.k = r.k", window=sj.TimeWindow(99), time="ts", cache=str(tmp_path / "new")
    )  # fmt: skip
    Simulated(spec).step([table], [table])
    own = tmp_path / "new" / f"streamjoin-{spec.identity}"
    assert [path.stat().st_mode & 0o777 for path in (own, own / "0")] == [0o700, 0o700]
    files = list((own / "0").iterdir())
    assert {file.stat().st_mode & 0o777 for file in files} == {0o600}
    label = f"streamjoin-{spec.identity}/0/{files[0].name}"
    assert segment_files.read(files[0], label) is not None
    files[0].chmod(0o620)
    assert segment_files.read(files[0], label) is None
    own.chmod(0o770)
    with pytest.raises(StateError, match=f"cache_dir: {own} may be written by other users .mode 770.; remove it, or"):
        Simulated(spec).step([table], [table])
    own.chmod(0o700)
    (own / "0").rename(own / "1")
    (own / "0").symlink_to(own / "1")
    with pytest.raises(StateError, match=f"cache_dir: {own}/0 is no directory; remove it"):
        Simulated(spec).step([table], [table])


def test_directories_are_private_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0o002)
    try:
        made_private(tmp_path / "root" / "join" / "worker")
    finally:
        os.umask(before)
    check_private(tmp_path / "root" / "join" / "worker")
    assert (tmp_path / "root" / "join").stat().st_mode & 0o777 == 0o700


def test_a_cache_directory_of_another_user_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = stream(random.Random(0), 20, 0)
    spec = make_spec(
        table.schema, table.schema, on="l.k = r.k", window=sj.TimeWindow(99), time="ts", cache=str(tmp_path)
    )  # fmt: skip
    Simulated(spec).step([table], [table])
    uid = os.getuid()
    monkeypatch.setattr(os, "getuid", lambda: uid + 1)
    with pytest.raises(StateError, match=rf"belongs to another user \(uid {uid}; this one is {uid + 1}\)"):
        Simulated(spec).step([table], [table])


# -- job files that would run code, or tell secrets ----------------------------------------------------------------


def with_lines(text: str, *lines: str) -> str:
    return text.replace("[right]", "\n".join([*lines, "", "[right]"]), 1)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (FILES_JOB + '[spark]\n"spark.driver.extraJavaOptions" = "-javaagent:x.jar"', "this setting may name code"),
        (FILES_JOB + '[spark]\n"spark.jars" = "/tmp/evil.jar"', "this setting may name code"),
        (FILES_JOB + '[spark]\n"spark.pyspark.python" = "evil"', "this setting may name code"),
        (FILES_JOB + '[spark]\n"spark.executorEnv.LD_PRELOAD" = "/tmp/evil.so"', "this setting may name code"),
        (FILES_JOB + '[spark]\n"spark.plugins" = "evil"', "this setting may name code"),
        (FILES_JOB + '[spark]\n"spark.sql.extensions" = "org.evil.Extension"', "this setting may name code"),
        (FILES_JOB + '[spark]\n"spark.serializer" = "org.evil.Serializer"', "this setting may name code"),
        (FILES_JOB + '[spark]\n"spark.jars.packages" = "org.apache.spark:a:1,org.evil:b:1"', "is no package of Spark"),
        (with_lines(FILES_JOB, """where = "reflect('java.lang.System', 'exit', 1) = '0'" """), "'reflect' is"),
        (with_lines(FILES_JOB, """where = "`java_method` ('a.B', 'c') = '0'" """), "'java_method' is not"),
        (
            with_lines(FILES_JOB, """columns = ["ts", "(SELECT TRANSFORM(1) Using 'sh' AS x) AS price"]"""),
            "'Using' is not allowed",
        ),
        (with_lines(KAFKA_JOB, 'options = {"kafka.interceptor.classes" = "org.evil.I"}'), "this option names a class"),
        (
            with_lines(KAFKA_JOB, 'options = {"kafka.sasl.jaas.config" = "com.sun.security.auth.module.JndiLoginModule '
                       'required user.provider.url=x;"}'), "its login module is not one of Kafka's",
        ),
    ],
)  # fmt: skip
def test_a_job_file_cannot_run_code(text: str, message: str, tmp_path: Path) -> None:
    file = job_file(tmp_path, text)
    with pytest.raises(ArgumentError, match=rf"job.toml, line \d+: .*{re.escape(message)}.* --allow-code$"):
        Job(file)
    Job(file, allow_code=True)


def test_what_is_no_code(tmp_path: Path) -> None:
    settings = {
        "master": "local[2]", "spark.driver.memory": "4g", "spark.sql.shuffle.partitions": 8, "spark.ui.enabled": True,
        "spark.local.dir": "/data/spark", "spark.sql.session.timeZone": "Europe/Berlin", "spark.log.level": "WARN",
        "spark.sql.files.ignoreMissingFiles": "true", "spark.master": "local[*]",
        "spark.hadoop.fs.s3a.secret.key": "a/b+c", "spark.executorEnv.MALLOC_TOP_PAD_": "67108864",
        "spark.jars.packages": "org.apache.spark:spark-sql-kafka-0-10_2.13:4.3.0,org.apache.hadoop:hadoop-aws:3.4.1",
        "spark.sql.streaming.stateStore.providerClass":
            "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
    }  # fmt: skip
    lines = [
        f'"{key}" = {str(value).lower() if isinstance(value, bool) else repr(value)}' for key, value in settings.items()
    ]
    Job(job_file(tmp_path, FILES_JOB + "[spark]\n" + "\n".join(lines) + "\n"))


@pytest.mark.parametrize(
    "line",
    [
        f'options = {{"kafka.ssl.key.password" = ["{SECRET}"]}}',
        f'options = {{"kafka.ssl.key.password" = "{SECRET}", wrong = [1]}}',
        f'options = {{"kafka.sasl.jaas.config" = "a.B required password=\\"{SECRET}\\";"}}',
        f'options = ["password={SECRET}"]',
        f'token = "{SECRET}"\nstarting_offset = "{SECRET}"',
        f'max_offsets_per_trigger = "https://user:{SECRET}@host"',
    ],
)
def test_errors_tell_no_secrets(line: str, tmp_path: Path) -> None:
    with pytest.raises(ArgumentError) as error:
        Job(job_file(tmp_path, with_lines(KAFKA_JOB, line)))
    assert SECRET not in str(error.value)


def test_logs_and_messages_of_spark_tell_no_secrets(tmp_path: Path) -> None:
    jaas = f'org.apache.kafka.common.security.plain.PlainLoginModule required username=\\"u\\" password=\\"{SECRET}\\";'
    job = Job(job_file(tmp_path, with_lines(KAFKA_JOB, f'options = {{"kafka.sasl.jaas.config" = "{jaas}"}}')))
    for text in (
        f"Login failed for {SECRET}", f"sasl.jaas.config = {job.left['options']['kafka.sasl.jaas.config']}",
        "s3a://key:abc@bucket", 'ssl.key.password: "other one"', "Authorization token=abc",
    ):  # fmt: skip
        told = job.redacted(text)
        assert SECRET not in told
        assert "abc" not in told
        assert "other one" not in told
        assert "[hidden]" in told
    assert job.redacted("the left stream: column 'x' is missing") == "the left stream: column 'x' is missing"


def test_columns_of_the_condition_are_no_secrets(tmp_path: Path) -> None:
    job = Job(job_file(tmp_path, replaced('on = "', 'on = "l.token = r.quoted_token AND ')))
    assert job.redacted("Column r.quoted_token is missing") == "Column r.quoted_token is missing"
