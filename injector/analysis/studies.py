"""Hyper-parameter studies: their trials, the best of these, and what their time went to.

The work is divided as the data goes: :mod:`.trials` reads what each process recorded, :mod:`.study_groups`
finds out which of it belongs to which study, :mod:`.study_trials` puts the trials together, and this module
divides the time of each study into phases.

The phases are those of ml_benchmark's life cycle (https://github.com/gebauerm/ml_benchmark): deploy; setup,
load, train and validate of each trial; result collection, from the end of the last trial until the best one
is known; test; un-deploy; metric collection, by ``inject`` itself. docs/hpo.md has the definitions. Take one
worker::

    study ├ setup ┤├ load ┼ train ┼ validate ┤├ store ┤├ setup ┤├ load … store ┤├ result collection ┤
                   ╰──────── trial 0 ────────╯                  ╰─ trial 1 ─╯

From the begin of a study to its last result, the trials, setup, storing and the idle time of a worker that
had no more trials to run add up to the time of all its workers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np

from ..store import monitor
from ..store.folder import Run
from ..value_class import replace
from .arrays import ExcludedIntervals, distinct
from .columns import SECOND, Ints, read_rows, sources
from .study import METRICS, Study, StudyPhase
from .study_groups import RecordedStudy, recorded_studies
from .study_trials import PartOnWorker, best_trials, trials_of
from .traces import threads_of
from .trials import (
    FRAMEWORK,
    LOAD,
    OTHER,
    PHASES,
    SETUP,
    TRAIN,
    VALIDATE,
    FrameworkSpan,
    ProcessStudies,
    TrialPart,
    attribute,
    clipped,
    has_studies,
    studies_in,
)
from .usage import Usage, sampled_usage, usage_of

MOST = 24
"""How many studies of a run are kept: an objective may start one in each trial."""
_ORDER = ("deploy", SETUP, LOAD, TRAIN, VALIDATE, OTHER, FRAMEWORK, "store",
          "result collection", "refit", "test", "un-deploy")  # fmt: skip
"""The phases of a study, in the order in which they are listed."""

Intervals = tuple[Ints, Ints]
"""Starts and ends, in unix nanoseconds."""
Pairs = list[tuple[int, int]]
"""The same, one by one."""


def studies_of(
    processes: Sequence[ProcessStudies],
    usage: Usage | None = None,
    info: Mapping[str, Any] = MappingProxyType({}),
) -> tuple[Study, ...]:
    """The studies of a run, in the order in which they began.

    ``usage`` is what the run's processes and devices used over time; without it, phases have no usage.
    ``info`` is the run's run.json, which says how the run ended and when its record was collected.
    """
    ended = info.get("exit") or {}
    run_failed = bool(ended.get("code") or ended.get("signal"))
    attribute(processes)
    recorded = recorded_studies(processes)
    recorded.sort(key=lambda study: study.start)
    evaluated = [each.evaluated for each in processes if each.evaluated is not None]
    process_starts = {each.process: each.began for each in processes}
    studies = []
    for at, study in enumerate(recorded[:MOST]):
        # Studies that go on at the same time, or within its trials, are neither before nor after it.
        previous = max((s.last for s in recorded[:at] if s.last <= study.start), default=0)
        following = next((s.start for s in recorded[at:] if s.start >= study.last), None)
        studies.append(
            _study(study, process_starts, (previous, following), evaluated, usage, run_failed)
        )
    # Metrics are collected once for all studies: the last one has this phase.
    if studies and len(recorded) <= MOST and (collection := _metric_collection(info)) is not None:
        studies[-1] = replace(studies[-1], phases=(*studies[-1].phases, collection))
    return tuple(studies)


def studies_in_run(run: Run) -> tuple[Study, ...]:
    """The studies of ``run``, without the rest of its analysis. Raises OSError, NotARunError."""
    with_spans = [source for source in sources(run) if source.has_spans()]
    if not has_studies(with_spans):
        return ()
    processes = [studies_in(source, threads_of(source, read_rows(source))) for source in with_spans]
    return studies_of(processes, sampled_usage(monitor.read(run.content)), run.info)


# --- one study ------------------------------------------------------------------------------------


def _study(
    study: RecordedStudy,
    process_starts: Mapping[int, int],
    between: tuple[int, int | None],
    evaluated: Sequence[ExcludedIntervals],
    usage: Usage | None,
    run_failed: bool,
) -> Study:
    """The figures of one study.

    ``between`` are the end of the last trial of the study before it (0 if there is none) and the start of the
    next study; ``evaluated`` is when each process evaluated a model.
    """
    previous, following = between
    # Before `_facts`, which may drop parts: their time belongs to the study all the same.
    start, last = study.start, study.last
    facts, known_to_framework = _facts(study)
    parts = study.parts
    workers = _workers(parts)
    deploys = [
        span
        for span in study.spans
        if span.region == "deploy" and previous <= span.start <= last and not _in_trial(span, parts)
    ]
    pool = _pool_starts(parts, process_starts, start)
    free_from = {part.process: pool.get(part.process, start) for part in parts}
    setups = _setups(study, workers, free_from, deploys)
    trials = trials_of(
        [PartOnWorker(*each) for each in zip(parts, workers, setups, strict=True)],
        start,
        facts,
        known_to_framework,
    )
    goals = tuple(str(goal) for goal in facts.get("goals") or ())
    last_result = max(part.done for part in parts)
    known_at = _best_known_at(study, last, following, last_result)
    # Of the parts of a worker, the last one stays: when it was done for good.
    worker_ends = dict(zip(workers, (part.done for part in parts), strict=True))
    around_trials = {
        "deploy": [*_times_of(deploys, "deploy"), *((start, end) for end in pool.values())],
        **_after_trials(study, known_at, following, evaluated),
    }
    seconds = _worker_seconds(parts, setups)
    calls = [span for span in study.spans if span.region == "study"]
    places = [*(call.place for call in calls), *(part.place for part in parts)]
    return Study(
        framework=study.framework,
        name=str(facts.get("study") or study.name),
        goals=goals,
        metric=str(facts.get("metric") or ""),
        sampler=str(facts.get("sampler") or ""),
        pruner=str(facts.get("pruner") or ""),
        place=next(filter(None, places), None),
        started=start / SECOND,
        seconds=(known_at - start) / SECOND,
        workers=len(set(workers)),
        trials=tuple(trials),
        best=best_trials(trials, goals, facts),
        aborted=run_failed and any(trial.state == "failed" and trial.last for trial in trials),
        in_trials=sum(part.end - part.start for part in parts) / SECOND - seconds[FRAMEWORK],
        in_framework=seconds[FRAMEWORK] + seconds["store"] + seconds[SETUP],
        idle=sum(last_result - end for end in worker_ends.values()) / SECOND,
        phases=_phases(
            around_trials, _worker_intervals(parts, setups), len(trials), usage, seconds
        ),
    )


def _facts(study: RecordedStudy) -> tuple[dict[str, Any], Mapping[str, Mapping[str, Any]]]:
    """What is recorded of the study, and of each of its trials by its id.

    Facts of trials that the framework recorded in its own process (Ray Tune) are added to their parts. Calls
    that left no record are then dropped from the study: their trials are known without them.
    """
    facts = {**study.parts[0].facts, **study.facts}
    of_trials: Mapping[str, Mapping[str, Any]] = facts.get("trials") or {}
    for part in study.parts:
        # What the framework's own process knows replaces what the trial's process recorded.
        part.facts = {**part.facts, **of_trials.get(str(part.facts.get("id")), {})}
    recorded = [part for part in study.parts if part.recorded]
    if of_trials and recorded:
        study.parts = recorded
    return facts, of_trials


def _times_of(spans: Sequence[FrameworkSpan], region: str) -> Pairs:
    return [(span.start, span.end) for span in spans if span.region == region]


def _in_trial(span: FrameworkSpan, parts: Sequence[TrialPart]) -> bool:
    """Whether joblib started workers within a trial: then that is a part of the trial, and no deployment."""
    return span.framework == "joblib" and any(
        part.process == span.process and part.start <= span.start < part.end for part in parts
    )


# --- workers, and when they were free -------------------------------------------------------------


def _workers(parts: Sequence[TrialPart]) -> list[int]:
    """The number of the worker of each part, in the order of ``parts``, which is that of time.

    A worker is a thread that runs trials; where trials of one thread overlap (several ``ask`` before the
    first ``tell``), there are as many workers as trials at once. A process that runs its first trial
    continues the worker of one that has run its last: Ray Tune starts a process for each trial.
    """
    last_of_process: dict[int, int] = {}
    for part in parts:
        last_of_process[part.process] = max(last_of_process.get(part.process, 0), part.done)
    # For each worker the process and thread of its latest part, and when that was done.
    latest: list[tuple[tuple[int, int], int]] = []
    seen: set[int] = set()
    workers = []
    for part in parts:
        thread = part.process, part.thread
        idle = [at for at, (_, done) in enumerate(latest) if done <= part.start]
        free = [at for at in idle if latest[at][0] == thread]
        if not free and part.process not in seen:
            free = [at for at in idle if last_of_process[latest[at][0][0]] <= part.start]
        seen.add(part.process)
        if free:
            # The one that was busy last: its time between two trials is then as short as it can be.
            worker = max(free, key=lambda at: latest[at][1])
            latest[worker] = thread, part.done
        else:
            worker = len(latest)
            latest.append((thread, part.done))
        workers.append(worker)
    return workers


def _pool_starts(
    parts: Sequence[TrialPart], process_starts: Mapping[int, int], start: int
) -> dict[int, int]:
    """When each process of a pool began, if after the study did.

    A process that runs several trials is one of a pool, which the framework deployed. One that runs a single
    trial was made for it, which is setup.
    """
    processes = [part.process for part in parts]
    return {
        process: process_starts[process]
        for process in set(processes)
        if process_starts[process] > start and processes.count(process) > 1
    }


def _setups(
    study: RecordedStudy,
    workers: Sequence[int],
    free_from: Mapping[int, int],
    deploys: Sequence[FrameworkSpan],
) -> list[Pairs]:
    """For each part of a trial, when its worker was free before it.

    A worker is free since its last result was stored; at first, since its process could work for the study
    (``free_from``, by process). Time outside of the study's own calls does not count (``study.optimize`` may
    be called several times), nor time in which the framework is deployed in the same process, or in one that
    runs no trials.
    """
    own_calls = ExcludedIntervals(*_columns(_times_of(study.spans, "study")))
    deployed = {
        process: ExcludedIntervals(
            *_columns(
                (span.start, span.end)
                for span in deploys
                if span.process == process or span.process not in free_from
            )
        )
        for process in free_from
    }
    free_since: dict[int, int] = {}
    setups = []
    for part, worker in zip(study.parts, workers, strict=True):
        end = part.start
        begin = min(free_since.get(worker, free_from[part.process]), end)
        free_since[worker] = part.done
        deploying = deployed[part.process]
        # Cut the time at each edge of a call or a deployment; each piece is then wholly in or out of them.
        moments = [m for each in (own_calls, deploying) for m in clipped(each, begin, end)]
        edges = distinct(np.concatenate((np.array([begin, end]), *moments)))
        left = edges[:-1]
        kept = ~deploying.hold(left) & (own_calls.hold(left) | (len(own_calls) == 0))
        setups.append(list(zip(left[kept].tolist(), edges[1:][kept].tolist(), strict=True)))
    return setups


def _columns(pairs: Iterable[tuple[int, int]]) -> Intervals:
    rows = np.array(list(pairs), np.int64).reshape(-1, 2)
    return rows[:, 0], rows[:, 1]


# --- after the trials -----------------------------------------------------------------------------


def _best_known_at(study: RecordedStudy, last: int, following: int | None, last_result: int) -> int:
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


def _after_trials(
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
        "refit": _times_of(later, "refit"),
        "test": _tests(evaluated, known_at, until, later),
        "un-deploy": _times_of(later, "undeploy"),
    }


def _tests(
    evaluated: Sequence[ExcludedIntervals], begin: int, end: int, later: Sequence[FrameworkSpan]
) -> Pairs:
    """Evaluations from ``begin`` to ``end``, but for those while the best model was trained once more."""
    refits = ExcludedIntervals(*_columns(_times_of(later, "refit")))
    tests: Pairs = []
    for passes in evaluated:
        inside = (passes.start >= begin) & (passes.start < end) & ~refits.hold(passes.start)
        tests += zip(passes.start[inside].tolist(), passes.end[inside].tolist(), strict=True)
    return tests


def _metric_collection(info: Mapping[str, Any]) -> StudyPhase | None:
    """From the end of the program until its record was collected; None where run.json does not say when."""
    ended, collected = info.get("ended"), info.get("collected_at")
    if not (isinstance(ended, float) and isinstance(collected, float) and ended <= collected):
        return None
    return StudyPhase(METRICS, ended, collected, collected - ended, 1, None, None, None)


# --- phases, and what they used -------------------------------------------------------------------


def _worker_seconds(parts: Sequence[TrialPart], setups: Sequence[Pairs]) -> dict[str, float]:
    """Seconds of all workers in each phase of a trial, its setup and storing included."""
    of_parts = [part.segments.seconds() for part in parts]
    return {
        **{name: sum(seconds[name] for seconds in of_parts) for name in PHASES},
        SETUP: sum(end - begin for pairs in setups for begin, end in pairs) / SECOND,
        "store": sum(part.done - part.end for part in parts) / SECOND,
    }


def _worker_intervals(
    parts: Sequence[TrialPart], setups: Sequence[Pairs]
) -> dict[str, list[Intervals]]:
    """When workers were in each phase of a trial, its setup and storing included."""
    intervals: dict[str, list[Intervals]] = {
        SETUP: [_columns(pair for pairs in setups for pair in pairs)],
        "store": [_columns((part.end, part.done) for part in parts)],
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


def _phases(
    around_trials: Mapping[str, Pairs],
    of_workers: Mapping[str, list[Intervals]],
    trials: int,
    usage: Usage | None,
    worker_seconds: Mapping[str, float],
) -> tuple[StudyPhase, ...]:
    """Each phase that took any time, in order, with what was used meanwhile.

    A phase around the trials takes the time that its intervals cover; one of the workers, the seconds of all
    of them, which are more than the time that passed where several work at once.
    """
    columns = {name: [_columns(pairs)] for name, pairs in around_trials.items() if pairs}
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
        seconds = worker_seconds.get(name, float((covered.end - covered.start).sum()) / SECOND)
        # All intervals may be empty, as where no call of its own stores a result.
        if not seconds and name in worker_seconds:
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
