"""The wall time of a run, divided: nothing unobserved disappears."""

from __future__ import annotations

import numpy as np

from ..store.call_sites import INFERENCE, CallSite, SourceLine
from ..store.spans import unpack
from ..value_class import replace, state_class
from .arrays import ExcludedIntervals, among, counts, kinds_of, merged, owners
from .columns import SECOND, Ints, RecordedProcess
from .evaluation import Passes
from .profile import TimeSegment
from .traces import LoopTrace, Thread
from .tracks import LAYERS
from .wording import line_of

NAMED = ("checkpoint", "logging")
"""Regions that are time segments of their own where they lie between steps."""
CALLBACK = "callback"
"""A region that is one, without those in it."""
GAPS = 5
"""Kinds of gaps that are kept apart; what is left is one more."""


@state_class
class Sum:
    """Stretches of one kind."""

    name: str
    note: str
    place: SourceLine | None
    first: int
    """When the first of them began, unix nanoseconds."""
    ns: int = 0
    times: int = 0


def segments_of(
    traces: list[LoopTrace],
    passes: Passes,
    between: list[Sum],
    span: tuple[int, int],
    run: tuple[int, int],
    warmups: list[int],
) -> tuple[TimeSegment, ...]:
    """The time of the ``run`` (its begin and end, unix nanoseconds) as one track spent it.

    ``span`` is when its first step or evaluation began and its last one ended; ``between`` what
    :func:`between_them` found; ``warmups`` how many steps of each trace are warm-up.
    """
    excluded = passes.excluded()
    found = list(between)
    for trace, warmup in zip(traces, warmups, strict=True):
        found += _training(trace, excluded, warmup)
    found.sort(key=lambda each: each.first)
    inner = [TimeSegment(each.name, each.ns / SECOND, each.note, each.place) for each in found]
    return (
        TimeSegment("start-up", (span[0] - run[0]) / SECOND, "before the first step or evaluation"),
        *(each for each in inner if each.seconds > 0),
        TimeSegment("shutdown", (run[1] - span[1]) / SECOND, "after the last step or evaluation"
                    if all(each.name not in NAMED for each in found)
                    else "after the last step, evaluation or checkpoint"),
    )  # fmt: skip


def among_attempts(
    found: tuple[TimeSegment, ...],
    source: RecordedProcess,
    last: int,
    run: tuple[int, int],
    later: bool,
) -> tuple[TimeSegment, ...]:
    """``found``, of a process ``source`` that is one of several attempts and made its last step at ``last``.

    What the others took is not its start-up, nor its shutdown; ``later`` says whether some came later.
    Processes that no launcher has numbered are named by their index.
    """
    who = f"process {source.index}" if source.attempt is None else f"attempt {source.attempt}"
    others = "other processes" if source.attempt is None else "other attempts"
    before = max((source.began - run[0]) / SECOND, 0.0)
    after = max((run[1] - max(source.ended or 0, last)) / SECOND, 0.0) if later else 0.0
    begin, *inner, end = found
    parts = (
        TimeSegment(others, before, f"before {who}"),
        replace(begin, seconds=begin.seconds - before),
        *inner,
        replace(end, seconds=end.seconds - after),
        TimeSegment(others, after, f"after {who}"),
    )
    return tuple(part for part in parts if part.seconds)


def between_them(thread: Thread) -> tuple[list[Sum], tuple[int, int]]:
    """What a track did outside of steps, and when its first step or evaluation began and the last ended."""
    steps, passes = thread.steps, thread.passes
    covered = ExcludedIntervals(np.concatenate((steps.start, passes.start)),
                    np.concatenate((steps.end, passes.end)))  # fmt: skip
    if not len(covered):
        return [], (0, 0)
    named, covered = _named(thread, covered)
    span = int(covered.start[0]), int(covered.end[-1])
    return [*_evaluation(thread), *named, *_gaps(thread, covered)], span


def _named(thread: Thread, covered: ExcludedIntervals) -> tuple[list[Sum], ExcludedIntervals]:
    """What is no gap since it has a name, by its line; and what is ``covered`` with that.

    What comes before the first step or evaluation is start-up.
    """
    track = thread.track
    callbacks = track.region(CALLBACK)
    rows = merged(track.region(*NAMED), callbacks)
    rows = rows[(track.start[rows] >= covered.start[0]) & ~covered.hold(track.start[rows])]
    if not len(rows):
        return [], covered
    start, end = track.start[rows], track.end[rows]
    end = np.minimum(
        end, np.append(covered.start, end.max())[np.searchsorted(covered.start, start)]
    )
    length = end - start
    outer = np.isin(rows, callbacks)
    inner = ExcludedIntervals(start[~outer], end[~outer])
    length[outer] -= inner.within(start[outer], end[outer])
    found: dict[tuple[str, SourceLine | None], Sum] = {}
    for row, begin, ns in zip(rows.tolist(), start.tolist(), length.tolist(), strict=True):
        site = track.sites[int(track.site[row])]
        each = found.setdefault((site.region, site.place), Sum(site.region, "", site.place, begin))
        each.ns += ns
        each.times += 1
    for each in found.values():
        each.note = f"{each.times} {'call' if each.times == 1 else 'calls'}"
    whole = np.concatenate((covered.start, start)), np.concatenate((covered.end, end))
    return list(found.values()), ExcludedIntervals(*whole)


