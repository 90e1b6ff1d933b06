"""The trials of hyper-parameter studies in one process: when each ran, and what it did meanwhile."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from ..store.call_sites import CallSite, SourceLine
from ..value_class import field, state_class
from .arrays import ExcludedIntervals, counts, distinct
from .columns import SECOND, Ints, RecordedProcess, evaluates
from .traces import Thread
from .tracks import STRUCTURE

CALLS = ("trial", "candidate", "iteration")
"""Regions whose calls are trials, or parts of one."""
AROUND = ("study", "deploy", "setup", "store", "best", "refit", "undeploy")
"""Regions of a framework's own work, outside of trials."""
WITHIN = ("suggest", "prune", "report")
"""Regions of a framework's own work in a trial."""
TRAINING = ("fit", "train")
"""Regions that train, besides steps."""
RUNNING = "running"
"""The state of a trial whose end is not recorded."""
LOAD, TRAIN, VALIDATE, FRAMEWORK, OTHER, SETUP = PHASES = (
    "load", "train", "validate", "framework", "other", "setup"
)  # fmt: skip
"""What the time of a worker is made of."""


@state_class
class Segments:
    """Pieces of time of one worker, and which of PHASES each is; unix nanoseconds."""

    start: Ints
    end: Ints
    phase: npt.NDArray[np.int8]

    def seconds(self) -> dict[str, float]:
        """By phase."""
        length = (self.end - self.start) / SECOND
        return dict(zip(PHASES, np.bincount(self.phase, length, len(PHASES)).tolist(), strict=True))


NOTHING_KNOWN = Segments(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.int8))
_GENERATIONS = 16
"""Processes between a trial's and one that was started from there, at most."""


@state_class
class TrialPart:
    """A trial, or a part of one (a fold), that one thread ran. Unix nanoseconds."""

    process: int
    """Index of ``processes`` in run.json."""
    thread: int
    start: int
    end: int
    done: int
    """When its result was stored, too."""
    facts: Mapping[str, Any]
    """What its record says; ``framework`` alone where it left none."""
    recorded: bool
    """Whether it left a record."""
    place: SourceLine | None
    segments: Segments = field(default_factory=lambda: NOTHING_KNOWN)
    """Empty before :func:`attribute`, as ``steps`` are 0."""
    steps: int = 0


@state_class
class FrameworkSpan:
    """A call of a framework's own, of :data:`AROUND`. Unix nanoseconds."""

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
    """When the process did; unix nanoseconds."""
    parts: list[TrialPart] = field(default_factory=list)
    spans: list[FrameworkSpan] = field(default_factory=list)
    facts: list[tuple[int, Mapping[str, Any]]] = field(default_factory=list)
    """What was recorded of whole studies, and when."""
    evaluated: ExcludedIntervals | None = None
    """When anything was evaluated."""
    activities: dict[int, Activity] = field(default_factory=dict)
    """By thread."""
    ids: tuple[str, int | None, int | None] = ("", None, None)
    """Its host, its own number there, and its parent's."""


def studies_in(source: RecordedProcess, threads: list[Thread]) -> ProcessStudies:
    """What a process of a run with studies recorded of them, and what it did."""
    found = ProcessStudies(source.index, source.began)
    found.ids = source.host, source.pid, source.ppid
    found.activities = {each.number: Activity(each) for each in threads}
    ended: dict[int, list[tuple[int, Mapping[str, Any]]]] = {}
    running: dict[tuple[Any, ...], tuple[int, dict[str, Any]]] = {}
    """Trials that have begun: when, and what is known of them."""
    for moment, data in source.study_events:
        key = identity(data)
        if data.get("state") == RUNNING:
            since, known = running.get(key, (moment, data))
            params = {**known.get("params", {}), **data.get("params", {})}
            running[key] = since, {**known, "params": params}
        elif "thread" in data:
            running.pop(key, None)
            ended.setdefault(int(data["thread"]), []).append((moment, data))
        else:
            found.facts.append((moment, data))
    parts: list[TrialPart] = []
    for thread in threads:
        spans = _framework_spans(source, thread)
        parts += _parts(source.index, thread, ended.pop(thread.number, []), spans)
        found.spans += spans
    for number, rest in ended.items():  # a thread without spans
        parts += [_untraced(source.index, number, moment, data) for moment, data in rest]
    parts += _left(source, threads, parts, list(running.values()))
    found.parts = sorted(_joined(parts), key=lambda part: part.start)
    if found.activities:
        found.evaluated = _union([each.validates for each in found.activities.values()])
    return found


