"""What every tracker receives of a run: its properties, parameters, figures, series and files."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from functools import cached_property

from ..analysis.benchmark_metrics import benchmark_properties
from ..analysis.study import Study
from ..analysis.summary import Summary
from ..store.folder import Run
from ..store.seal import ARTIFACTS
from .figures import Figure, figures_of, studies_of
from .series import POINTS, Series, all_series, thinned

NEGATIVE = re.compile(r"-\.?\d")
"""The beginning of a negative number, which an option may have as its value."""
LONG_OPTION = re.compile(r"--[A-Za-z][\w.\-]*(=|$)")
"""A word that is an option in full, and so no value of the option before it."""
SECRET = re.compile(r"(?i)(passw|secret|token|api.?key|credential)")
"""Occurs in the names of options whose values are not exported."""
LIBRARIES = (
    "torch",
    "jax",
    "keras",
    "lightning",
    "transformers",
    "lightgbm",
    "xgboost",
    "catboost",
)
"""The libraries whose versions are parameters."""


@dataclass(frozen=True)
class Content:
    """One run, as it is exported."""

    run: Run
    summary: Summary
    labels: Mapping[str, str] = field(default_factory=dict)
    """What distinguishes it from the other runs of its suite."""
    points: int = POINTS
    """The most points of a series; 0 for all."""
    pages: Mapping[str, Callable[[], str]] = field(default_factory=dict)
    """By name, functions that render the text files to be kept with it."""

    @property
    def files(self) -> dict[str, str]:
        """The paths of the files that the program added (``injector.artifact``), by their names.

        Those that were changed or removed since are left out.
        """
        folder = os.path.join(self.run.content, ARTIFACTS)
        added = (str(each["name"]) for each in self.summary.artifacts if each.get("copied"))
        paths = {name: os.path.join(folder, name) for name in added}
        return {name: path for name, path in paths.items() if os.path.isfile(path)}

    @property
    def name(self) -> str:
        """The name of the run: in a suite its labels, else its title."""
        return " ".join(map(str, self.labels.values())) or self.summary.title

    @cached_property
    def tags(self) -> dict[str, str]:
        """The properties of the run, among them those of ``--tag``."""
        return {**benchmark_properties(self.run), **_tags(self.summary, self.labels)}

    @cached_property
    def params(self) -> dict[str, str]:
        """The parameters that it ran with."""
        return _params(self.summary)

    @cached_property
    def figures(self) -> dict[str, Figure]:
        """Its figures, by name."""
        return figures_of(self.summary)

    @cached_property
    def series(self) -> tuple[Series, ...]:
        """Its series, thinned to :attr:`points`. Raises OSError."""
        series = all_series(self.run, self.summary.ended or 0.0)
        return tuple(thinned(one, self.points) for one in series)

    def regions(self) -> list[Series]:
        """The series of the seconds of regions, which are not sent while a run goes on. Raises OSError."""
        return [one for one in self.series if "regions" in one.name.split("/")[:2]]


def thinning(content: Content) -> str:
    """A sentence on how many series were thinned; empty if none was."""
    long = [one for one in content.series if one.total > len(one.values)]
    if not long:
        return ""
    longest = max(long, key=lambda one: one.total)
    return (
        f"{len(long)} series are longer than {content.points} points: of each part the least and the "
        f"largest value are exported ({longest.name}: {len(longest.values)} of {longest.total}); --points 0 "
        "exports all"
    )


def _tags(summary: Summary, labels: Mapping[str, str]) -> dict[str, str]:
    """What the run was and how it ended, its labels, and its own tags, the last of which win."""
    end = summary.exit or {}
    git = summary.environment.git if summary.environment else {}
    sentence = summary.profile.verdict.sentence if summary.profile else None
    tags = {
        "command": " ".join(without_secrets(summary.command or ())) or None,
        "host": summary.host,
        "started": None if summary.started is None else _utc(summary.started),
        "exit": end.get("signal") or end.get("code"),
        "stopped": "true" if summary.stopped else None,
        "verdict": sentence,
        "folder": os.path.basename(os.path.abspath(summary.run)),
        "git.commit": git.get("commit"),
        "git.branch": git.get("branch"),
        "git.dirty": None if git.get("dirty") is None else str(bool(git["dirty"])).lower(),
        "damage": "; ".join(summary.missing) or None,
    }
    known = {f"injector.{key}": str(value) for key, value in tags.items() if value is not None}
    return {**known, **labels, **{key: str(value) for key, value in summary.tags.items()}}


def _utc(moment: float) -> str:
    return datetime.fromtimestamp(moment, timezone.utc).isoformat(timespec="milliseconds")


def _params(summary: Summary) -> dict[str, str]:
    """The options of the program and of the run, the machine, and the versions of libraries."""
    environment = summary.environment
    cpu = environment.cpu if environment else {}
    params: dict[str, object] = {
        **dict(_options(summary.command or ())),
        **{key: text for key, text in summary.params.items() if not SECRET.search(key)},
        **{f"injector.{key}": value for key, value in summary.limits.items()},
        "python": summary.python,
        "platform": environment.platform if environment else None,
        "cpu": cpu.get("brand"),
        "cpu_count": cpu.get("count"),
        "ranks": len({each.get("rank") for each in summary.processes} - {None}) or None,
    }
    for name, study in studies_of(summary):
        params |= _study_params(name, study)
    devices = [each.name for machine in summary.machines for each in machine.devices]
    params["devices"] = ", ".join(devices) or None
    for name in LIBRARIES:
        params[f"version.{name}"] = environment.packages.get(name) if environment else None
    return {key: str(value) for key, value in params.items() if value not in (None, "")}


def _study_params(name: str, study: Study) -> dict[str, object]:
    """How a study searched, and the hyper-parameters of its best trial."""
    params: dict[str, object] = {
        f"{name}.{key}": getattr(study, key) for key in ("framework", "sampler", "pruner", "metric")
    }
    params[f"{name}.goal"] = ", ".join(study.goals)
    best = study.best_trial
    if best is not None:
        params[f"{name}.best.trial"] = best.number
        chosen = {key: value for key, value in best.params.items() if not SECRET.search(key)}
        params |= {f"{name}.best.{key}": value for key, value in chosen.items()}
    return params


def _options(command: Sequence[str]) -> Iterator[tuple[str, str]]:
    """The program's options ``--lr 0.1``, ``--lr=0.1`` and ``lr=0.1`` as pairs, without those of secrets."""
    words = list(without_secrets(command))
    start = next((at for at, word in enumerate(words) if word.endswith(".py")), -1)
    words = words[start + 1 :]
    for at, word in enumerate(words):
        key, equals, value = word.lstrip("-").partition("=")
        if word.startswith("-") and not equals:
            after = words[at + 1] if at + 1 < len(words) else "-"
            value = "true" if after.startswith("-") and not NEGATIVE.match(after) else after
        elif not equals:
            continue
        if re.fullmatch(r"[A-Za-z_][\w.\-]*", key) and not SECRET.search(key):
            yield key, value


def without_secrets(command: Sequence[str]) -> Iterator[str]:
    """The words of ``command``, with ``***`` for the values of options whose names match :data:`SECRET`.

    What follows such an option is its value, unless it looks like an option in full: ``--lr``, ``--lr=0.1``.
    """
    is_value = False
    for word in command:
        if is_value and not LONG_OPTION.match(word):
            yield "***"
            is_value = False
            continue
        key, equals, _ = word.partition("=")
        is_secret = bool(SECRET.search(key)) and (bool(equals) or word.startswith("-"))
        yield f"{key}=***" if is_secret and equals else word
        is_value = is_secret and not equals
