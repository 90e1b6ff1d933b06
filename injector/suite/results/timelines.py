"""The time series of a suite's runs, combined into those that its page plots."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from ...analysis.timeseries import POINTS, Line, TimeSeries, time_series
from ...store import monitor
from ...store.folder import Run

SUMMED = ("rate", "rss")
"""What is added up: rates over the processes of a benchmark, memory over those of a host."""
JOINED = ("load", "memory", "power", "cpu")
"""What every process sees of one device or host alike: the points of all are one line."""


def of_run(run: Run) -> TimeSeries:
    """The time series of ``run``, with devices numbered as on its host: a process counts its own from 0.

    Raises OSError.
    """
    series = time_series(run)
    monitors = monitor.read(run.content)
    # Over several hosts, it is not known of which one a number is.
    if len(monitors) != 1:
        return series
    names = {
        number: str(facts["index"])
        for number, facts in monitors[0].described.items()
        if isinstance(facts.get("index"), int)
    }
    for key in ("load", "memory", "power"):
        lines = series.get(key, {})
        series[key] = {names.get(number, number): line for number, line in lines.items()}
    return series


def combined(runs: Iterable[tuple[str, float, Mapping[str, Mapping[str, Line]]]]) -> TimeSeries:
    """The time series of the runs of a suite as one, in seconds since the suite began.

    Of each run, ``runs`` has the benchmark, the seconds after which it began, and its own time series. The
    rate of a benchmark is the sum over its processes, and that of a process is of its task with most points.
    """
    to_add: dict[str, dict[str, list[Line]]] = {key: {} for key in SUMMED}
    joined: dict[str, dict[str, Line]] = {key: {} for key in JOINED}
    for benchmark, began, recorded in runs:
        main = max(recorded.get("rate", {}).values(), key=len, default=[])
        lines = [("rate", benchmark, main)]
        lines += [("rss", host, line) for host, line in recorded.get("rss", {}).items()]
        for key, name, line in lines:
            if line:
                to_add[key].setdefault(name, []).append([(t + began, v) for t, v in line])
        for key in JOINED:
            for name, line in recorded.get(key, {}).items():
                joined[key].setdefault(name, []).extend((t + began, v) for t, v in line)
    series = {
        key: {name: _sum(lines) for name, lines in by_name.items()}
        for key, by_name in to_add.items()
    }
    series |= {
        key: {name: sorted(line) for name, line in by_name.items()}
        for key, by_name in joined.items()
    }
    return {
        key: {name: [point for point in line if point[0] >= 0.0] for name, line in by_name.items()}
        for key, by_name in series.items()
    }


def _sum(lines: Sequence[Line]) -> Line:
    """The sum of ``lines`` at :data:`POINTS` moments; each is 0 before its first point and after its last.

    A line of a single point takes no time, and is left out unless there is nothing else.
    """
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
