"""A suite and its benchmarks, as the other rooms get them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .capabilities import NodeCondition
from .problems import ProblemList, Where
from .templates import render_args

if TYPE_CHECKING:
    from .filling import Filling

Facts = Mapping[str, object]
"""What placeholders mean, by their names: what is known of a machine, a job, folders."""
MAX_DURATION = 600.0
"""Seconds after which a benchmark is ended that does not set its own limit."""


@dataclass(frozen=True)
class Benchmark:
    """One thing to run: its name and all of its settings.

    Its texts are templates until :meth:`filled` resolves them for a machine and a job.
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
    """Its own of the values that its entry's matrix, sweep and search have."""
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

    def path(self, written: str, *keys: str | int) -> Path:
        """The file or folder that the setting at ``keys`` names, absolute; it need not exist.

        Relative to the file in which ``keys`` were written; else to the definition's folder, for what
        is inherited by a suite in another place.
        """
        beside = os.path.dirname(os.path.abspath(self.at(*keys).file))
        path = os.path.expanduser(written)
        first = os.path.join(beside, path)
        if self.definition is None or os.path.isabs(path) or os.path.exists(first):
            return Path(first)
        return self.definition / path

    def filled(self, context: Facts) -> dict[str, Any]:
        """Its settings with every placeholder resolved; keys that are null are left out.

        ``context``: what a placeholder of docs/suites.md means here, by its name. What follows
        from others (``cpu_per_gpu`` from ``cpu_count`` and ``gpu_count``) may be left out.

        Raises:
            SuiteError: every placeholder that cannot be resolved, and every value of a wrong type.
        """
        return self._filling(context).filled()

    def argv(self, context: Facts) -> list[str]:
        """The arguments of its program, placeholders resolved; raises as :meth:`filled`."""
        return self._filling(context).argv()

    def arguments(self, filled: Mapping[str, Any]) -> list[str]:
        """The arguments of its program, from settings that are filled already.

        Raises:
            SuiteError: a value that is no argument: false, a map.
        """
        problems = ProblemList()
        made = render_args(filled, lambda path, text: problems.add(self.at(*path), text))
        problems.check()
        return made

    def parameters(self, context: Facts) -> dict[str, Any]:
        """The variables whose names have a dot (``exp.model``), without those that have no value here."""
        return self._filling(context).parameters()

    def unmet(self, context: Facts, of_devices: bool = True) -> tuple[str, ...]:
        """The conditions of ``requires_capabilities`` that do not hold, as they were written.

        Those about name and memory of devices only where ``of_devices``.

        Raises:
            SuiteError: a condition is about something that ``context`` does not have.
        """
        return self._filling(context).unmet(of_devices)

    def node_conditions(self, context: Facts) -> tuple[NodeCondition, ...]:
        """The conditions of ``requires_capabilities`` about name and memory of devices.

        Raises SuiteError, as :meth:`unmet` does.
        """
        if not self.settings.get("requires_capabilities"):
            return ()
        return self._filling(context).node_conditions()

    def _filling(self, context: Facts) -> Filling:
        from .filling import Filling  # imports pydantic, which is an extra: a report does without

        own = {"name": self.name, "system": self.variables.get("system")}
        own |= {"group": self.group, "install_group": self.install_group}
        if self.definition is not None:
            own["definition"] = str(self.definition)
        known = self.templates[1] if self.templates and self.templates[0] is self.settings else None
        of = f" (in {self.name})" if self.name != self.family != "" else ""
        return Filling(self.settings, self.variables, {**own, **context}, known, self.at, of)

    def with_settings(self, **settings: Any) -> Benchmark:
        """The same with other values for some top-level keys."""
        return replace(self, settings={**self.settings, **settings})

    @property
    def enabled(self) -> bool:
        return bool(self.settings.get("enabled", True))

    @property
    def group(self) -> str:
        """What shares ``BASE/extra``; by default its own name."""
        return str(self.settings.get("group") or self.name)

    @property
    def install_group(self) -> str:
        """What shares an environment; by default its group."""
        return str(self.settings.get("install_group") or self.group)

    @property
    def tags(self) -> tuple[str, ...]:
        return tuple(map(str, self.settings.get("tags") or ()))

    @property
    def weight(self) -> float:
        """Its weight in the suite's score; by default 1."""
        return _number(self.settings.get("weight"), 1.0)

    @property
    def max_duration(self) -> float:
        """Seconds."""
        return _number(self.settings.get("max_duration"), MAX_DURATION)

    @property
    def definition(self) -> Path | None:
        """The folder of its definition, absolute; None where the suite's entry has all."""
        folder = self.settings.get("definition")
        return Path(folder) if isinstance(folder, str) else None

    @property
    def plan(self) -> Mapping[str, Any]:
        """``method`` and its options; by default ``per_gpu``."""
        return {"method": "per_gpu", **(self.settings.get("plan") or {})}


def _number(value: Any, default: float) -> float:
    """A number; ``default`` for none, and for a template that is not filled yet."""
    try:
        return default if value is None else float(value)
    except ValueError:
        return default


@dataclass(frozen=True)
class Suite:
    """A suite's YAML with all that it includes."""

    name: str
    """The file's, without its ending."""
    file: Path
    benchmarks: tuple[Benchmark, ...]
    """In the order in which they stand there, also those that are not enabled."""
    system: Mapping[str, Any] = field(default_factory=dict)
    """Nodes and options of the machines, as milabench's system file has them."""