def _training(trace: LoopTrace, excluded: ExcludedIntervals, warmup: int) -> list[Sum]:
    length = trace.end - trace.start - excluded.within(trace.start, trace.end)
    name = INFERENCE if trace.source.infers else "training"
    found = []
    if warmup:
        note = f"{warmup} {'step' if warmup == 1 else 'steps'}"
        found.append(Sum("warm-up", note, trace.pace.place, int(trace.start[0]),
                          int(length[:warmup].sum())))  # fmt: skip
    if len(length) > warmup:
        number = len(length) - warmup
        note = f"{number} {'step' if number == 1 else 'steps'}"
        found.append(Sum(name, note, trace.pace.place, int(trace.start[warmup]),
                          int(length[warmup:].sum())))  # fmt: skip
    return found


def _evaluation(thread: Thread) -> list[Sum]:
    found: dict[SourceLine | None, Sum] = {}
    passes = thread.passes
    for site in kinds_of(passes.site):
        mine = passes.site == site
        place = thread.track.sites[site].place
        each = found.setdefault(place, Sum("evaluation", "", place, int(passes.start[mine][0])))
        each.first = min(each.first, int(passes.start[mine][0]))
        each.ns += int((passes.end[mine] - passes.start[mine]).sum())
        each.times += int(mine.sum())
    for each in found.values():
        each.note = f"{each.times} {'pass' if each.times == 1 else 'passes'}"
    return list(found.values())


def _gaps(thread: Thread, covered: ExcludedIntervals) -> list[Sum]:
    """Time between steps and evaluations that is neither, by the lines around it."""
    start, end = covered.end[:-1], covered.start[1:]
    if not len(start):
        return []
    track = thread.track
    # A layer lies in a region, whose line says more.
    rows = np.flatnonzero(~track.flags(lambda site: site.region in LAYERS))
    begun = track.start[rows]
    before = rows[np.maximum(np.searchsorted(begun, start, side="left") - 1, 0)]
    after = rows[np.minimum(np.searchsorted(begun, end, side="left"), len(rows) - 1)]
    calls = counts(track.start[_playing(thread)], start, end) > 0
    loose = {i for i, pace in enumerate(thread.steps.paces) if pace.paced_by == "optimizer"}
    following = np.searchsorted(thread.steps.start, end)
    paced = among(thread.steps.pace, loose)
    played = calls & np.concatenate((paced, [False]))[following]
    kind = np.stack((track.site[before], track.site[after],
                     played.astype(np.int64)), axis=1)  # fmt: skip
    kinds, which = np.unique(kind, axis=0, return_inverse=True)
    which = which.reshape(-1)
    sums: list[Sum] = []
    for number, (one, two, rollout) in enumerate(kinds.tolist()):
        mine = which == number
        sites = track.sites[one], track.sites[two]
        note = f"rollout, {_between(*sites)}" if rollout else _between(*sites)
        sums.append(Sum("gap", note, sites[0].place, int(start[mine][0]),
                         int((end[mine] - start[mine]).sum()), int(mine.sum())))  # fmt: skip
    sums.sort(key=lambda each: -each.ns)
    rest = sums[GAPS:]
    if len(rest) > 1:
        note = f"{sum(each.times for each in rest)} others"
        first = min(each.first for each in rest)
        sums[GAPS:] = [Sum("gap", note, None, first, sum(each.ns for each in rest))]
    return sums


def _playing(thread: Thread) -> Ints:
    """The calls of models by which an agent plays in its environment, and the environment's own.

    It plays before it is trained for the first time, and sees less in one call than it is trained with.
    """
    track, marks = thread.track, thread.marks
    found = [track.region("env")]
    trained = marks.trained if len(marks.trained) else marks.learnt
    usual = np.median(unpack(track.payload[trained])[0]) if len(trained) else 0
    first = track.start[marks.updates[0]] if len(marks.updates) else 0
    for site in kinds_of(track.site[marks.forward]):
        rows = marks.forward[track.site[marks.forward] == site]
        outside = owners(thread.steps.start, thread.steps.end, track.start[rows]) < 0
        seen = np.median(unpack(track.payload[rows])[0])
        if track.start[rows[0]] < first and seen < usual and outside.mean() > 0.5:
            found.append(rows)
    return merged(*found)


def _between(one: CallSite, two: CallSite) -> str:
    return f"between {named(one)} and {named(two)}"


def named(site: CallSite) -> str:
    """``forward (train.py:30)``."""
    return f"{site.region} ({line_of(site.place)})" if site.place else site.region
