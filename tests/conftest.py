"""Settings of all tests: hypothesis profiles ("torture" looks 20 times longer: HYPOTHESIS_PROFILE=torture) and JVMs."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

_QUIET = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]
settings.register_profile("default", deadline=None, print_blob=True, suppress_health_check=_QUIET)
settings.register_profile("ci", settings.get_profile("default"), derandomize=True)
settings.register_profile("torture", settings.get_profile("default"), max_examples=2000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE") or ("ci" if os.environ.get("CI") else "default"))

os.environ.setdefault("JAVA_TOOL_OPTIONS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
"""No JVM lives for long here: one that compiles once and quickly saves a third of the time."""
