"""The studies of a suite: of those that are benchmarks (``search:``) all trials by what they came to, and the
best one; those that its programs make beside each other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from math import fsum, isfinite
from typing import Any, NamedTuple

from ...analysis.recorded import number
from ...metrics import shown
from ...report.text import UNKNOWN, count, duration, figure, percent, short
from ..config.problems import meant
from .points import is_recorded, row_of, unit_of
from .suite_summary import BenchmarkSummary, SuiteSummary

METRIC, GOALS = "loss", ("minimize", "maximize")
"""What trials are compared by where the suite does not say, and the first of its goals."""


class SearchTrial(NamedTuple):
    """One benchmark of a study."""

    number: int
    benchmark: str
    values: Mapping[str, Any]
    """Its hyper-parameters."""
    state: str
    """``complete`` or ``failed``; ``unknown`` of one that has no value of the metric."""
    value: float | None
    """Of the metric: the last one of a run, on average over repeats."""
    seconds: float | None
    """Of a run."""
    runs: int


class SearchResult(NamedTuple):
    """A study: an entry with ``search``, or one combination of such an entry's matrix."""

    name: str
    method: str
    metric: str
    recorded: bool
    """Whether the metric is a value that the program recorded, which has no unit."""
    goal: str
    trials: tuple[SearchTrial, ...]
    """By their numbers."""
    best: int | None
    """The number of the best one; None where no trial has a value."""
    problem: str
    """Why no trial has one; empty where some have."""


def searches(suite: SuiteSummary) -> list[SearchResult]:
    """The studies of ``suite`` in its order."""
    groups: dict[tuple[Any, ...], list[BenchmarkSummary]] = {}
    for benchmark in suite.benchmarks:
        study = benchmark.settings.get("search")
        if isinstance(study, Mapping) and "trial" in benchmark.values:
            own = {*(study.get("space") or {}), "trial"}
            rest = [(name, str(v)) for name, v in benchmark.values.items() if name not in own]
            key = (benchmark.family or benchmark.name, *sorted(rest))
            groups.setdefault(key, []).append(benchmark)
    return [_search(suite, key, found) for key, found in groups.items()]


def _search(
    suite: SuiteSummary, key: tuple[Any, ...], found: list[BenchmarkSummary]
) -> SearchResult:
    study: Mapping[str, Any] = found[0].settings["search"]
    metric, goal = str(study.get("metric") or METRIC), str(study.get("goal") or GOALS[0])
    rows = [row_of(suite, each) for each in found]
    trials = tuple(
        sorted(_trial(each, row, study, metric) for each, row in zip(found, rows, strict=True))
    )
    known = [trial for trial in trials if trial.value is not None]
    best = None
    if known:
        sign = -1.0 if goal == "maximize" else 1.0
        best = min(known, key=lambda trial: sign * (trial.value or 0.0)).number
    name = "-".join([str(key[0]), *(f"{name}={value}" for name, value in key[1:])])
    problem = "" if known else _problem(metric, trials, rows)
    return SearchResult(
        name,
        str(study.get("method") or "grid"),
        metric,
        is_recorded(found, metric),
        goal,
        trials,
        best,
        problem,
    )


def _trial(
    benchmark: BenchmarkSummary, row: Mapping[str, Any], study: Mapping[str, Any], metric: str
) -> SearchTrial:
    found = row.get(metric)
    value = float(found) if isinstance(found, (int, float)) and isfinite(found) else None
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


def _problem(metric: str, trials: tuple[SearchTrial, ...], rows: list[dict[str, Any]]) -> str:
    if all(trial.state == "failed" for trial in trials):
        return "every trial failed"
    named = sorted({name for row in rows for name, value in row.items() if type(value) is float})
    return f"search.metric: no run has recorded a value {metric!r}{meant(metric, named)}"


# --- in words ---------------------------------------------------------------------------------------


