"""Every error that `streamjoin` raises on purpose: one base, a few kinds.

A message names the argument, what was given, and what is valid.
"""


class StreamJoinError(Exception):
    """Base of all errors that streamjoin raises on purpose."""


class ArgumentError(StreamJoinError, ValueError):
    """An argument of the call is wrong: its name, the value and what is allowed are in the message."""


class UnknownArgument(ArgumentError, TypeError):
    """The call has no argument of this name; the message suggests one that it has."""


class PredicateError(StreamJoinError, ValueError):
    """The join predicate cannot be read, names unknown columns or does not type-check."""


class SchemaError(StreamJoinError, TypeError):
    """Data does not have the schema that the join was opened with."""


class DataError(StreamJoinError, ValueError):
    """A value in the data cannot take part: a NULL timestamp, a timestamp out of range."""


class StateError(StreamJoinError, RuntimeError):
    """The operator is used in the wrong state, such as a push after finish()."""


class BackPressure(StateError):
    """Too many results wait to be polled; nothing was taken, and the same push works after a poll()."""
