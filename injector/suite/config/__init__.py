"""The language of suites: from YAML to benchmarks."""

from .loading import load

__all__ = ["load"]
