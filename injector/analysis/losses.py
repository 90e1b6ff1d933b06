"""Where a loss comes from: which of several it is, what the program calls it, and which line made it.

Shipped voirfiles record every loss that backward starts from in one series. In a GAN or a study, that would
mix the losses of several models. So each value is labelled, and each label has a series of its own: ``loss at
gan.py:41`` and ``loss at gan.py:55`` by the line that calls backward, or ``loss of trial 2`` in a study.

A recorded value says when it was recorded, and not which call of backward it is of. That follows from the
spans of backward, or of trials, in the same process: :func:`origins_of` makes a function of process and time
from them.
"""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence

from ..store import spans
from ..store.folder import Run
from ..value_class import value_class
from .outcomes import SECOND
from .profile import SourceLine

TYPE_CHECKING = False  # importing typing would cost 5 ms
if TYPE_CHECKING:
    from .columns import RecordedProcess, SpanColumns

Origin = Callable[[int, float], str]
"""What is appended to the name of a loss, by the index of its process and its time in unix seconds."""
Processes = Callable[[], "list[RecordedProcess]"]
"""Gives the processes of a run, reading them when it is first called."""
SEVERAL = 6
"""How many lines, or trials, have series of their own; more lines than that do not mean as many models."""

_ROUNDING = 1e-6
"""Seconds by which two moments may differ that are one, as unix seconds have a precision of 0.2 µs."""


@value_class
class LossSource:
    """A loss in the text of the program."""

    name: str
    """The variable or expression that backward starts from; empty if the text does not show it."""
    place: SourceLine
    """The line that calls backward, or the library that calls it."""
    made: SourceLine | None
    """The line that assigns the variable; None if it was not found, or the file has changed since."""


def origins_of(
    run: Run, processes: Processes | None = None
) -> tuple[Origin | None, dict[str, SourceLine]]:
    """How to label losses, and the lines that start backward by their labels.

    The first is None if all losses are of one thing. ``processes`` gives the processes of ``run``; without
    it, they are read.
    """
    # Before the import of numpy below, which is half of what a short run costs.
    raw = os.path.join(run.path, "raw")
    if not (os.path.isdir(raw) and any(spans.SUFFIX in name for name in os.listdir(raw))):
        return None, {}
    from .columns import sources

    edges_of: dict[int, tuple[list[float], list[str]]] = {}
    places: dict[str, SourceLine] = {}
    for source in sources(run) if processes is None else processes():
        edges = _edges_of_process(source, places)
        if edges is not None:
            edges_of[source.index] = [time for time, _ in edges], [label for _, label in edges]
    if not edges_of:
        return None, places

    def origin(process: int, time: float) -> str:
        times, labels = edges_of.get(process, ([], []))
        at = bisect_right(times, time) - 1
        return labels[at] if at >= 0 else ""

    return origin, places


_Edges = list[tuple[float, str]]
"""Moments in unix seconds, in order, with the label of losses from each of them on."""


def _edges_of_process(source: RecordedProcess, places: dict[str, SourceLine]) -> _Edges | None:
    """Where the labels of a process's losses change; None if its losses need no labels.

    The lines that start backward are put into ``places``, that of a loss without a label by an empty one.
    """
    from .columns import read_rows

    labels: dict[int, str] = {}
    trials = []
    for number, site in source.sites.items():
        if site.clock == "host" and site.region == "backward" and site.place:
            labels[number] = f" at {os.path.basename(site.place.file)}:{site.place.line}"
        elif site.region == "trial":
            trials.append(number)
    if trials:
        return _edges_of_trials(source, read_rows(source), trials)
    lines = {site.place for site in source.sites.values() if site.number in labels}
    if len(lines) == 1:
        places.update(("", line) for line in lines if line)
    if len(set(labels.values())) < 2:
        return None
    rows = read_rows(source)
    for outer in _around_others(source, rows, labels):
        del labels[outer]
    if not 1 < len(set(labels.values())) <= SEVERAL:
        return None
    for number, label in labels.items():
        if (place := source.sites[number].place) is not None:
            places[label] = place
    return _edges_of_lines(rows, labels)


def _edges_of_trials(source: RecordedProcess, rows: SpanColumns, trials: Sequence[int]) -> _Edges:
    """A loss is of the trial that began last; ``trials`` are the numbers of their call sites.

    A trial has the number that its framework recorded while it ran, else its place among those that began.
    """
    columns = zip(rows.start.tolist(), rows.end.tolist(), rows.site.tolist(), strict=True)
    calls = sorted(call for call in columns if call[2] in trials)
    if len(calls) > SEVERAL:
        return [(start / SECOND, f" of {len(calls)} trials") for start, _, _ in calls]
    edges = []
    for at, (start, end, site) in enumerate(calls):
        numbers = (
            data["number"]
            for moment, data in source.study_events
            if start <= moment <= end
            and "number" in data
            and data.get("thread", 0) == source.sites[site].thread
        )
        edges.append((start / SECOND, f" of trial {next(numbers, at)}"))
    return edges


def _edges_of_lines(rows: SpanColumns, labels: Mapping[int, str]) -> _Edges:
    """A loss is of the line whose backward began last; ``labels`` are by call sites.

    It is recorded within the span of its backward. How long after its start, a busy machine decides. What is
    recorded after the end of the last one has no label: its backward did not end, and so left no span.
    """
    starts: _Edges = []
    end = 0
    for site, label in labels.items():
        of_site = rows.site == site
        starts += ((start / SECOND - _ROUNDING, label) for start in rows.start[of_site].tolist())
        end = max(end, int(rows.end[of_site].max(initial=0)))
    starts.sort()
    # What is recorded before the first call has its label too.
    return [(0.0, starts[0][1]), *starts[1:], (end / SECOND + _ROUNDING, "")]


def _around_others(
    source: RecordedProcess, rows: SpanColumns, labels: Mapping[int, str]
) -> frozenset[int]:
    """The call sites among ``labels`` within whose spans another line calls backward.

    Those are regions called ``backward`` that the program itself has around its call. The loss is recorded at
    the call, but the start of such a region may be nearer to another loss.
    """
    calls: list[tuple[int, int, int]] = []
    for site in labels:
        of_site = rows.site == site
        starts, ends = rows.start[of_site].tolist(), rows.end[of_site].tolist()
        calls += ((start, end, site) for start, end in zip(starts, ends, strict=True))
    latest: dict[int, tuple[int, int]] = {}
    outer = set()
    for start, end, site in sorted(calls):
        thread = source.sites[site].thread
        until, before = latest.get(thread, (0, site))
        if start < until and labels[site] != labels[before]:
            outer.add(before)
        latest[thread] = end, site
    return frozenset(outer)
