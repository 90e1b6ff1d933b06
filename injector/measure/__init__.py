"""The fast ways to measure: values, regions, steps and loaders, without a stream in between."""

from __future__ import annotations

from .measures import Measures

__all__ = ["Measures"]
