"""The trials of hyper-parameter studies in one process: when each ran, and what it did meanwhile.

Two sources tell of a trial. Its *record* is an event that a voirfile wrote as the trial ended: its number,
parameters, values and state. Its *call* is a span of the function that ran it. :func:`studies_in` pairs them,
and keeps what is left over of both: a record without a call (a trial between Optuna's ``ask`` and ``tell`` is
no call of any function), and a call without a record (its process was killed before it could write one).

:func:`attribute` then divides the time of each trial into loading, training, validating and the framework's
own work, by what its thread, or its whole process, did in that time.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from ..store.call_sites import CallSite, SourceLine
from ..value_class import field, state_class
from .arrays import ExcludedIntervals, union_of
from .columns import SECOND, RecordedProcess
from .traces import Thread
from .trial_phases import NOTHING_KNOWN, Activity, Segments, divided

CALLS = ("trial", "candidate", "iteration")
"""Regions whose calls are trials, or parts of trials."""
AROUND = ("study", "deploy", "setup", "store", "best", "refit", "undeploy")
"""Regions of a framework's own work outside of trials."""
_Record = tuple[int, Mapping[str, Any]]
"""What a process recorded of a trial, and when, in unix nanoseconds."""
RUNNING = "running"
"""The state of a trial whose end is not recorded."""
_GENERATIONS = 16
"""How many parents of a process are followed to find the trial that it was started from."""


@state_class
class TrialPart:
    """A trial, or a part of one (a fold), that one thread ran. Moments are unix nanoseconds."""

    process: int
    """Index of ``processes`` in run.json."""
    thread: int
    start: int
    end: int
    done: int
    """When its result had been stored as well."""
    facts: Mapping[str, Any]
    """What its record says; ``framework`` alone where it left none."""
    recorded: bool
    """Whether it left a record."""
    place: SourceLine | None
    segments: Segments = field(default_factory=lambda: NOTHING_KNOWN)
    """Set by :func:`attribute`, as ``steps`` are."""
    steps: int = 0


@state_class
class FrameworkSpan:
    """A call of one of the regions :data:`AROUND` trials. Moments are unix nanoseconds."""

    region: str
    process: int
    start: int
    end: int
    framework: str
    label: str
    place: SourceLine | None


@state_class
class ProcessStudies:
    """What one process recorded of studies."""

    process: int
    """Index of ``processes`` in run.json."""
    began: int
    """When the process began, in unix nanoseconds."""
    parts: list[TrialPart] = field(default_factory=list)
    """In the order of their starts."""
    spans: list[FrameworkSpan] = field(default_factory=list)
    facts: list[tuple[int, Mapping[str, Any]]] = field(default_factory=list)
    """What was recorded of whole studies, and when."""
    evaluated: ExcludedIntervals | None = None
    """When any thread evaluated a model; None for a process without threads that have spans."""
    activities: dict[int, Activity] = field(default_factory=dict)
    """What each thread did, by its number."""
    ids: tuple[str, int | None, int | None] = ("", None, None)
    """Its host, its process number there, and its parent's."""


def studies_in(source: RecordedProcess, threads: list[Thread]) -> ProcessStudies:
    """What the process ``source`` recorded of studies, and what its ``threads`` did when."""
    studies = ProcessStudies(source.index, source.began)
    studies.ids = source.host, source.pid, source.ppid
    studies.activities = {thread.number: Activity(thread) for thread in threads}
    ended: dict[int, list[_Record]] = {}
    running: dict[tuple[Any, ...], tuple[int, dict[str, Any]]] = {}
    for moment, data in source.study_events:
        key = identity(data)
        if data.get("state") == RUNNING:
            # Parameters become known one by one, as the trial asks for them.
            since, known = running.get(key, (moment, data))
            params = {**known.get("params", {}), **data.get("params", {})}
            running[key] = since, {**known, "params": params}
        elif "thread" in data:
            since, _ = running.pop(key, (moment, {}))
            if data.get("seconds") is not None:
                # The thread may have been held up between the end of the trial and that of its record.
                seconds = max(float(data["seconds"]), (moment - since) / SECOND)
                data = {**data, "seconds": seconds}
            ended.setdefault(int(data["thread"]), []).append((moment, data))
        else:
            studies.facts.append((moment, data))
    parts: list[TrialPart] = []
    for thread in threads:
        spans = _framework_spans(source, thread)
        parts += _parts_of_thread(source.index, thread, ended.pop(thread.number, []), spans)
        studies.spans += spans
    for number, records in ended.items():  # of threads without spans
        parts += [_part_without_spans(source.index, number, *record) for record in records]
    parts += _never_ended(source, threads, parts, list(running.values()))
    studies.parts = sorted(_joined_across_threads(parts), key=lambda part: part.start)
    if studies.activities:
        studies.evaluated = union_of([each.validates for each in studies.activities.values()])
    return studies


