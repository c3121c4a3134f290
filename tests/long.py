"""The one flag for the long versions of tests: `make torture` sets STREAMJOIN_TORTURE=1."""

from __future__ import annotations

import os

LONG = os.environ.get("STREAMJOIN_TORTURE", "").lower() not in ("", "0", "false", "no")
"""Whether tests run as long as they can, instead of as long as `make test` can afford."""
