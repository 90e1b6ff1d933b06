"""What the values of a run say, with the losses of different things apart.

Every loss that backward starts from is recorded in one series. The losses of two models are backward
started at two lines of the program, those of the trials of a study within their trials.
"""

from __future__ import annotations

import os
from bisect import bisect_right
from itertools import pairwise

from ..store.folder import Run
from ..store.layout import SPANS_SUFFIX
from .rates import Origin, Summary, summarise

SEVERAL = 6
"""Lines, or trials, whose losses are told apart; more lines are of one thing."""


def summary_of(run: Run) -> Summary:
    """As :func:`.rates.summarise`. Raises OSError."""
    try:
        origin = _origin(run)
    except Exception:  # the profile is made of the same files, and says what is wrong with them
        origin = None
    return summarise(run, origin)


def _origin(run: Run) -> Origin | None:
    """Which of several things a loss is of; None where there is but one."""
    raw = os.path.join(run.path, "raw")
    if not (os.path.isdir(raw) and any(SPANS_SUFFIX in name for name in os.listdir(raw))):
        return None
    from .columns import SECOND, read_rows, sources  # numpy is only loaded for runs that need it

    known: dict[int, tuple[list[float], list[str]]] = {}
    for source in sources(run):
        lines: dict[int, str] = {}
        trials = []
        for number, site in source.sites.items():
            if site.clock == "host" and site.region == "backward" and site.place:
                lines[number] = f" at {os.path.basename(site.place.file)}:{site.place.line}"
            elif site.region == "trial":
                trials.append(number)
        if not trials and not 1 < len(set(lines.values())) <= SEVERAL:
            continue
        rows = read_rows(source)
        moments = []
        if trials:
            begun = sorted(
                t for t, number in zip(rows.start.tolist(), rows.site.tolist(), strict=True)
                if number in trials
            )  # fmt: skip
            for at, moment in enumerate(begun, 1):
                label = f" of trial {at}" if len(begun) <= SEVERAL else f" of {len(begun)} trials"
                moments.append((moment / SECOND, label))
        else:
            for number, label in lines.items():
                mine = rows.start[rows.site == number].tolist()
                moments += [(moment / SECOND, label) for moment in mine]
            # A loss is recorded as its backward begins: in the middle of two it is the later one's.
            moments.sort()
            edges = [(one[0] + two[0]) / 2 for one, two in pairwise(moments)]
            moments = [(e, label) for e, (_, label) in zip([0.0, *edges], moments, strict=False)]
        known[source.index] = [each[0] for each in moments], [each[1] for each in moments]
    if not known:
        return None

    def origin(process: int, time: float) -> str:
        edges, labels = known.get(process, ([], []))
        at = bisect_right(edges, time) - 1
        return labels[at] if at >= 0 else ""

    return origin
