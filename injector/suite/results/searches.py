"""The studies of hyper-parameters in a suite, which are of two kinds.

A suite makes a study itself where an entry has ``search:``. Each trial is a benchmark then, and
:func:`searches` gathers those of each study again, with the value of each trial and the best one.

A program may make a study of its own, with Optuna or Ray Tune, within one run. :func:`program_studies` lists
these beside each other, to compare what the frameworks cost.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from math import fsum, isfinite
from typing import Any, NamedTuple

from ...analysis.statistics import number
from ...metrics import shown
from ...report.text import UNKNOWN, count, duration, figure, percent, short
from ..config.problems import meant
from .points import is_recorded, row_of, unit_of
from .suite_summary import BenchmarkSummary, SuiteSummary

METRIC, GOALS = "loss", ("minimize", "maximize")
"""The metric of studies that name none, and the goals; the first goal is the default."""


class SearchTrial(NamedTuple):
    """One trial of a study that the suite makes: a benchmark."""

    number: int
    benchmark: str
    values: Mapping[str, Any]
    """Its hyper-parameters, by name."""
    state: str
    """``complete``, ``failed``, or ``unknown`` if it has no value of the metric."""
    value: float | None
    """The last value of the metric in a run, on average over repeats."""
    seconds: float | None
    """How long a run took, on average."""
    runs: int


class SearchResult(NamedTuple):
    """A study that the suite makes: an entry with ``search``, or one combination of its matrix."""

    name: str
    method: str
    metric: str
    recorded: bool
    """Whether the metric is a value that the program recorded, which has no unit."""
    goal: str
    trials: tuple[SearchTrial, ...]
    """The trials, ordered by number."""
    best: int | None
    """The number of the best trial; None if no trial has a value."""
    problem: str
    """Why no trial has a value; empty if some have."""


def searches(suite: SuiteSummary) -> list[SearchResult]:
    """The studies that ``suite`` makes, in the order of its file."""
    groups: dict[tuple[Any, ...], list[BenchmarkSummary]] = {}
    for benchmark in suite.benchmarks:
        study = benchmark.settings.get("search")
        if isinstance(study, Mapping) and "trial" in benchmark.values:
            # Values of a matrix or a sweep stay the same within a study: each combination of them has one.
            drawn = {*(study.get("space") or {}), "trial"}
            fixed = [(name, str(v)) for name, v in benchmark.values.items() if name not in drawn]
            key = (benchmark.family or benchmark.name, *sorted(fixed))
            groups.setdefault(key, []).append(benchmark)
    return [_search(suite, key, benchmarks) for key, benchmarks in groups.items()]


def _search(
    suite: SuiteSummary, key: tuple[Any, ...], benchmarks: list[BenchmarkSummary]
) -> SearchResult:
    """The study whose trials are ``benchmarks``; ``key`` has its entry, and names with fixed values."""
    study: Mapping[str, Any] = benchmarks[0].settings["search"]
    metric, goal = str(study.get("metric") or METRIC), str(study.get("goal") or GOALS[0])
    rows = [row_of(suite, benchmark) for benchmark in benchmarks]
    trials = sorted(map(functools.partial(_trial, study, metric), benchmarks, rows))
    known = [trial for trial in trials if trial.value is not None]
    sign = -1.0 if goal == "maximize" else 1.0
    best = min(known, key=lambda trial: sign * (trial.value or 0.0), default=None)
    return SearchResult(
        name="-".join([str(key[0]), *(f"{name}={value}" for name, value in key[1:])]),
        method=str(study.get("method") or "grid"),
        metric=metric,
        recorded=is_recorded(benchmarks, metric),
        goal=goal,
        trials=tuple(trials),
        best=best.number if best else None,
        problem="" if best else _problem(metric, trials, rows),
    )


def _trial(
    study: Mapping[str, Any], metric: str, benchmark: BenchmarkSummary, row: Mapping[str, Any]
) -> SearchTrial:
    recorded = row.get(metric)
    value = float(recorded) if isinstance(recorded, (int, float)) and isfinite(recorded) else None
    # A trial that failed may have recorded a value before; it must not win.
    failed = benchmark.failures > 0
    return SearchTrial(
        number=int(benchmark.values["trial"]),
        benchmark=benchmark.name,
        values={name: benchmark.values.get(name) for name in study.get("space") or {}},
        state="failed" if failed else "unknown" if value is None else "complete",
        value=None if failed else value,
        seconds=row.get("duration"),
        runs=benchmark.runs,
    )


def _problem(metric: str, trials: list[SearchTrial], rows: list[dict[str, Any]]) -> str:
    """Why no trial has a value of ``metric``; likely its name is misspelt in the suite."""
    if all(trial.state == "failed" for trial in trials):
        return "every trial failed"
    named = sorted({name for row in rows for name, value in row.items() if type(value) is float})
    return f"search.metric: no run has recorded a value {metric!r}{meant(metric, named)}"


# --- in words ---------------------------------------------------------------------------------------


def title(study: SearchResult) -> str:
    """What was searched, and how the trials ended."""
    states = [trial.state for trial in study.trials]
    words = (word for word in ("complete", "failed", "unknown") if word in states)
    ended = (f"{states.count(word)} {word}" for word in words)
    trials = f"{count(len(states), 'trial')}: {', '.join(ended)}"
    return f"study {study.name} · {trials} · {study.method} · {study.goal} {study.metric}"


def _value(study: SearchResult, trial: SearchTrial) -> str:
    if trial.value is None:
        return UNKNOWN
    # What a program recorded under a name may be called as a metric of ours and mean something else.
    unit, factor = ("", 1.0) if study.recorded else shown(unit_of(study.metric))
    return f"{figure(trial.value * factor)} {unit}".rstrip()


def _cells(study: SearchResult) -> tuple[list[str], list[list[str]]]:
    """The heads of the table of a study, and a row for each trial."""
    names = list(study.trials[0].values)
    heads = ["trial", "state", study.metric, "took", *names, "benchmark"]
    rows = [
        [
            str(trial.number),
            f"{trial.state}, best" if trial.number == study.best else trial.state,
            _value(study, trial),
            "" if trial.seconds is None else duration(trial.seconds),
            *("" if trial.values[name] is None else str(trial.values[name]) for name in names),
            trial.benchmark,
        ]
        for trial in study.trials
    ]
    return heads, rows


def as_data(study: SearchResult) -> dict[str, Any]:
    """A study as JSON, times in seconds."""
    trials = [{**trial._asdict(), "values": dict(trial.values)} for trial in study.trials]
    return {**study._asdict(), "trials": trials}


def tables(suite: SuiteSummary) -> Iterator[tuple[str, str, list[str], list[list[str]]]]:
    """For each study that ``suite`` makes its title, its best trial, and heads and rows of its table."""
    for study in searches(suite):
        heads, rows = _cells(study)
        best = f"not known: {study.problem}"
        for trial in (trial for trial in study.trials if trial.number == study.best):
            params = " ".join(f"{name}={value}" for name, value in trial.values.items())
            best = f"{trial.benchmark}: {study.metric} {_value(study, trial)} with {params}"
        yield title(study), best, heads, rows


# --- studies within programs ------------------------------------------------------------------------

_COLUMNS: Mapping[str, tuple[str, Callable[[Any], str]]] = {
    "framework": ("framework", str),
    "workers": ("workers", str),
    "trials": ("trials", str),
    "pruned": ("pruned", str),
    "failed": ("failed", str),
    "seconds": ("took", duration),
    "trial_seconds": ("trial", short),
    "setup": ("setup", short),
    "in_framework": ("of the framework", short),
    "idle": ("idle", short),
    "trials_share": ("trials' share", percent),
    "collection": ("collected", short),
    "best": ("best", lambda value: UNKNOWN if value is None else figure(value)),
}
"""The columns of the table that compares studies: a field of :class:`ProgramStudy`, its head, and how its
values are shown.
"""
COMPARED = tuple(head for head, _ in _COLUMNS.values())


class ProgramStudy(NamedTuple):
    """A study that a benchmark's program makes; its times are seconds, on average over runs."""

    benchmark: str
    framework: str
    workers: int
    trials: int
    pruned: int
    failed: int
    seconds: float
    """The wall time of the study."""
    trial_seconds: float
    """The time of one trial, on average."""
    setup: float
    """What it took to set up one trial, on average."""
    in_framework: float
    """What workers spent in the framework instead of a trial."""
    idle: float
    trials_share: float
    """The fraction of the workers' time that trials took."""
    collection: float
    """What it took to collect results."""
    best: float | None
    """The first value of the best trial, of the first run."""