def identity(facts: Mapping[str, Any]) -> tuple[Any, ...]:
    """What tells a trial, or a part of one, from others."""
    return tuple(facts.get(name) for name in ("framework", "study", "number", "id", "part"))


def has_studies(sources: Iterable[RecordedProcess]) -> bool:
    """Whether any process recorded something of a study."""
    return any(
        source.study_events or any(s.region in ("study", "trial") for s in source.sites.values())
        for source in sources
    )


def attribute(found: Sequence[ProcessStudies]) -> None:
    """Say of each trial what its time is made of.

    That is what its thread did; of a trial that is the only one in its process at that time, what all
    threads did, and processes that have been started from there, but for those that run trials themselves.
    """
    running = {each.process for each in found if any(part.recorded for part in each.parts)}
    by_ids = {(host, pid): each for each in found for host, pid, _ in [each.ids]}
    helpers: dict[int, list[list[Activity]]] = {}
    for each in found:
        above, left = each, _GENERATIONS if each.process not in running else 0
        while left and above.process not in running:
            above, left = by_ids.get((above.ids[0], above.ids[2]), above), left - 1
        if above is not each and above.process in running:
            helpers.setdefault(above.process, []).append(list(each.activities.values()))
    for each in found:
        everything = [list(each.activities.values()), *helpers.get(each.process, [])]
        for part, alone in zip(each.parts, _alone(each.parts), strict=True):
            own = [a for thread, a in each.activities.items() if thread == part.thread]
            part.segments, part.steps = _segments(
                everything if alone else [own], part.start, part.end
            )


def _joined(calls: list[TrialPart]) -> list[TrialPart]:
    """``calls``, of which those that left no record are left out where another thread recorded that trial.

    So it is where one thread runs a trial and another one ends it: what it did is that of the former.
    """
    found = [call for call in calls if call.recorded]
    recorded: dict[str, list[TrialPart]] = {}
    for call in found:
        recorded.setdefault(call.facts["framework"], []).append(call)
    for call in calls:
        if call.recorded:
            continue
        same = [
            each
            for each in recorded.get(call.facts["framework"], ())
            if each.thread != call.thread
            and 2 * (min(each.end, call.end) - max(each.start, call.start)) > call.end - call.start
        ]
        if not same:
            found.append(call)
        for each in same[:1]:
            each.thread, each.start, each.place = call.thread, call.start, call.place or each.place
            each.end, each.done = min(each.end, call.end), max(each.done, call.end)
    return found


def _alone(calls: Sequence[TrialPart]) -> list[bool]:
    """Of each of ``calls``, in order, whether no other recorded trial ran at the same time."""
    found, latest = [], 0
    begins = [call.start for call in calls if call.recorded]
    at = 0
    for call in calls:
        at += call.recorded
        following = begins[at] if at < len(begins) else call.end
        found.append(latest <= call.start and following >= call.end)
        if call.recorded:
            latest = max(latest, call.end)
    return found


def framework_of(site: CallSite) -> str:
    """The framework whose call it is: its label, or the package of the function."""
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


def _parts(
    process: int,
    thread: Thread,
    ended: list[tuple[int, Mapping[str, Any]]],
    spans: list[FrameworkSpan],
) -> list[TrialPart]:
    """The trials of a thread: those that left a record, then calls that left none."""
    track = thread.track
    rows = track.where(lambda site: site.region in CALLS)
    starts, free = track.start[rows], np.ones(len(rows), np.bool_)
    stored = [each for each in spans if each.region == "store"]  # in the order of their starts
    stores = [each.start for each in stored]
    made = []
    for moment, data in sorted(ended, key=lambda each: each[0]):
        seconds = data.get("seconds")
        since = moment if seconds is None else moment - round(float(seconds) * SECOND)
        at = int(np.searchsorted(starts, since)) - 1
        while seconds is None and at >= 0 and not free[at]:
            at -= 1
        row = int(rows[at]) if at >= 0 and free[at] else None
        if row is not None and seconds is not None and track.end[row] < since:
            row = None  # an earlier one: what lies between `ask` and `tell` is no call
        if row is None and seconds is None:
            continue
        if row is not None:
            free[at] = False
        start = int(track.start[row]) if seconds is None and row is not None else since
        before = bisect_left(stores, moment) - 1
        last = stored[before] if before >= 0 and stores[before] >= start else None
        done = moment if row is None or seconds is not None else int(track.end[row])
        end = min(done, last.start) if last else done
        place = track.sites[int(track.site[row])].place if row is not None else None
        place = place or (last.place if last else None)
        done = max(done, last.end if last else done)
        made.append(TrialPart(process, thread.number, start, end, done, data, True, place))
    for row in rows[free].tolist():
        site, start, end = track.sites[int(track.site[row])], track.start[row], track.end[row]
        facts, done = {"framework": framework_of(site)}, int(end)
        made.append(
            TrialPart(process, thread.number, int(start), done, done, facts, False, site.place)
        )
    return made