def identity(facts: Mapping[str, Any]) -> tuple[Any, ...]:
    """What distinguishes a trial, or a part of one, from all others."""
    return tuple(facts.get(name) for name in ("framework", "study", "number", "id", "part"))


def has_studies(sources: Iterable[RecordedProcess]) -> bool:
    """Whether any process recorded something about a study."""
    return any(
        source.study_events or any(s.region in ("study", "trial") for s in source.sites.values())
        for source in sources
    )


def attribute(processes: Sequence[ProcessStudies]) -> None:
    """Set ``segments`` and ``steps`` of each trial: what its time is divided into.

    What a trial does is what its thread does. If it is the only one in its process at that time, it is what
    all threads of the process do, and all processes started from there that run no trials themselves: a trial
    may launch a training of its own, or have the workers of a pool do its work.
    """
    with_trials = {
        process.process for process in processes if any(part.recorded for part in process.parts)
    }
    by_ids = {(host, pid): process for process in processes for host, pid, _ in [process.ids]}
    helpers: dict[int, list[list[Activity]]] = {}
    for process in processes:
        # Go up from parent to parent to the first that runs trials. A record may be damaged so that
        # parents form a circle, hence the limit.
        ancestor, left = process, _GENERATIONS if process.process not in with_trials else 0
        while left and ancestor.process not in with_trials:
            ancestor, left = by_ids.get((ancestor.ids[0], ancestor.ids[2]), ancestor), left - 1
        if ancestor is not process and ancestor.process in with_trials:
            helpers.setdefault(ancestor.process, []).append(list(process.activities.values()))
    for process in processes:
        everything = [list(process.activities.values()), *helpers.get(process.process, [])]
        for part, alone in zip(process.parts, _alone(process.parts), strict=True):
            own = [a for thread, a in process.activities.items() if thread == part.thread]
            part.segments, part.steps = divided(
                everything if alone else [own], part.start, part.end
            )


def _joined_across_threads(parts: list[TrialPart]) -> list[TrialPart]:
    """Join a call with the record of the same trial that another thread wrote.

    One thread may run a trial and another one end it. What the trial did is then what the thread of the call
    did, so the recorded part gets that thread, and the call is left out.
    """
    joined = [part for part in parts if part.recorded]
    recorded: dict[str, list[TrialPart]] = {}
    for part in joined:
        recorded.setdefault(part.facts["framework"], []).append(part)
    for call in parts:
        if call.recorded:
            continue
        # Neither has a number to compare: it is the same trial if they share most of the call's time.
        same = next(
            (
                part
                for part in recorded.get(call.facts["framework"], ())
                if part.thread != call.thread
                and 2 * (min(part.end, call.end) - max(part.start, call.start))
                > call.end - call.start
            ),
            None,
        )
        if same is None:
            joined.append(call)
        else:
            same.thread, same.start, same.place = call.thread, call.start, call.place or same.place
            same.end, same.done = min(same.end, call.end), max(same.done, call.end)
    return joined


def _alone(parts: Sequence[TrialPart]) -> list[bool]:
    """For each of ``parts``, in order of their starts: did no other recorded trial run at the same time?"""
    alone, latest_end = [], 0
    starts = [part.start for part in parts if part.recorded]
    at = 0
    for part in parts:
        at += part.recorded
        next_start = starts[at] if at < len(starts) else part.end
        alone.append(latest_end <= part.start and next_start >= part.end)
        if part.recorded:
            latest_end = max(latest_end, part.end)
    return alone


def framework_of(site: CallSite) -> str:
    """The framework that a call site belongs to: its label, or the package of the function."""
    if site.region == "trial":
        return site.label or "study"
    if site.region == "candidate":
        return "sklearn"
    if site.region == "iteration":
        return "ray"
    return (site.selector or "").strip("/").split("/")[0].split(".")[0]


