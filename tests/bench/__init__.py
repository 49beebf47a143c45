"""Benchmarks: programs that compare side by side in one run. Not part of the test run; see docs/benchmarks.md."""
