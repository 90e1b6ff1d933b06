"""A suite and its benchmarks: what reading a YAML file results in, and what all that follows works on.

A :class:`Benchmark` is independent of the machine: its texts have placeholders such as ``{gpu_count}``. A
plan fills it for each job, with what is known of the machine and the devices of the job.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .expressions import NodeCondition
from .problems import ProblemList, Where
from .templates import render_args

if TYPE_CHECKING:
    from .filling import Filling

Facts = Mapping[str, object]
"""The values of placeholders by name: what is known of a machine, a job, folders."""
MAX_DURATION = 600.0
"""Seconds after which a benchmark without a limit of its own is ended."""


@dataclass(frozen=True)
class Benchmark:
    """A program to run with all of its settings, which are templates until :meth:`filled` resolves them."""

    name: str
    where: Where
    """Where its entry was written."""
    settings: Mapping[str, Any]
    """The settings after include, inherits, definition, matrix, when, -P, -V and --override. They are valid,
    except that values with placeholders are checked when these are filled."""
    family: str = ""
    """The entry that it came from: another name if a matrix, a search or a sweep made it."""
    variables: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """What ``-P``, ``-V`` and ``variables:`` set, by dotted name."""
    values: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """The values that it has of its entry's matrix, sweep and search."""
    places: Mapping[tuple[str | int, ...], Where] = field(default_factory=dict, repr=False)
    """Where each of its keys was written, by the keys that lead there."""
    templates: tuple[Any, ...] = field(default=(), repr=False, compare=False)
    """The settings that it was made with, and the templates in them, which are found once for a family; empty
    if the benchmark has templates of its own."""

    def at(self, *keys: str | int) -> Where:
        """Where ``keys`` were written, else where the nearest key above them was."""
        for length in range(len(keys), 0, -1):
            if where := self.places.get(keys[:length]):
                return where
        return self.where

    def path(self, written: object, *keys: str | int) -> Path:
        """The absolute path of the file or folder that the setting at ``keys`` names; it need not exist.

        A name may be a number.

        It is relative to the file in which ``keys`` were written. If there is no such file, it is relative to
        the definition's folder: a suite in another folder may inherit the setting.
        """
        beside = os.path.dirname(os.path.abspath(self.at(*keys).file))
        path = os.path.expanduser(str(written))
        beside_file = os.path.join(beside, path)
        if self.definition is None or os.path.isabs(path) or os.path.exists(beside_file):
            return Path(beside_file)
        return self.definition / path

    def filled(self, context: Facts) -> dict[str, Any]:
        """The settings with every placeholder resolved; keys that are null are left out.

        ``context`` has the values of the placeholders of docs/suites.md, by name. Those that follow from
        others (``cpu_per_gpu`` from ``cpu_count`` and ``gpu_count``) may be left out. Raises SuiteError with
        every placeholder that cannot be resolved, and every value of a wrong type.
        """
        return self._filling(context).filled()

    def argv(self, context: Facts) -> list[str]:
        """The arguments of the program with every placeholder resolved. Raises as :meth:`filled` does."""
        return self._filling(context).argv()

    def arguments(self, filled: Mapping[str, Any]) -> list[str]:
        """The arguments of the program, from settings that are filled already.

        Raises SuiteError for a value that is no argument: false, a map.
        """
        problems = ProblemList()
        words = render_args(filled, lambda path, text: problems.add(self.at(*path), text))
        problems.check()
        return words

    def parameters(self, context: Facts) -> dict[str, Any]:
        """The variables whose names have a dot (``exp.model``), without those that have no value here."""
        return self._filling(context).parameters()

    def unmet(self, context: Facts, of_devices: bool = True) -> tuple[str, ...]:
        """The conditions of ``requires_capabilities`` that do not hold, as they were written.

        Without ``of_devices``, conditions about name and memory of devices are not evaluated. Raises
        SuiteError if a condition is about something that ``context`` does not have.
        """
        return self._filling(context, complete=False).unmet(of_devices)

    def node_conditions(self, context: Facts) -> tuple[NodeCondition, ...]:
        """The conditions of ``requires_capabilities`` about name and memory of devices.

        Raises SuiteError, as :meth:`unmet` does.
        """
        return self._filling(context, complete=False).node_conditions()

    def _filling(self, context: Facts, complete: bool = True) -> Filling:
        from .filling import Filling  # imports pydantic, which is an extra: a report does without

        own = {"name": self.name, "system": self.variables.get("system")}
        own |= {"group": self.group, "install_group": self.install_group}
        if self.definition is not None:
            own["definition"] = str(self.definition)
        # The templates are those of the very settings that they were found in, not of with_settings().
        templates = (
            self.templates[1] if self.templates and self.templates[0] is self.settings else None
        )
        # A mistake in an entry that makes many benchmarks may be in one of them only.
        suffix = f" (in {self.name})" if self.name != self.family != "" else ""
        return Filling(
            self.settings,
            self.variables,
            {**own, **context},
            templates,
            self.at,
            suffix,
            complete,
        )

    def with_settings(self, **settings: Any) -> Benchmark:
        """A copy of the benchmark with other values for some top-level keys."""
        return replace(self, settings={**self.settings, **settings})

    @property
    def enabled(self) -> bool:
        return bool(self.settings.get("enabled", True))

    @property
    def group(self) -> str:
        """The name of the benchmarks that share a folder below ``BASE/extra``; by default its own name."""
        return str(self.settings.get("group") or self.name)

    @property
    def install_group(self) -> str:
        """The name of the benchmarks that share an environment; by default its group."""
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
        """Seconds after which it is ended."""
        return _number(self.settings.get("max_duration"), MAX_DURATION)

    @property
    def definition(self) -> Path | None:
        """The absolute path of its definition's folder; None if it has no definition."""
        folder = self.settings.get("definition")
        return Path(folder) if isinstance(folder, str) else None

    @property
    def plan(self) -> Mapping[str, Any]:
        """The ``method`` and its options; by default ``per_gpu``."""
        return {"method": "per_gpu", **(self.settings.get("plan") or {})}


def _number(value: Any, default: float) -> float:
    """``value`` as a number; ``default`` if there is none, or a template that is not filled yet."""
    try:
        return default if value is None else float(value)
    except ValueError:
        return default


@dataclass(frozen=True)
class Suite:
    """A suite: what its YAML file and all that it includes come to."""

    name: str
    """The name of the file without its ending."""
    file: Path
    benchmarks: tuple[Benchmark, ...]
    """The benchmarks in the order of the file, also those that are not enabled."""
    system: Mapping[str, Any] = field(default_factory=dict)
    """Nodes and options of the machines, as milabench's system file has them."""
