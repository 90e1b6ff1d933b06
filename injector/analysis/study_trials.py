"""The trials of one study, put together from their parts, and which of them are best.

A trial is one call in one thread (Optuna, Ray Tune), or several: a search of scikit-learn runs each of its
candidates once for each fold, possibly on several workers. A trial's value is then the mean over its folds,
and its seconds are their sum.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import count
from math import isfinite, nan
from typing import Any

from ..named_tuple import NamedTuple
from ..value_class import replace
from .columns import SECOND
from .study import Trial, WorkerRun
from .trial_phases import FRAMEWORK, LOAD, OTHER, PHASES, TRAIN, VALIDATE
from .trials import RUNNING, TrialPart


class PartOnWorker(NamedTuple):
    """A part of a trial, with the worker that ran it."""

    part: TrialPart
    worker: int
    setup: Sequence[tuple[int, int]]
    """When the worker was free for it before it began: starts and ends in unix nanoseconds."""


def trials_of(
    parts: Sequence[PartOnWorker],
    start: int,
    facts: Mapping[str, Any],
    known_to_framework: Mapping[str, Mapping[str, Any]],
) -> list[Trial]:
    """The trials of a study by their numbers.

    ``parts`` are in the order of time, ``start`` is when the study began. ``facts`` are those of the study,
    ``known_to_framework`` has by its id what the framework recorded of each trial.
    """
    last = max(each.part.end for each in parts)
    trials = [_trial(number, group, start, last) for number, group in _by_trial(parts)]
    # A grid's trials, and calls that left no record, have no number: they get those that are free.
    used = {trial.number for trial in trials}
    free = (number for number in count() if number not in used)
    trials = [trial if trial.number >= 0 else replace(trial, number=next(free)) for trial in trials]
    trials += _without_process(known_to_framework, trials)
    trials.sort(key=lambda trial: trial.number)
    if (metric := facts.get("metric")) is not None:
        trials = [_with_first_value(trial, str(metric)) for trial in trials]
    return trials


def _by_trial(parts: Sequence[PartOnWorker]) -> list[tuple[int | None, list[PartOnWorker]]]:
    """The parts of each trial, with the trial's number, or None where it has none.

    A search by halving tries candidates in rounds, and numbers those of each round from 0 again. The same
    fold of the same candidate seen once more therefore begins another round, whose trials are counted on as
    ``cv_results_`` has them.
    """
    groups: dict[Any, list[PartOnWorker]] = {}
    rounds_of_fold: dict[tuple[Any, Any], int] = {}
    round_sizes: list[int] = []
    for at, each in enumerate(parts):
        facts = each.part.facts
        key: Any
        if not each.part.recorded and "number" not in facts:
            key = "unrecorded", at
        elif "part" in facts:
            fold = facts["number"], facts["part"]
            round_ = rounds_of_fold[fold] = rounds_of_fold.get(fold, -1) + 1
            if round_ == len(round_sizes):
                round_sizes.append(int(facts.get("of") or 0))
            key = sum(round_sizes[:round_]) + facts["number"]
        elif "number" in facts or "id" in facts:
            key = facts.get("number", facts.get("id"))
        else:
            key = "counted", at
        groups.setdefault(key, []).append(each)
    return [(key if isinstance(key, int) else None, group) for key, group in groups.items()]


def _trial(number: int | None, parts: Sequence[PartOnWorker], start: int, last: int) -> Trial:
    """One trial; ``start`` is when its study began, and ``last`` when the study's last trial ended."""
    facts: dict[str, Any] = {}
    seconds: dict[str, float] = dict.fromkeys(PHASES, 0.0)
    for part, _, _ in parts:
        facts.update(part.facts)
        for name, spent in part.segments.seconds().items():
            seconds[name] += spent
    # Of one that was not seen to train or evaluate, nothing is known about how its time divides.
    divided = seconds[TRAIN] > 0 or seconds[VALIDATE] > 0
    state, error = _state([part for part, _, _ in parts], facts)
    return Trial(
        # -1 until it is known which numbers are free.
        number=-1 if number is None else number,
        id=str(facts.get("id") or ""),
        params=dict(facts.get("params") or {}),
        values=_mean_values([part.facts.get("values") or {} for part, _, _ in parts]),
        state=state,
        error=error,
        began=(min(part.start for part, _, _ in parts) - start) / SECOND,
        seconds=sum(part.end - part.start for part, _, _ in parts) / SECOND,
        setup=sum(end - begin for _, _, setup in parts for begin, end in setup) / SECOND,
        load=seconds[LOAD] if divided else None,
        train=seconds[TRAIN] if divided else None,
        validate=seconds[VALIDATE] if divided else None,
        framework=seconds[FRAMEWORK],
        other=seconds[OTHER],
        store=sum(part.done - part.end for part, _, _ in parts) / SECOND,
        steps=sum(part.steps for part, _, _ in parts),
        reports=int(facts.get("reports") or 0),
        last=any(part.end == last for part, _, _ in parts),
        runs=tuple(
            WorkerRun(
                worker=worker,
                process=part.process,
                began=(part.start - start) / SECOND,
                seconds=(part.end - part.start) / SECOND,
            )
            for part, worker, _ in parts
        ),
    )


