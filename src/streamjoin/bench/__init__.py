"""Benchmarks that ship with the package: `streamjoin bench`."""
