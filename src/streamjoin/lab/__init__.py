"""The laboratory: models and simulators that tests and benchmarks use, and no join does."""
