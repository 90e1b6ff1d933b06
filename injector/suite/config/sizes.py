"""Sizes of memory as people write them."""

from __future__ import annotations

import re

_UNITS = {"": 1, "k": 1e3, "m": 1e6, "g": 1e9, "t": 1e12,
          "ki": 1 << 10, "mi": 1 << 20, "gi": 1 << 30, "ti": 1 << 40}  # fmt: skip
_SIZE = re.compile(r"\s*([0-9.]+(?:e[0-9]+)?)\s*([kmgt]?i?)[bo]?\s*", re.IGNORECASE)
_UNIT = re.compile(r"[kmgt]i?[bo]?\s*$", re.IGNORECASE)


def bytes_of(text: object) -> float:
    """``"4108.75 MiB"``, ``"8 GB"``, ``"80Go"`` or a number as bytes. Raises ValueError."""
    if isinstance(text, (int, float)) and not isinstance(text, bool):
        return float(text)
    match = _SIZE.fullmatch(str(text))
    if match is None:
        raise ValueError(f"{text!r} is no size; sizes are written as 4108.75 MiB, or 8 GB")
    return float(match[1]) * _UNITS[match[2].lower()]


def are_sizes(*texts: str) -> bool:
    """Whether all ``texts`` are sizes with a unit: these are compared as numbers of bytes, not as texts."""
    return all(_SIZE.fullmatch(text) and _UNIT.search(text) for text in texts)
