"""What a job file may not say, because it would run code that the file chooses: whoever can edit a job file need not be
somebody who may run programs.

Numbers, true and false, and single words are harmless. What names classes, jars, packages, programs or JVM options is
refused, but for Spark's own. `streamjoin run --allow-code` lifts this for a file that is trusted.
"""

from __future__ import annotations

import re
from typing import Any

REMEDY = "a job file must not run code; for a file that you trust, run it with --allow-code"
SQL_WORDS = re.compile(r"\b(reflect|try_reflect|java_method|using)\b", re.IGNORECASE)
"""Functions that call any method of Java, and what runs a program in a subquery."""
_NUMBER = re.compile(r"-?\d+(\.\d+)?\s*[a-zA-Z%]{0,12}|true|false", re.IGNORECASE)
_WORD = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")
_OWN_CLASS = re.compile(r"org\.apache\.spark(\.\w+)+\$?")
_OWN_PACKAGE = re.compile(r"org\.apache\.(spark|hadoop):[\w.-]+:[\w.-]+")
_PROGRAMS = re.compile(
    r"python|command|script|executable|options|path|env\b|jars|packages|repositories|ivy|files|archives|plugins"
    r"|listener|extension|filters|kryo|podtemplate|\.r\.",
    re.IGNORECASE,
)
"""Keys whose values are programs, or where to find them: not even a word, or a class of Spark, is harmless there."""
_TEXTS = re.compile(
    r"spark\.(master|app\.name|local\.dir|eventLog\.dir|driver\.(host|bindAddress)|kerberos\.(keytab|principal)"
    r"|sql\.session\.timeZone|hadoop\.fs\.defaultFS|sql\.warehouse\.dir|(sql\.)?redaction\.[\w.]*regex"
    r"|hadoop\.fs\.s3a\.(access\.key|secret\.key|session\.token|endpoint|endpoint\.region)"
    r"|hadoop\.fs\.azure\.account\.key\.[\w.-]+)"
)
"""Keys whose values are any text, and never code."""
_NAMES_CLASS = re.compile(r"class|interceptor|reporter|provider|factory|handler|callback|serializer", re.IGNORECASE)
_MODULE = re.compile(r"([\w.$]+)\s+(required|requisite|sufficient|optional)\b", re.IGNORECASE)
_OWN_MODULE = re.compile(
    r"org\.apache\.kafka\.common\.security\.[\w.]+|com\.sun\.security\.auth\.module\.Krb5LoginModule"
)


def problem_of_setting(key: str, value: Any) -> str | None:
    """Why a setting of Spark is refused; None: it is not."""
    text = str(value).strip()
    if isinstance(value, bool | int | float) or not text or _NUMBER.fullmatch(text) or _TEXTS.fullmatch(key):
        return None
    if key == "spark.jars.packages":
        foreign = [one for one in text.split(",") if not _OWN_PACKAGE.fullmatch(one.strip())]
        return f"{foreign[0].strip()!r} is no package of Spark or Hadoop, and {REMEDY}" if foreign else None
    if not _PROGRAMS.search(key) and (_WORD.fullmatch(text) or _OWN_CLASS.fullmatch(text)):
        return None
    return f"this setting may name code, and {REMEDY}"


def problem_of_option(key: str, value: Any) -> str | None:
    """The same for an option of a source or a sink."""
    if _NAMES_CLASS.search(key) and isinstance(value, str):
        return f"this option names a class, and {REMEDY}"
    if "jaas" in key.lower():
        modules = [match[1] for match in _MODULE.finditer(str(value))]
        if not modules or not all(map(_OWN_MODULE.fullmatch, modules)):
            return f"its login module is not one of Kafka's or Kerberos's, and {REMEDY}"
    return None


def problem_of_sql(text: str) -> str | None:
    """The same for an expression in SQL."""
    found = SQL_WORDS.search(text)
    return f"{found[0]!r} is not allowed, not even in a text or as a name: {REMEDY}" if found else None
