"""The wall time of a run as time segments, which add up to it: nothing unobserved disappears.

One track stands for the run, the first rank's of the longest loop::

    | start-up | warm-up | training ... | evaluation | training ... | checkpoint | gap | ... | shutdown |
    run begins ^         ^ first step                                              last one ends ^

Segments of one kind at one line are summed: :func:`between_them` finds those outside of steps while the
spans are there, :func:`segments_of` adds the steps later.
"""

from __future__ import annotations

import numpy as np

from ..store.call_sites import INFERENCE, CallSite, SourceLine
from ..store.spans import unpack
from ..value_class import replace, state_class
from .arrays import ExcludedIntervals, among, counts, kinds_of, merged, owners, union_of
from .columns import SECOND, Ints, RecordedProcess
from .evaluation import Passes
from .profile import TimeSegment
from .traces import LoopTrace, Thread
from .tracks import LAYERS
from .wording import count, line_of

NAMED = ("checkpoint", "logging")
"""Regions that are time segments of their own if they lie between steps."""
CALLBACK = "callback"
"""A region that is one too, without the regions above that lie in it."""
GAPS = 5
"""Kinds of gaps that are kept apart; all others are one more."""


@state_class
class Sum:
    """All time segments of one kind, at one line."""

    name: str
    note: str
    place: SourceLine | None
    first: int
    """When the first of them began, unix nanoseconds."""
    ns: int = 0
    """Nanoseconds of all of them."""
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

    ``between`` and ``span`` are what :func:`between_them` returned. ``warmups`` has the number of warm-up
    steps of each trace.
    """
    excluded = passes.excluded()
    sums = list(between)
    for trace, warmup in zip(traces, warmups, strict=True):
        sums += _training_sums(trace, excluded, warmup)
    sums.sort(key=lambda each: each.first)
    inner = [TimeSegment(each.name, each.ns / SECOND, each.note, each.place) for each in sums]
    # The sums cover the span. What is left of the run lies before and after it.
    return (
        TimeSegment("start-up", (span[0] - run[0]) / SECOND, "before the first step or evaluation"),
        *(each for each in inner if each.seconds > 0),
        TimeSegment("shutdown", (run[1] - span[1]) / SECOND, "after the last step or evaluation"
                    if all(each.name not in NAMED for each in sums)
                    else "after the last step, evaluation or checkpoint"),
    )  # fmt: skip


def among_attempts(
    segments: tuple[TimeSegment, ...],
    source: RecordedProcess,
    last: int,
    run: tuple[int, int],
    later: bool,
) -> tuple[TimeSegment, ...]:
    """``segments`` of one of several attempts, with the time that the other attempts took.

    That is neither its start-up nor its shutdown. ``source`` is its process, ``last`` when it made its last
    step, and ``later`` says whether some attempts came after it. A process that no launcher has numbered is
    named by its index.
    """
    name = f"process {source.index}" if source.attempt is None else f"attempt {source.attempt}"
    others = "other processes" if source.attempt is None else "other attempts"
    before = max((source.began - run[0]) / SECOND, 0.0)
    after = max((run[1] - max(source.ended or 0, last)) / SECOND, 0.0) if later else 0.0
    begin, *inner, end = segments
    # Before and after it, the run's time belongs to the others.
    parts = (
        TimeSegment(others, before, f"before {name}"),
        replace(begin, seconds=begin.seconds - before),
        *inner,
        replace(end, seconds=end.seconds - after),
        TimeSegment(others, after, f"after {name}"),
    )
    return tuple(part for part in parts if part.seconds)


def between_them(thread: Thread) -> tuple[list[Sum], tuple[int, int]]:
    """What a track did outside of steps, by kind and line, and its span.

    The span is from the begin of its first step or evaluation to the end of its last one; (0, 0) without any.
    """
    steps, passes = thread.steps, thread.passes
    covered = union_of([steps, passes])
    if not len(covered):
        return [], (0, 0)
    named, covered = _named_regions(thread, covered)
    # With the named regions: a checkpoint after the last step is no shutdown.
    span = int(covered.start[0]), int(covered.end[-1])
    return [*_evaluation_sums(thread), *named, *_gap_sums(thread, covered)], span


def _named_regions(
    thread: Thread, covered: ExcludedIntervals
) -> tuple[list[Sum], ExcludedIntervals]:
    """Regions outside of steps that have names of their own, by line, and all intervals that have.

    The latter are ``covered`` and those regions. What comes before the first step or evaluation is start-up.
    """
    track = thread.track
    callbacks = track.region(CALLBACK)
    rows = merged(track.region(*NAMED), callbacks)
    rows = rows[(track.start[rows] >= covered.start[0]) & ~covered.hold(track.start[rows])]
    if not len(rows):
        return [], covered
    start, end = track.start[rows], track.end[rows]
    # Only up to the next step: a callback may hold an evaluation, say.
    end = np.minimum(
        end, np.append(covered.start, end.max())[np.searchsorted(covered.start, start)]
    )
    nanoseconds = end - start
    is_callback = np.isin(rows, callbacks)
    named_intervals = ExcludedIntervals(start[~is_callback], end[~is_callback])
    nanoseconds[is_callback] -= named_intervals.within(start[is_callback], end[is_callback])
    sums: dict[tuple[str, SourceLine | None], Sum] = {}
    for row, begin, ns in zip(rows.tolist(), start.tolist(), nanoseconds.tolist(), strict=True):
        site = track.sites[int(track.site[row])]
        each = sums.setdefault((site.region, site.place), Sum(site.region, "", site.place, begin))
        each.ns += ns
        each.times += 1
    for each in sums.values():
        each.note = count(each.times, "call")
    both = np.concatenate((covered.start, start)), np.concatenate((covered.end, end))
    return list(sums.values()), ExcludedIntervals(*both)


def _training_sums(trace: LoopTrace, excluded: ExcludedIntervals, warmup: int) -> list[Sum]:
    """The warm-up and the other steps of one loop."""
    nanoseconds = trace.end - trace.start - excluded.within(trace.start, trace.end)
    name = INFERENCE if trace.source.infers else "training"
    sums = []
    if warmup:
        sums.append(Sum("warm-up", count(warmup, "step"), trace.pace.place, int(trace.start[0]),
                        int(nanoseconds[:warmup].sum())))  # fmt: skip
    if len(nanoseconds) > warmup:
        steps = count(len(nanoseconds) - warmup, "step")
        sums.append(Sum(name, steps, trace.pace.place, int(trace.start[warmup]),
                        int(nanoseconds[warmup:].sum())))  # fmt: skip
    return sums


def _evaluation_sums(thread: Thread) -> list[Sum]:
    """Evaluations, by line."""
    sums: dict[SourceLine | None, Sum] = {}
    passes = thread.passes
    for site in kinds_of(passes.site):
        of_site = passes.site == site
        place = thread.track.sites[site].place
        # Data sets that are read at one line are one segment.
        each = sums.setdefault(place, Sum("evaluation", "", place, int(passes.start[of_site][0])))
        each.first = min(each.first, int(passes.start[of_site][0]))
        each.ns += int((passes.end[of_site] - passes.start[of_site]).sum())
        each.times += int(of_site.sum())
    for each in sums.values():
        each.note = f"{each.times} {'pass' if each.times == 1 else 'passes'}"
    return list(sums.values())


def _gap_sums(thread: Thread, covered: ExcludedIntervals) -> list[Sum]:
    """Time between steps and evaluations that is none of them, by the lines before and after it."""
    start, end = covered.end[:-1], covered.start[1:]
    if not len(start):
        return []
    track = thread.track
    # Not by layers: each lies in a region, whose line says more.
    rows = np.flatnonzero(~track.flags(lambda site: site.region in LAYERS))
    begins = track.start[rows]
    before = rows[np.maximum(np.searchsorted(begins, start, side="left") - 1, 0)]
    after = rows[np.minimum(np.searchsorted(begins, end, side="left"), len(rows) - 1)]
    # A gap before steps that updates pace, in which an agent plays, is a rollout.
    calls = counts(track.start[_playing(thread)], start, end) > 0
    by_updates = {i for i, pace in enumerate(thread.steps.paces) if pace.paced_by == "optimizer"}
    next_step = np.searchsorted(thread.steps.start, end)
    is_by_updates = among(thread.steps.pace, by_updates)
    played = calls & np.concatenate((is_by_updates, [False]))[next_step]
    kind = np.stack((track.site[before], track.site[after],
                     played.astype(np.int64)), axis=1)  # fmt: skip
    # By the call sites on both sides, and whether an agent plays in between.
    kinds, kind_of = np.unique(kind, axis=0, return_inverse=True)
    kind_of = kind_of.reshape(-1)
    sums: list[Sum] = []
    for number, (before_site, after_site, rollout) in enumerate(kinds.tolist()):
        of_kind = kind_of == number
        sites = track.sites[before_site], track.sites[after_site]
        note = f"rollout, {_between(*sites)}" if rollout else _between(*sites)
        sums.append(Sum("gap", note, sites[0].place, int(start[of_kind][0]),
                         int((end[of_kind] - start[of_kind]).sum()), int(of_kind.sum())))  # fmt: skip
    sums.sort(key=lambda each: -each.ns)
    # A single kind more is shown by its name.
    rest = sums[GAPS:]
    if len(rest) > 1:
        note = f"{sum(each.times for each in rest)} others"
        first = min(each.first for each in rest)
        sums[GAPS:] = [Sum("gap", note, None, first, sum(each.ns for each in rest))]
    return sums


def _playing(thread: Thread) -> Ints:
    """The rows of calls by which an agent plays in its environment, and of the environment itself.

    An agent plays before it is trained for the first time, mostly outside of steps, and sees less in one call
    than it is trained with.
    """
    track, marks = thread.track, thread.marks
    env = track.region("env")
    rows_of = [env]
    training_calls = marks.training if len(marks.training) else marks.may_train
    usual_items = np.median(unpack(track.payload[training_calls])[0]) if len(training_calls) else 0
    first_update = track.start[marks.updates[0]] if len(marks.updates) else 0
    for site in kinds_of(track.site[marks.forward]):
        rows = marks.forward[track.site[marks.forward] == site]
        if track.sites[site].phase is None and not unpack(track.payload[rows])[0].any():
            continue  # a loss or a distribution, which acts in no environment
        if not len(env) and marks.evaluates_by_parts(track.sites[site]):
            continue
        is_outside = owners(thread.steps.start, thread.steps.end, track.start[rows]) < 0
        items = np.median(unpack(track.payload[rows])[0])
        if track.start[rows[0]] < first_update and items < usual_items and is_outside.mean() > 0.5:
            rows_of.append(rows)
    return merged(*rows_of)


def _between(before: CallSite, after: CallSite) -> str:
    return f"between {named(before)} and {named(after)}"


def named(site: CallSite) -> str:
    """``forward (train.py:30)``."""
    return f"{site.region} ({line_of(site.place)})" if site.place else site.region
