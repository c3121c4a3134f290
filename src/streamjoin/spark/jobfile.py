"""A job file: TOML with two sources, a join and a sink. It is checked before anything starts. Errors name the line."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..arguments import meant
from ..errors import ArgumentError
from ..window import parse_duration
from . import no_code
from .secrets import masked, redacted, secrets_in


@dataclass(frozen=True)
class Kind:
    """The values that a key takes: in words, and as a test."""

    words: str
    fits: Callable[[Any], bool]


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and bool(value.strip())


def _is_texts(value: Any) -> bool:
    return _is_text(value) or (isinstance(value, list) and bool(value) and all(map(_is_text, value)))


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


def _is_setting(value: Any) -> bool:
    return isinstance(value, str | int | float)


def _is_settings(value: Any) -> bool:
    return isinstance(value, dict) and all(map(_is_setting, value.values()))


TEXT = Kind("a text in quotes", _is_text)
TEXTS = Kind("a text in quotes, or a list of them", _is_texts)
COUNT = Kind("a whole number, 1 or more", _is_count)
SETTING = Kind("a text in quotes, a number, true or false", _is_setting)
SETTINGS = Kind("a table of texts, numbers, true and false", _is_settings)
ANY = Kind("", lambda value: True)

Keys = Mapping[str, Kind]
FILES = ("parquet", "json", "csv")
GENERATORS = ("rate", "trades", "quotes")
_SERVERS: Keys = {"servers": TEXT, "topic": TEXTS}
SOURCES: Mapping[str, Keys] = {
    "kafka": {**_SERVERS, "schema": TEXT, "starting_offsets": TEXT, "max_offsets_per_trigger": COUNT},
    **{name: {"path": TEXT, "schema": TEXT, "max_files_per_trigger": COUNT} for name in FILES},
    **{name: {"rows_per_second": COUNT} for name in GENERATORS},
}
SINKS: Mapping[str, Keys] = {
    "kafka": {"servers": TEXT, "topic": TEXT},
    **{name: {"path": TEXT} for name in FILES},
    **{name: {} for name in ("console", "memory", "noop")},
}
ANY_SOURCE: Keys = {"format": TEXT, "columns": TEXTS, "where": TEXT, "options": SETTINGS}
ANY_SINK: Keys = {"format": TEXT, "checkpoint": TEXT, "options": SETTINGS}
JOIN: Keys = {
    **dict.fromkeys(("on", "window", "time", "lateness", "idle_timeout", "how", "routing", "index", "aliases"), ANY),
    **dict.fromkeys(("match", "late", "null_time"), ANY),
    **dict.fromkeys(("suffix", "result_time"), TEXT),
    "partitions": COUNT,
}
REQUIRED = ("format", "servers", "topic", "schema", "path")
TABLES = ("left", "right", "join", "sink", "spark", "trigger")


class Job:
    """A job file, read and checked, except for what only Spark can check.

    Relative paths in it start at the file's own directory. What would run code is refused, unless `allow_code` says
    that the file is trusted (see `no_code`).
    """

    def __init__(self, path: Path, allow_code: bool = False) -> None:
        self.path = path
        self._lines, tables = _read(path)
        # The condition compares columns, whatever they are called.
        self.secrets = secrets_in([table for name, table in tables.items() if name != "join"])
        for name in tables:
            if name not in TABLES:
                raise self.error(name, None, f"there is no such table{meant(name, TABLES)}; {_choose(TABLES)}")
        for name in ("left", "right", "join", "sink"):
            if name not in tables:
                raise self.error(None, None, f"the table [{name}] is missing")
        for name, table in tables.items():
            if not isinstance(table, dict):
                raise self.error(name, None, f"this is a table: write [{name}], and its keys below")
        self.left: dict[str, Any] = self._source("left", tables["left"])
        self.right: dict[str, Any] = self._source("right", tables["right"])
        self.join: dict[str, Any] = self._checked("join", tables["join"], JOIN, ("on", "window", "time"))
        self.sink: dict[str, Any] = self._sink(tables["sink"])
        trigger = self._checked("trigger", tables.get("trigger", {}), {"every": TEXT})
        self.every_ms = self._milliseconds(trigger["every"]) if "every" in trigger else 0
        self.spark: dict[str, Any] = self._settings(_flat(tables.get("spark", {})))
        if not allow_code:
            self._refuse_code()

    @property
    def name(self) -> str:
        return self.path.stem

    @property
    def uses_kafka(self) -> bool:
        return any(table["format"] == "kafka" for table in (self.left, self.right, self.sink))

    def absolute(self, path: str) -> str:
        """A path in the file as an absolute one; addresses such as s3a://bucket/key stay as they are."""
        return path if re.match(r"[a-z][a-z0-9+.-]*:/", path) else str((self.path.parent / path).absolute())

    def error(self, table: str | None, key: str | None, message: str) -> ArgumentError:
        """An error that names the file, the key and its line, or else the table's line. `window[0]` is in `window`."""
        line = self._line_of(table, key and key.partition("[")[0])
        at = f", line {line}" if line else ""
        what = "".join(f"{part} " for part in (f"[{table}]" if table else "", f"{key}:" if key else "") if part)
        return ArgumentError(f"{self.path}{at}: {what}{self.redacted(message)}")

    def redacted(self, text: str) -> str:
        """A text without the secrets of this job."""
        return redacted(text, self.secrets)

    # -- checks ----------------------------------------------------------------------------------------------------

    def _source(self, name: str, table: dict[str, Any]) -> dict[str, Any]:
        return self._of_format(name, table, SOURCES, ANY_SOURCE)

    def _sink(self, table: dict[str, Any]) -> dict[str, Any]:
        sink = self._of_format("sink", table, SINKS, ANY_SINK)
        if sink["format"] in ("kafka", *FILES) and "checkpoint" not in sink:
            raise self.error(
                "sink", None, f"a {sink['format']} sink needs a checkpoint, from which a later run goes on; "
                'add its directory, as in checkpoint = "checkpoints/my-job"',
            )  # fmt: skip
        return sink

    def _of_format(self, name: str, table: dict[str, Any], formats: Mapping[str, Keys], always: Keys) -> dict[str, Any]:
        if "format" not in table:
            raise self.error(name, None, f"format is missing; {_choose(formats)}")
        chosen = table["format"]
        if not isinstance(chosen, str) or chosen not in formats:
            message = f"{chosen!r} is not valid{meant(chosen, formats)}; {_choose(formats)}"
            raise self.error(name, "format", message)
        keys = {**formats[chosen], **always}
        return self._checked(name, table, keys, [key for key in REQUIRED if key in keys])

    def _checked(self, name: str, table: dict[str, Any], keys: Keys, required: Iterable[str] = ()) -> dict[str, Any]:
        """The table, if its keys are known, their values fit, and no required key is missing."""
        for key, value in table.items():
            if key not in keys:
                raise self.error(name, key, f"there is no such key here{meant(key, keys)}; {_choose(sorted(keys))}")
            if not keys[key].fits(value):
                raise self.error(name, key, f"{masked(value)!r} is not valid; give {keys[key].words}")
        for key in required:
            if key not in table:
                raise self.error(name, None, f"{key} is missing")
        return table

    def _settings(self, table: dict[str, Any]) -> dict[str, Any]:
        """The table [spark]: `master`, and Spark's own settings, which are passed on as they are."""
        keys = {key: SETTING for key in table if key.startswith("spark.")}
        return self._checked("spark", table, {"master": TEXT, **keys, "spark.*": SETTING})

    def _refuse_code(self) -> None:
        found = [("spark", key, no_code.problem_of_setting(key, value)) for key, value in self.spark.items()]
        for name, table in (("left", self.left), ("right", self.right), ("sink", self.sink)):
            for key, value in table.get("options", {}).items():
                found.append((name, f"options.{key}", no_code.problem_of_option(key, value)))
            for key in ("columns", "where"):
                texts = table.get(key, [])
                for text in [texts] if isinstance(texts, str) else texts:
                    found.append((name, key, no_code.problem_of_sql(text)))
        for name, key, problem in found:
            if problem is not None and key != "master":
                raise self.error(name, key, problem)

    def _milliseconds(self, every: str) -> int:
        try:
            return max(1, parse_duration(every, "every") // 1_000_000)
        except ArgumentError as error:
            raise self.error("trigger", "every", str(error).removeprefix("every: ")) from None

    def _line_of(self, table: str | None, key: str | None) -> int | None:
        """The line that sets the key, or else the one that opens the table."""
        if table is None:
            return None
        here, opened = "", None
        for number, line in enumerate(self._lines, 1):
            if header := re.match(r"\s*\[{1,2}\s*([^\]]*?)\s*\]{1,2}\s*(#|$)", line):
                here = header[1].replace('"', "").replace("'", "")
                if here == table or (opened is None and here.startswith(f"{table}.")):
                    opened = number
                    if key is None:
                        return number
                if here == f"{table}.{key}":
                    return number
            elif assigned := re.match(r"\s*([^=#]+?)\s*=", line):
                name = re.sub(r"[\"'\s]", "", assigned[1])
                full = f"{here}.{name}" if here else name
                if key is not None and full == f"{table}.{key}":
                    return number
                if opened is None and (full == table or full.startswith(f"{table}.")):
                    opened = number
        return opened


def _read(path: Path) -> tuple[list[str], dict[str, Any]]:
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise ArgumentError(f"{path}: there is no such job file") from None
    except (OSError, UnicodeDecodeError) as error:
        raise ArgumentError(f"{path}: the job file cannot be read: {error}") from None
    try:
        return text.splitlines(), tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        message, _, place = str(error).rstrip(")").partition(" (at ")
        at = place if place.startswith("line") else f"line {text.count(chr(10)) + 1}"
        raise ArgumentError(f"{path}, {at}: {message}") from None
    except ValueError as error:  # such as a number of thousands of digits
        raise ArgumentError(f"{path}: {error}") from None
    except RecursionError:
        raise ArgumentError(f"{path}: lists and tables are nested too deeply") from None


def _flat(table: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """Undo nesting: TOML reads keys with dots as tables within tables."""
    flat: dict[str, Any] = {}
    for key, value in table.items():
        flat.update(_flat(value, f"{prefix}{key}.") if isinstance(value, dict) else {f"{prefix}{key}": value})
    return flat


def _choose(known: Iterable[str]) -> str:
    return f"choose from {', '.join(known)}"