def title(found: SearchResult) -> str:
    """What was searched, and how its trials ended."""
    states = [trial.state for trial in found.trials]
    ended = (
        f"{states.count(word)} {word}"
        for word in ("complete", "failed", "unknown")
        if word in states
    )
    trials = f"{count(len(states), 'trial')}: {', '.join(ended)}"
    return f"study {found.name} · {trials} · {found.method} · {found.goal} {found.metric}"


def best_text(found: SearchResult) -> str:
    """The best trial with its hyper-parameters, or why there is none."""
    best = next((trial for trial in found.trials if trial.number == found.best), None)
    if best is None:
        return f"not known: {found.problem}"
    params = " ".join(f"{name}={value}" for name, value in best.values.items())
    return f"{best.benchmark}: {found.metric} {_value(found, best)} with {params}"


def _value(found: SearchResult, trial: SearchTrial) -> str:
    if trial.value is None:
        return UNKNOWN
    unit, factor = ("", 1.0) if found.recorded else shown(unit_of(found.metric))
    return f"{figure(trial.value * factor)} {unit}".rstrip()


def cells(found: SearchResult) -> tuple[list[str], list[list[str]]]:
    """Heads, and a row for each trial."""
    names = list(found.trials[0].values)
    heads = ["trial", "state", found.metric, "took", *names, "benchmark"]
    rows = [
        [
            str(trial.number),
            f"{trial.state}, best" if trial.number == found.best else trial.state,
            _value(found, trial),
            "" if trial.seconds is None else duration(trial.seconds),
            *("" if trial.values[name] is None else str(trial.values[name]) for name in names),
            trial.benchmark,
        ]
        for trial in found.trials
    ]
    return heads, rows


def as_data(found: SearchResult) -> dict[str, Any]:
    """Everything, seconds."""
    trials = [{**trial._asdict(), "values": dict(trial.values)} for trial in found.trials]
    return {**found._asdict(), "trials": trials}


def tables(suite: SuiteSummary) -> Iterator[tuple[str, str, list[str], list[list[str]]]]:
    """Of each study its title, the best trial, and its table."""
    for each in searches(suite):
        heads, rows = cells(each)
        yield title(each), best_text(each), heads, rows


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
"""What studies are compared by: the wall time of each; a trial's own time and its setup on average; the time
of the framework and idle; the trials' part of the workers' time; result collection; the best value. By the
field of a study, its head and how it is shown.
"""
COMPARED = tuple(head for head, _ in _COLUMNS.values())


class ProgramStudy(NamedTuple):
    """A study that a benchmark's program makes; seconds, on average over runs."""

    benchmark: str
    framework: str
    workers: int
    trials: int
    pruned: int
    failed: int
    seconds: float
    trial_seconds: float
    setup: float
    in_framework: float
    idle: float
    trials_share: float
    """Of the workers' time."""
    collection: float
    best: float | None
    """The first value of the best trial, of the first run."""


def program_studies(suite: SuiteSummary) -> list[ProgramStudy]:
    """The first study of each benchmark whose program makes one."""
    found = []
    for benchmark in suite.benchmarks:
        records = [each.record for each in benchmark.processes if each.record]
        studies = [each.studies[0] for each in records if each.studies]
        if studies:
            found.append(_program_study(benchmark.name, studies))
    return found


def _program_study(benchmark: str, studies: list[Mapping[str, Any]]) -> ProgramStudy:
    first = studies[0]

    def mean(name: str) -> float:
        return fsum(float(each[name]) for each in studies) / len(studies)

    def phase(name: str) -> float:
        spent = (p["seconds"] for each in studies for p in each["phases"] if p["name"] == name)
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


def compared_cells(found: list[ProgramStudy]) -> list[list[str]]:
    """A row for each study: its benchmark, then :data:`COMPARED`."""
    return [
        [each.benchmark, *(show(getattr(each, name)) for name, (_, show) in _COLUMNS.items())]
        for each in found
    ]
