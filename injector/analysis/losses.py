"""Where a loss comes from: which of several it is, what it is called in the program, which line made it.

Every loss that backward starts from is recorded in one series. The line of the program that
starts backward distinguishes those of two models; those of a study are separated by trial.
"""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise

from ..store import spans
from ..store.folder import Run
from ..value_class import value_class
from .outcomes import SECOND
from .profile import SourceLine

TYPE_CHECKING = False  # importing typing would cost 5 ms
if TYPE_CHECKING:
    from .columns import RecordedProcess, SpanColumns

Origin = Callable[[int, float], str]
"""Of the index of a process and a moment (unix seconds): what is added to the name of a loss."""
Processes = Callable[[], "list[RecordedProcess]"]
SEVERAL = 6
"""Lines, or trials, whose losses are kept apart; more lines are of one thing."""


@value_class
class LossSource:
    """A loss in the program's own text."""

    name: str
    """The variable, or the expression, that backward starts from; empty where the text does not say so."""
    place: SourceLine
    """The line that calls backward, or a library that does."""
    made: SourceLine | None
    """The line that assigns it; None where it was not found, or the file has changed since."""


def origins_of(
    run: Run, processes: Processes | None = None
) -> tuple[Origin | None, dict[str, SourceLine]]:
    """Which of several things a loss is of (None where there is but one), and where each is started from.

    The latter by what is added to its name. ``processes`` gives those of the run, where they have been read.
    """
    raw = os.path.join(run.path, "raw")
    if not (os.path.isdir(raw) and any(spans.SUFFIX in name for name in os.listdir(raw))):
        return None, {}
    from .columns import read_rows, sources  # numpy is only loaded for runs that need it

    known: dict[int, tuple[list[float], list[str]]] = {}
    places: dict[str, SourceLine] = {}
    for source in sources(run) if processes is None else processes():
        lines: dict[int, str] = {}
        trials = []
        for number, site in source.sites.items():
            if site.clock == "host" and site.region == "backward" and site.place:
                lines[number] = f" at {os.path.basename(site.place.file)}:{site.place.line}"
            elif site.region == "trial":
                trials.append(number)
        called = {site.place for site in source.sites.values() if site.number in lines}
        if len(called) == 1 and not trials:
            places.update(("", place) for place in called if place)
        if not trials and len(set(lines.values())) < 2:
            continue
        rows = read_rows(source)
        if not trials:
            for outer in _around_others(source, rows, lines):
                del lines[outer]
            if not 1 < len(set(lines.values())) <= SEVERAL:
                continue
        if trials:
            moments = _of_trials(rows, trials)
        else:
            places |= {
                lines[n]: place for n in lines if (place := source.sites[n].place) is not None
            }
            moments = _of_lines(rows, lines)
        known[source.index] = [each[0] for each in moments], [each[1] for each in moments]
    if not known:
        return None, places

    def origin(process: int, time: float) -> str:
        edges, labels = known.get(process, ([], []))
        at = bisect_right(edges, time) - 1
        return labels[at] if at >= 0 else ""

    return origin, places


def _of_trials(rows: SpanColumns, trials: Sequence[int]) -> list[tuple[float, str]]:
    """From when on a loss is of which trial, in unix seconds; ``trials`` are their sites."""
    pairs = zip(rows.start.tolist(), rows.site.tolist(), strict=True)
    begun = sorted(moment for moment, site in pairs if site in trials)
    few = len(begun) <= SEVERAL
    return [
        (moment / SECOND, f" of trial {at}" if few else f" of {len(begun)} trials")
        for at, moment in enumerate(begun, 1)
    ]


def _of_lines(rows: SpanColumns, lines: Mapping[int, str]) -> list[tuple[float, str]]:
    """From when on a loss is of which line, in unix seconds; ``lines`` by their sites.

    A loss is recorded as its backward begins: in the middle of two it is the later one's.
    """
    moments = sorted(
        (moment / SECOND, label)
        for site, label in lines.items()
        for moment in rows.start[rows.site == site].tolist()
    )
    edges = [(one[0] + two[0]) / 2 for one, two in pairwise(moments)]
    return [(edge, label) for edge, (_, label) in zip([0.0, *edges], moments, strict=False)]


def _around_others(
    source: RecordedProcess, rows: SpanColumns, lines: dict[int, str]
) -> frozenset[int]:
    """The sites among ``lines`` within whose spans another line calls backward: regions of the program's own.

    A loss is recorded when backward is called, and that may be nearer to the beginning of the region.
    """
    mine: list[tuple[int, int, int]] = []
    for site in lines:
        here = rows.site == site
        begun, ended = rows.start[here].tolist(), rows.end[here].tolist()
        mine += ((start, end, site) for start, end in zip(begun, ended, strict=True))
    last: dict[int, tuple[int, int]] = {}
    outer = set()
    for start, end, site in sorted(mine):
        thread = source.sites[site].thread
        until, before = last.get(thread, (0, site))
        if start < until and lines[site] != lines[before]:
            outer.add(before)
        last[thread] = end, site
    return frozenset(outer)
