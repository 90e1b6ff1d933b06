"""The phases of a study of hyper-parameters: when each was, what it took, and what was used meanwhile.

Trials have phases of their own (load, train, validate, …), which are seconds of workers; around them are
those of the study as a whole, from deployment to metric collection. docs/hpo.md has the definitions.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from .arrays import ExcludedIntervals
from .columns import SECOND, Ints
from .study import METRICS, StudyPhase
from .study_groups import RecordedStudy
from .trial_phases import FRAMEWORK, LOAD, OTHER, PHASES, SETUP, TRAIN, VALIDATE
from .trials import FrameworkSpan, TrialPart
from .usage import Usage, usage_of

_ORDER = ("deploy", SETUP, LOAD, TRAIN, VALIDATE, OTHER, FRAMEWORK, "store",
          "result collection", "refit", "test", "un-deploy")  # fmt: skip
"""The phases of a study, in the order in which they are listed."""

Intervals = tuple[Ints, Ints]
"""Starts and ends, in unix nanoseconds."""
Pairs = list[tuple[int, int]]
"""The same, one by one."""


def times_of(spans: Sequence[FrameworkSpan], region: str) -> Pairs:
    return [(span.start, span.end) for span in spans if span.region == region]


def columns_of(pairs: Iterable[tuple[int, int]]) -> Intervals:
    rows = np.array(list(pairs), np.int64).reshape(-1, 2)
    return rows[:, 0], rows[:, 1]


def best_known_at(study: RecordedStudy, last: int, following: int | None, last_result: int) -> int:
    """When the best trial was known.

    That is the end of the first look for it after the last trial, else of the study's own call, else the
    moment at which the last result was stored.
    """
    ended = [
        span
        for span in study.spans
        if span.end >= last and (following is None or span.start < following)
    ]
    # A study may be looked at again and again, as for plots: the first look is what the program waited for.
    looks = [span.end for span in ended if span.region == "best" and span.start >= last]
    calls = [span.end for span in ended if span.region == "study" and span.start <= last]
    return min(looks) if looks else min(calls) if calls else last_result


def after_trials(
    study: RecordedStudy,
    known_at: int,
    following: int | None,
    evaluated: Sequence[ExcludedIntervals],
) -> dict[str, Pairs]:
    """The phases that follow the last trial, up to the next study."""
    last = study.last
    # Tests may go on until the next study begins, or else until the last evaluation of the run.
    ends = [int(each.end[-1]) for each in evaluated if len(each)]
    until = following if following is not None else max([known_at, *ends])
    later = [
        span
        for span in study.spans
        if span.start >= last and (following is None or span.start < following)
    ]
    return {
        "result collection": [(last, known_at)],
        "refit": times_of(later, "refit"),
        "test": _tests(evaluated, known_at, until, later),
        "un-deploy": times_of(later, "undeploy"),
    }


def _tests(
    evaluated: Sequence[ExcludedIntervals], begin: int, end: int, later: Sequence[FrameworkSpan]
) -> Pairs:
    """Evaluations from ``begin`` to ``end``, but for those while the best model was trained once more."""
    refits = ExcludedIntervals(*columns_of(times_of(later, "refit")))
    tests: Pairs = []
    for passes in evaluated:
        inside = (passes.start >= begin) & (passes.start < end) & ~refits.hold(passes.start)
        tests += zip(passes.start[inside].tolist(), passes.end[inside].tolist(), strict=True)
    return tests


def metric_collection(info: Mapping[str, Any]) -> StudyPhase | None:
    """From the end of the program until its record was collected; None where run.json does not say when."""
    ended, collected = info.get("ended"), info.get("collected_at")
    if not (isinstance(ended, float) and isinstance(collected, float) and ended <= collected):
        return None
    return StudyPhase(METRICS, ended, collected, collected - ended, 1, None, None, None)


def worker_seconds(parts: Sequence[TrialPart], setups: Sequence[Pairs]) -> dict[str, float]:
    """Seconds of all workers in each phase of a trial, its setup and storing included."""
    of_parts = [part.segments.seconds() for part in parts]
    return {
        **{name: sum(seconds[name] for seconds in of_parts) for name in PHASES},
        SETUP: sum(end - begin for pairs in setups for begin, end in pairs) / SECOND,
        "store": sum(part.done - part.end for part in parts) / SECOND,
    }


def worker_intervals(
    parts: Sequence[TrialPart], setups: Sequence[Pairs]
) -> dict[str, list[Intervals]]:
    """When workers were in each phase of a trial, its setup and storing included."""
    intervals: dict[str, list[Intervals]] = {
        SETUP: [columns_of(pair for pairs in setups for pair in pairs)],
        "store": [columns_of((part.end, part.done) for part in parts)],
    }
    for number, name in enumerate(PHASES):
        if name == SETUP:
            continue
        for part in parts:
            of_phase = part.segments.phase == number
            if of_phase.any():
                pieces = part.segments.start[of_phase], part.segments.end[of_phase]
                intervals.setdefault(name, []).append(pieces)
    return intervals


def phases_of(
    around_trials: Mapping[str, Pairs],
    of_workers: Mapping[str, list[Intervals]],
    trials: int,
    usage: Usage | None,
    seconds_of: Mapping[str, float],
) -> tuple[StudyPhase, ...]:
    """Each phase that took any time, in order, with what was used meanwhile.

    A phase around the trials takes the time that its intervals cover; one of the workers, the seconds of all
    of them, which are more than the time that passed where several work at once.
    """
    columns = {name: [columns_of(pairs)] for name, pairs in around_trials.items() if pairs}
    columns |= of_workers
    joined = {
        name: (np.concatenate([a for a, _ in pieces]), np.concatenate([b for _, b in pieces]))
        for name, pieces in columns.items()
    }
    # Of all phases at once: workers that are in different ones share what is used at that moment.
    used_in = usage_of(usage, joined) if usage is not None else {}
    phases = []
    for name in _ORDER:
        if name not in joined or not len(joined[name][0]):
            continue
        start, end = joined[name]
        covered = ExcludedIntervals(start, end)
        seconds = seconds_of.get(name, float((covered.end - covered.start).sum()) / SECOND)
        # All intervals may be empty, as where no call of its own stores a result.
        if not seconds and name in seconds_of:
            continue
        used = used_in.get(name)
        phases.append(
            StudyPhase(
                name=name,
                began=float(start.min()) / SECOND,
                ended=float(end.max()) / SECOND,
                seconds=seconds,
                calls=trials if name in (*PHASES, "store") else len(start),
                cpu=used.cpu if used else None,
                peak_rss=used.peak_rss if used else None,
                energy=used.energy if used else None,
            )
        )
    return tuple(phases)
