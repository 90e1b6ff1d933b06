"""Numbers in sentences."""

from __future__ import annotations


def duration(seconds: float) -> str:
    """``600 s``, ``2.5 s``."""
    return f"{seconds:g} s"


def share(value: float) -> str:
    """A fraction as ``0.31``; with more digits where two would say 0."""
    return f"{value:.2f}" if value == 0 or value >= 0.01 else f"{value:.2g}"


def number(value: float) -> str:
    """Four digits that matter."""
    return f"{value:.4g}"
