"""The laboratory: models and simulators for tests and benchmarks. No other room imports it."""
