"""The environment that ``inject`` itself runs in, used in the place of one for each group."""

from __future__ import annotations

import importlib
import importlib.metadata
from collections.abc import Mapping
from typing import Any

from .requirements import Asked, Line


def lacking(asked: Mapping[str, Asked]) -> list[str]:
    """What benchmarks want and this environment does not have, or has in another version.

    ``asked``: by benchmark. A line with a condition is looked at where the condition holds.
    """
    wishes: dict[str, list[str]] = {}
    for name, each in asked.items():
        for line in each.each():
            if (lack := _lack(line)) is not None:
                wishes.setdefault(lack, []).append(name)
    return [f"{lack} (for {', '.join(dict.fromkeys(names))})" for lack, names in wishes.items()]


def _lack(line: Line) -> str | None:
    """What is wrong with one line's package, in words."""
    reader = _reader()
    text = line.text.partition(" #")[0].partition(" --hash")[0].rstrip("\\ ")
    specifier: Any = None
    if reader is not None:
        try:
            read = reader.Requirement(text)
        except ValueError:  # a form that is pip's own
            read = None
        if read is not None:
            if read.marker is not None and not read.marker.evaluate():
                return None
            specifier = read.specifier
    try:
        there = importlib.metadata.version(line.project)
    except importlib.metadata.PackageNotFoundError:
        return f"{line.project}{line.wanted} is not installed"
    if specifier is not None and not specifier.contains(there, prereleases=True):
        return f"{line.project} is {there}, not {specifier}"
    return None


def _reader() -> Any:
    """What reads requirements: a package of its own, or pip's copy of it; None without either."""
    for name in ("packaging.requirements", "pip._vendor.packaging.requirements"):
        try:
            return importlib.import_module(name)
        except ImportError:
            continue
    return None
