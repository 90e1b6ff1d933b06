"""What benchmarks run on, on this disk: environments, sources, data."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..config.model import Benchmark
from ..config.problems import SuiteError
from . import data, install_groups, origins, sources
from .context import placeholders, variables


@dataclass(frozen=True)
class Resources:
    """What one benchmark stands on: its environment and its folders."""

    python: str
    """The interpreter of its environment; it need not exist yet."""
    context: Mapping[str, object] = field(default_factory=dict)
    """What placeholders of folders mean: ``data``, ``source``, ``base``, …"""
    variables: Callable[[Mapping[str, Any]], Mapping[str, str]] = lambda settings: {}
    """The environment that its programs are given, before its own ``env``; of filled settings."""
    folder: str | None = None
    """Where its program runs, unless it says so itself."""
    has: Callable[[str], bool] = lambda path: True
    """Whether a file is there, or may come with a source that is still to be fetched."""


def resources_below(base: Path, use_current: bool) -> Callable[[Benchmark], Resources]:
    """Tells what a benchmark stands on below ``base``; nothing of it need be there yet.

    ``use_current``: in the environment of ``inject`` itself.
    """

    def ground(benchmark: Benchmark) -> Resources:
        context = placeholders(benchmark, base)
        # What was checked out is run where it lies; what was installed needs no place of its own.
        origin = origins.origin_of(benchmark)
        python = install_groups.python_of(benchmark, base, use_current)

        def has(path: str) -> bool:
            if os.path.exists(path) or (
                origin is not None and sources.why_missing_source(origin, base)
            ):
                return True
            if Path(path).parent == python.parent and not python.exists():
                return True  # a command of an environment that is still to be made
            made = bool(benchmark.settings.get("prepare"))
            return made and Path(path).is_relative_to(base)

        folder = context["source"] if origin is not None else None
        return Resources(
            str(python),
            context,
            lambda settings: variables(benchmark, base, settings, use_current),
            folder,
            has,
        )

    return ground


def why_not_ready(
    benchmark: Benchmark, base: Path, facts: Mapping[str, object], use_current: bool
) -> str | None:
    """Why nothing of a benchmark can be started yet, and what would help; None if it can."""
    try:
        if why := why_not_installed(benchmark, base, use_current):
            return f"{why}: inject suite install comes first"
        if not data.is_prepared(benchmark, base, facts, use_current):
            return "its data are not prepared: inject suite prepare comes first"
    except SuiteError as error:
        return str(error)
    return None


def why_not_installed(benchmark: Benchmark, base: Path, use_current: bool) -> str | None:
    """Why the source or the environment of a benchmark cannot be used; None if both can."""
    origin = origins.origin_of(benchmark)
    if origin is not None and (why := sources.why_missing_source(origin, base)):
        return why
    return None if use_current else install_groups.why_missing(benchmark, base)
