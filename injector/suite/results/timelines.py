"""What the runs of a suite recorded over their time, combined as its page plots it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from ...analysis.timeseries import POINTS, Line, TimeSeries, time_series
from ...store import monitor
from ...store.folder import Run

SUMMED = ("rate", "rss")
"""What is added up over the processes of a benchmark, or on a host."""
EACH = ("load", "memory", "power", "cpu")
"""What several processes see of the same device or host."""


def of_run(run: Run) -> TimeSeries:
    """The time series of ``run``; devices are numbered as on the host: a process counts its own from 0.

    Raises OSError.
    """
    found = time_series(run)
    seen = monitor.read(run.content)
    if len(seen) != 1:
        return found
    names = {
        number: str(facts["index"])
        for number, facts in seen[0].described.items()
        if isinstance(facts.get("index"), int)
    }
    for key in ("load", "memory", "power"):
        lines = found.get(key, {})
        found[key] = {names.get(number, number): line for number, line in lines.items()}
    return found


def combined(runs: Iterable[tuple[str, float, Mapping[str, Mapping[str, Line]]]]) -> TimeSeries:
    """The time series of the runs of a suite as one, in seconds since the suite began.

    ``runs``: benchmark, seconds after which the run began, its own time series. The rate of a benchmark is
    the sum over its processes; of each process it is that of the task with most points.
    """
    summed: dict[str, dict[str, list[Line]]] = {key: {} for key in SUMMED}
    made: dict[str, dict[str, Line]] = {key: {} for key in EACH}
    for benchmark, began, recorded in runs:
        main = max(recorded.get("rate", {}).values(), key=len, default=[])
        lines = [("rate", benchmark, main)]
        lines += [("rss", host, line) for host, line in recorded.get("rss", {}).items()]
        for key, name, line in lines:
            if line:
                summed[key].setdefault(name, []).append([(t + began, v) for t, v in line])
        for key in EACH:
            for name, line in recorded.get(key, {}).items():
                made[key].setdefault(name, []).extend((t + began, v) for t, v in line)
    found = {
        key: {name: total(lines) for name, lines in each.items()} for key, each in summed.items()
    }
    found |= {
        key: {name: sorted(line) for name, line in each.items()} for key, each in made.items()
    }
    return {
        key: {name: [point for point in line if point[0] >= 0.0] for name, line in each.items()}
        for key, each in found.items()
    }


def total(lines: Sequence[Line]) -> Line:
    """The sum of lines, each of which is 0 before its first point and after its last one."""
    known = [sorted(line) for line in lines if len(line) > 1]
    if not known:
        return [point for line in lines for point in line]
    first, last = min(line[0][0] for line in known), max(line[-1][0] for line in known)
    times = np.linspace(first, last, POINTS)
    values = np.zeros(POINTS)
    for line in known:
        at, value = np.array(line).T
        values += np.interp(times, at, value, left=0.0, right=0.0)
    return list(zip(times.tolist(), values.tolist(), strict=True))