def _state(parts: Sequence[TrialPart], facts: Mapping[str, Any]) -> tuple[str, str]:
    """The state of a trial with these ``parts``, and why it failed; ``facts`` are those of all its parts."""
    states = {
        str(part.facts.get("state") or ("complete" if part.recorded else "failed"))
        for part in parts
    }
    # A part that still ran at the end of the record never ended.
    failed = bool(states & {RUNNING, "failed"})
    state = "failed" if failed else "pruned" if "pruned" in states else "complete"
    recorded = all(part.recorded for part in parts)
    error = str(facts.get("error") or ("" if recorded else "it left no result"))
    folds = facts.get("parts")
    # Folds without a record were not finished: their worker was killed, or the search was stopped.
    if isinstance(folds, int) and len(parts) < folds and state == "complete":
        state, error = "failed", f"{len(parts)} of {folds} folds were recorded"
    return state, error


def _without_process(
    known_to_framework: Mapping[str, Mapping[str, Any]], seen: Sequence[Trial]
) -> list[Trial]:
    """Trials that no process recorded, though the framework knows them: killed early, or never begun."""
    ids = {trial.id for trial in seen}
    return [
        Trial(
            number=int(facts.get("number", len(seen))),
            id=name,
            params=dict(facts.get("params") or {}),
            values=dict(facts.get("values") or {}),
            state=str(facts.get("state") or "failed"),
            error=str(facts.get("error") or "no process recorded it"),
        )
        for name, facts in known_to_framework.items()
        if name not in ids
    ]


def _with_first_value(trial: Trial, metric: str) -> Trial:
    """``trial`` with the value that the study is about before all others, as tables show the first one."""
    if metric not in trial.values:
        return trial
    return replace(trial, values={metric: trial.values[metric], **trial.values})


def _mean_values(values_of_parts: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """The mean of each value over the parts; NaN where a part lacks it, as scikit-learn has it."""
    names = dict.fromkeys(name for values in values_of_parts for name in values)
    means = {}
    for name in names:
        numbers = [
            float(values[name])
            for values in values_of_parts
            if isinstance(values.get(name), (int, float))
        ]
        complete = len(numbers) == len(values_of_parts)
        means[name] = sum(numbers) / len(numbers) if complete else nan
    return means


def best_trials(
    trials: Sequence[Trial], goals: Sequence[str], facts: Mapping[str, Any]
) -> tuple[int, ...]:
    """The numbers of the best trials.

    One, if the framework named it or there is one goal. With several goals, it is the Pareto front: the
    trials for which no other trial is at least as good in all goals, and better in one.
    """
    named = facts.get("best")
    for trial in trials:
        if named is not None and (trial.number == named or (trial.id and trial.id == named)):
            return (trial.number,)
    # A pruned trial may have a value too: an intermediate one, after fewer steps than the others made.
    candidates = [
        trial
        for trial in trials
        if trial.state == "complete" and trial.values and all(map(isfinite, trial.values.values()))
    ]
    if not candidates or not goals:
        return ()
    # As all values are to be minimized after this, smaller is better everywhere below.
    signs = [-1.0 if goal == "maximize" else 1.0 for goal in goals]
    # A trial may have more values than the study has goals; those of the goals come first.
    points = [
        tuple(sign * value for sign, value in zip(signs, trial.values.values(), strict=False))
        for trial in candidates
    ]
    if len(goals) == 1:
        return (candidates[min(range(len(candidates)), key=lambda at: points[at][0])].number,)
    front: set[tuple[float, ...]] = set()
    for point in sorted(set(points)):  # in this order, whatever dominates a point comes before it
        if not any(all(a <= b for a, b in zip(other, point, strict=True)) for other in front):
            front.add(point)
    return tuple(
        trial.number for trial, point in zip(candidates, points, strict=True) if point in front
    )