def _left(
    source: RecordedProcess,
    threads: list[Thread],
    parts: list[TrialPart],
    running: list[tuple[int, dict[str, Any]]],
) -> list[TrialPart]:
    """Trials that went on when their process recorded its last; what is known of a call that left no result
    is added to it.
    """
    found = []
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
            last = [int(each.track.end.max()) for each in threads if len(each.track.end)]
            error, end = "it went on when its process died", max(moment, *last, 0)
        data = {**data, "error": error}
        found.append(TrialPart(source.index, number, moment, end, end, data, True, None))
    return found


def _untraced(process: int, thread: int, moment: int, data: Mapping[str, Any]) -> TrialPart:
    start = moment - round(float(data.get("seconds") or 0.0) * SECOND)
    return TrialPart(process, thread, start, moment, moment, data, True, None)


class Activity:
    """When a thread trained, evaluated, and was busy in a framework."""

    def __init__(self, thread: Thread) -> None:
        track, steps, passes = thread.track, thread.steps, thread.passes
        trains = track.where(lambda site: site.region in TRAINING and not evaluates(site))
        tried = track.where(lambda site: site.phase == "eval" and site.region not in STRUCTURE)
        self.trains = ExcludedIntervals(
            np.concatenate((steps.start, track.start[trains])),
            np.concatenate((steps.end, track.end[trains])),
        )
        self.validates = ExcludedIntervals(
            np.concatenate((passes.start, track.start[tried])),
            np.concatenate((passes.end, track.end[tried])),
        )
        busy = track.where(lambda site: site.region in WITHIN)
        self.framework = ExcludedIntervals(track.start[busy], track.end[busy])
        self.steps = steps.start


def _union(parts: list[ExcludedIntervals]) -> ExcludedIntervals:
    if len(parts) == 1:
        return parts[0]
    return ExcludedIntervals(
        np.concatenate([each.start for each in parts]), np.concatenate([each.end for each in parts])
    )


def clipped(found: ExcludedIntervals, start: int, end: int) -> tuple[Ints, Ints]:
    """The intervals of ``found`` between two moments, where they begin and end there."""
    first = int(np.searchsorted(found.end, start, side="right"))
    last = int(np.searchsorted(found.start, end))
    return np.maximum(found.start[first:last], start), np.minimum(found.end[first:last], end)


def _segments(
    processes: Sequence[Sequence[Activity]], start: int, end: int
) -> tuple[Segments, int]:
    """What the time from ``start`` to ``end`` is made of, by what the threads of ``processes`` did, and how
    many steps began in it, in the process with most.

    The framework's own work counts before evaluation, and that before training. What comes before the first
    of these two is loading; where there is neither, nothing is known of the rest.
    """
    seen = [each for process in processes for each in process]
    kinds = {
        FRAMEWORK: [each.framework for each in seen],
        VALIDATE: [each.validates for each in seen],
        TRAIN: [each.trains for each in seen],
    }
    known = {}
    for name, parts in kinds.items():
        pieces = [clipped(each, start, end) for each in parts]
        if some := [ExcludedIntervals(*each) for each in pieces if len(each[0])]:
            known[name] = _union(some)
    moments = [
        np.array([start, end]),
        *(m for each in known.values() for m in (each.start, each.end)),
    ]
    edges = distinct(np.concatenate(moments))
    phase = np.full(max(len(edges) - 1, 0), PHASES.index(OTHER), np.int8)
    left = edges[:-1]
    begins = [int(known[name].start[0]) for name in (TRAIN, VALIDATE) if name in known]
    if begins:
        phase[left < min(begins)] = PHASES.index(LOAD)
    for name in (TRAIN, VALIDATE, FRAMEWORK):
        if name in known:
            phase[known[name].hold(left)] = PHASES.index(name)
    whole = np.array([start]), np.array([end])
    steps = max(
        (sum(int(counts(each.steps, *whole)[0]) for each in process) for process in processes),
        default=0,
    )
    return Segments(left, edges[1:], phase), steps
