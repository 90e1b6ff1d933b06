"""What the parts of a suite hand to each other: places, problems, benchmarks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

from ...errors import UserError

MAX_DURATION = 600.0
"""Seconds after which a benchmark that says nothing about it is ended."""


class Where(NamedTuple):
    """A place in a YAML file."""

    file: str
    line: int
    """From 1; 0 for what stands in no file: ``--override a.b``."""
    key: str = ""
    """The keys that lead there, joined by dots: ``resnet50.argv.--lr``."""

    def __str__(self) -> str:
        at = f"{self.file}:{self.line}" if self.line else self.file
        return f"{at}: {self.key}" if self.key else at


class Problem(NamedTuple):
    """One mistake in what somebody wrote."""

    where: Where | None
    text: str
    """What is wrong, and what would be right."""

    def __str__(self) -> str:
        return f"{self.where}: {self.text}" if self.where else self.text


class SuiteError(UserError):
    """All that is wrong with a suite, at once."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(map(str, self.problems)))


@dataclass(frozen=True)
class Benchmark:
    """One thing to run: its name and everything that was said about it.

    Its texts are templates until :meth:`filled` has been given what a machine and a job are like.
    """

    name: str
    where: Where
    settings: Mapping[str, Any]
    """After include, inherits, definition, matrix, when, -P, -V and --override; valid, but for the
    values that have placeholders."""
    family: str = ""
    """The entry that it came from: another name where a matrix, a search or a sweep made it."""
    variables: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """What ``-P``, ``-V`` and ``variables:`` set, by dotted name."""
    values: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """Of the names that its entry has several values of, by a matrix, a sweep or a search."""
    places: Mapping[tuple[str | int, ...], Where] = field(default_factory=dict, repr=False)
    """Where each of its keys was written, by the keys that lead there."""
    templates: tuple[Any, ...] = field(default=(), repr=False, compare=False)
    """The settings it was made with, and where their templates are: found once for all of a family."""

    def at(self, *keys: str | int) -> Where:
        """Where ``keys`` were written, else the nearest thing above them."""
        for length in range(len(keys), 0, -1):
            if where := self.places.get(keys[:length]):
                return where
        return self.where

    def filled(self, context: Mapping[str, object]) -> dict[str, Any]:
        """Its settings with every placeholder resolved; keys that are null are left out.

        ``context``: what a placeholder of docs/suites.md means here, by its name. What follows
        from others (``cpu_per_gpu`` from ``cpu_count`` and ``gpu_count``) may be left out.

        Raises:
            SuiteError: every placeholder that cannot be resolved, and every value of a wrong type.
        """
        from .filling import fill

        return fill(self, context)

    def argv(self, context: Mapping[str, object]) -> list[str]:
        """The arguments of its program, placeholders resolved.

        Raises:
            SuiteError: see :meth:`filled`.
        """
        from .filling import arguments

        return arguments(self, context)

    def told(self, filled: Mapping[str, Any]) -> list[str]:
        """The arguments of its program, from settings that are filled already.

        Raises:
            SuiteError: an argument that is none: false, a map.
        """
        from .filling import told

        return told(self, filled)

    def unmet(self, context: Mapping[str, object]) -> tuple[str, ...]:
        """The conditions of ``requires_capabilities`` that do not hold, as they were written.

        Raises:
            SuiteError: a condition is about something that ``context`` does not tell.
        """
        from .filling import unmet

        return unmet(self, context)

    def with_settings(self, **settings: Any) -> Benchmark:
        """The same with other values for some top-level keys."""
        return replace(self, settings={**self.settings, **settings})

    @property
    def enabled(self) -> bool:
        return bool(self.settings.get("enabled", True))

    @property
    def group(self) -> str:
        """What shares ``BASE/extra``; its own name unless said."""
        return str(self.settings.get("group") or self.name)

    @property
    def install_group(self) -> str:
        """What shares an environment; its group unless said."""
        return str(self.settings.get("install_group") or self.group)

    @property
    def tags(self) -> tuple[str, ...]:
        return tuple(map(str, self.settings.get("tags") or ()))

    @property
    def weight(self) -> float:
        """What it counts in the suite's score; 1 unless said."""
        return _number(self.settings.get("weight"), 1.0)

    @property
    def max_duration(self) -> float:
        """Seconds."""
        return _number(self.settings.get("max_duration"), MAX_DURATION)

    @property
    def definition(self) -> Path | None:
        """The folder of its definition, absolute; None where the suite says everything."""
        folder = self.settings.get("definition")
        return Path(folder) if isinstance(folder, str) else None

    @property
    def plan(self) -> Mapping[str, Any]:
        """``method`` and its options; ``per_gpu`` unless said."""
        return {"method": "per_gpu", **(self.settings.get("plan") or {})}


def _number(value: Any, otherwise: float) -> float:
    """A number; ``otherwise`` for none, and for a template that nobody has filled."""
    try:
        return otherwise if value is None else float(value)
    except ValueError:
        return otherwise


@dataclass(frozen=True)
class Suite:
    """What a suite's YAML says, with all that it includes."""

    name: str
    """The file's, without its ending."""
    file: Path
    benchmarks: tuple[Benchmark, ...]
    """In the order in which they stand there, those that are not enabled as well."""
    system: Mapping[str, Any] = field(default_factory=dict)
    """Nodes and options of the machines, as milabench's system file has them."""