def _framework_spans(source: RecordedProcess, thread: Thread) -> list[FrameworkSpan]:
    track = thread.track
    return [
        FrameworkSpan(
            (site := track.sites[int(track.site[row])]).region, source.index,
            int(track.start[row]), int(track.end[row]), framework_of(site), site.label or "",
            site.place,
        )
        for row in track.where(lambda site: site.region in AROUND).tolist()
    ]  # fmt: skip


def _parts_of_thread(
    process: int, thread: Thread, records: list[_Record], spans: list[FrameworkSpan]
) -> list[TrialPart]:
    """The trials of a thread: those with a record, then calls without one.

    ``records`` are of trials that ended in this thread; ``spans`` are the framework's calls there, in the
    order of their starts.
    """
    track = thread.track
    calls = _Calls(thread)
    stores = [span for span in spans if span.region == "store"]
    store_starts = [span.start for span in stores]
    parts = []
    for moment, data in sorted(records, key=lambda record: record[0]):
        # A record with a duration says itself when its trial began; else its call does.
        if data.get("seconds") is None:
            row = calls.take_before(moment)
            if row is None:
                continue
            start, done = int(track.start[row]), int(track.end[row])
        else:
            start, done = moment - round(float(data["seconds"]) * SECOND), moment
            row = calls.take_around(start)
        # The record is written while the result is stored: the trial itself ended before that.
        before = bisect_left(store_starts, moment) - 1
        store = stores[before] if before >= 0 and store_starts[before] >= start else None
        place = track.sites[int(track.site[row])].place if row is not None else None
        if store is None:
            end = done
        else:
            place, end, done = place or store.place, min(done, store.start), max(done, store.end)
        parts.append(TrialPart(process, thread.number, start, end, done, data, True, place))
    for row in calls.rows[calls.free].tolist():
        site = track.sites[int(track.site[row])]
        start, end = int(track.start[row]), int(track.end[row])
        facts = {"framework": framework_of(site)}
        parts.append(TrialPart(process, thread.number, start, end, end, facts, False, site.place))
    return parts


class _Calls:
    """The calls of trials in a thread. Each is free until a record takes it."""

    def __init__(self, thread: Thread) -> None:
        self.track = thread.track
        self.rows = self.track.where(lambda site: site.region in CALLS)
        self.starts = self.track.start[self.rows]
        self.free = np.ones(len(self.rows), np.bool_)

    def take_before(self, moment: int) -> int | None:
        """The row of the last free call that began before ``moment``."""
        at = int(np.searchsorted(self.starts, moment)) - 1
        while at >= 0 and not self.free[at]:
            at -= 1
        return self._take(at)

    def take_around(self, moment: int) -> int | None:
        """The row of the last call that began before ``moment``, if it is free and went on until then."""
        at = int(np.searchsorted(self.starts, moment)) - 1
        # One that had ended is of an earlier trial: what lies between `ask` and `tell` is no call.
        if at < 0 or not self.free[at] or self.track.end[self.rows[at]] < moment:
            return None
        return self._take(at)

    def _take(self, at: int) -> int | None:
        if at < 0:
            return None
        self.free[at] = False
        return int(self.rows[at])


def _never_ended(
    source: RecordedProcess,
    threads: list[Thread],
    parts: list[TrialPart],
    running: list[tuple[int, dict[str, Any]]],
) -> list[TrialPart]:
    """Trials that were ``running`` when their process wrote its last record.

    Where one of ``parts`` is the call of such a trial, it gets what is known of the trial instead.
    """
    unfinished = []
    for moment, data in running:
        number = int(data.get("thread", 0))
        call = next(
            (
                part
                for part in parts
                if not part.recorded
                and part.thread == number
                and part.start <= moment <= part.end
                and "number" not in part.facts
            ),
            None,
        )
        if call is not None:
            call.facts = {**call.facts, **data, "state": "failed"}
            continue
        error, end = "it left no result", moment
        if source.ended is None:
            # The latest span of any thread is the best estimate of when the process died.
            ends = [int(thread.track.end.max()) for thread in threads if len(thread.track.end)]
            error, end = "it went on when its process died", max(moment, *ends, 0)
        data = {**data, "error": error}
        unfinished.append(TrialPart(source.index, number, moment, end, end, data, True, None))
    return unfinished


def _part_without_spans(
    process: int, thread: int, moment: int, data: Mapping[str, Any]
) -> TrialPart:
    """A trial of which its record at ``moment`` is all that is known."""
    start = moment - round(float(data.get("seconds") or 0.0) * SECOND)
    return TrialPart(process, thread, start, moment, moment, data, True, None)