def program_studies(suite: SuiteSummary) -> list[ProgramStudy]:
    """The first study of each benchmark whose program makes one."""
    compared = []
    for benchmark in suite.benchmarks:
        records = [process.record for process in benchmark.processes if process.record]
        studies = [record.studies[0] for record in records if record.studies]
        if studies:
            compared.append(_program_study(benchmark.name, studies))
    return compared


def _program_study(benchmark: str, studies: list[Mapping[str, Any]]) -> ProgramStudy:
    """The means over ``studies``, which are the same study in each run; counts are those of the first."""
    first = studies[0]

    def mean(name: str) -> float:
        return fsum(float(study[name]) for study in studies) / len(studies)

    def phase(name: str) -> float:
        spent = (p["seconds"] for study in studies for p in study["phases"] if p["name"] == name)
        return fsum(spent) / len(studies)

    counts = first["counts"]
    trials = sum(counts.values())
    total = mean("in_trials") + mean("in_framework") + mean("idle")
    values = [number(value) for trial in first["trials"] for value in trial["values"].values()]
    return ProgramStudy(
        benchmark=benchmark,
        framework=str(first["framework"]),
        workers=int(first["workers"]),
        trials=trials,
        pruned=counts["pruned"],
        failed=counts["failed"],
        seconds=mean("seconds"),
        trial_seconds=mean("in_trials") / max(trials, 1),
        setup=phase("setup") / max(trials, 1),
        in_framework=mean("in_framework"),
        idle=mean("idle"),
        trials_share=mean("in_trials") / total if total > 0 else 0.0,
        collection=phase("result collection"),
        best=values[0] if values else None,
    )


def compared_cells(studies: list[ProgramStudy]) -> list[list[str]]:
    """A row for each study: its benchmark, then the columns of :data:`COMPARED`."""
    return [
        [study.benchmark, *(show(getattr(study, name)) for name, (_, show) in _COLUMNS.items())]
        for study in studies
    ]
