"""Benchmarks of Heliograph: `python -m benchmarks.run` measures, `python -m benchmarks.pages` writes the pages (docs/benchmarks.md)."""
