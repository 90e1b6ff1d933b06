"""Hyper-parameter studies: their trials, the best of these, and what their time went to.

The work is divided as the data goes: :mod:`.trials` reads what each process recorded, :mod:`.study_groups`
finds out which of it belongs to which study, :mod:`.study_trials` puts the trials together,
:mod:`.study_phases` divides the time of each study into phases, and this module finds out when workers were
free.

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

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np

from ..exit_status import code_of
from ..store import monitor
from ..store.folder import Run
from ..value_class import replace
from .arrays import ExcludedIntervals, distinct
from .columns import SECOND, read_rows, sources
from .study import Study
from .study_groups import RecordedStudy, recorded_studies
from .study_phases import (
    Pairs,
    after_trials,
    best_known_at,
    columns_of,
    metric_collection,
    phases_of,
    times_of,
    worker_intervals,
    worker_seconds,
)
from .study_trials import PartOnWorker, best_trials, trials_of
from .traces import threads_of
from .trial_phases import FRAMEWORK, SETUP, clipped
from .trials import FrameworkSpan, ProcessStudies, TrialPart, attribute, has_studies, studies_in
from .usage import Usage, sampled_usage

MOST = 24
"""How many studies of a run are kept: an objective may start one in each trial."""


def studies_of(
    processes: Sequence[ProcessStudies],
    usage: Usage | None = None,
    info: Mapping[str, Any] = MappingProxyType({}),
) -> tuple[Study, ...]:
    """The studies of a run, in the order in which they began.

    ``usage`` is what the run's processes and devices used over time; without it, phases have no usage.
    ``info`` is the run's run.json, which says how the run ended and when its record was collected.
    """
    run_failed = bool(code_of(info.get("exit")))
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
    if studies and len(recorded) <= MOST and (collection := metric_collection(info)) is not None:
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
    parts, workers = study.parts, _workers(study.parts)
    deploys = _deploys(study, previous, last)
    pool = _pool_starts(parts, process_starts, start)
    free_from = {part.process: pool.get(part.process, start) for part in parts}
    setups = _setups(study, workers, free_from, deploys)
    on_workers = [PartOnWorker(*each) for each in zip(parts, workers, setups, strict=True)]
    trials = trials_of(on_workers, start, facts, known_to_framework)
    last_result = max(part.done for part in parts)
    known_at = best_known_at(study, last, following, last_result)
    # Of the parts of a worker, the last one stays: when it was done for good.
    worker_ends = dict(zip(workers, (part.done for part in parts), strict=True))
    around_trials = {
        "deploy": [*times_of(deploys, "deploy"), *((start, end) for end in pool.values())],
        **after_trials(study, known_at, following, evaluated),
    }
    of_workers, seconds = worker_intervals(parts, setups), worker_seconds(parts, setups)
    described = _described(study, facts)
    return Study(
        **described,
        started=start / SECOND,
        seconds=(known_at - start) / SECOND,
        workers=len(set(workers)),
        trials=tuple(trials),
        best=best_trials(trials, described["goals"], facts),
        aborted=run_failed and any(trial.state == "failed" and trial.last for trial in trials),
        in_trials=sum(part.end - part.start for part in parts) / SECOND - seconds[FRAMEWORK],
        in_framework=seconds[FRAMEWORK] + seconds["store"] + seconds[SETUP],
        idle=sum(last_result - end for end in worker_ends.values()) / SECOND,
        phases=phases_of(around_trials, of_workers, len(trials), usage, seconds),
    )


def _deploys(study: RecordedStudy, since: int, until: int) -> list[FrameworkSpan]:
    """The spans that deploy workers, begun from ``since`` to ``until`` in no trial."""
    return [
        span
        for span in study.spans
        if span.region == "deploy"
        and since <= span.start <= until
        and not _in_trial(span, study.parts)
    ]


def _described(study: RecordedStudy, facts: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a :class:`.study.Study` that follow from what is recorded of it as a whole."""
    calls = [span for span in study.spans if span.region == "study"]
    places = [*(call.place for call in calls), *(part.place for part in study.parts)]
    return {
        "framework": study.framework,
        "name": str(facts.get("study") or study.name),
        "goals": tuple(str(goal) for goal in facts.get("goals") or ()),
        **{key: str(facts.get(key) or "") for key in ("metric", "sampler", "pruner")},
        "place": next(filter(None, places), None),
    }


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
    own_calls = ExcludedIntervals(*columns_of(times_of(study.spans, "study")))
    deployed = {
        process: ExcludedIntervals(
            *columns_of(
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
