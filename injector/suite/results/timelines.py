"""The time series of a suite's runs, combined into those that its page plots."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from ...analysis.timeseries import POINTS, Line, TimeSeries, time_series
from ...analysis.wording import device_name
from ...store import monitor
from ...store.folder import Run

SUMMED = ("rate", "rss")
"""What is added up: rates over the processes of a benchmark, memory over those of a host."""
OF_DEVICES = ("load", "memory", "power")
JOINED = (*OF_DEVICES, "cpu")
"""What every process sees of one device or host alike: the points of all are one line."""


def of_run(run: Run) -> TimeSeries:
    """The time series of ``run``, with devices named by their hosts and by their numbers there (``node7 3``).

    A process itself counts its devices from 0. Raises OSError.
    """
    series = time_series(run)
    monitors = monitor.read(run.content)
    hosts = {monitored.host for monitored in monitors}
    names: dict[str, str] = {}
    for monitored in monitors:
        for number, facts in monitored.described.items():
            index = facts.get("index")
            on_host = number if index is None else index
            names[device_name(monitored.host, number, hosts)] = f"{monitored.host} {on_host}"
    for key in OF_DEVICES:
        lines = series.get(key, {})
        series[key] = {names.get(name, name): line for name, line in lines.items()}
    return series


def combined(runs: Iterable[tuple[str, float, Mapping[str, Mapping[str, Line]]]]) -> TimeSeries:
    """The time series of the runs of a suite as one, in seconds that the suite has run.

    Of each run, ``runs`` has the benchmark, the seconds that the suite had run when it began, and its own
    time series (:func:`of_run`). The rate of a benchmark is the sum over its processes, and that of a
    process is of its task with most points. If all devices are of one host, their lines are named by number
    alone.
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
    hosts = {name.rpartition(" ")[0] for key in OF_DEVICES for name in joined[key]}
    if len(hosts) == 1:
        for key in OF_DEVICES:
            joined[key] = {name.rpartition(" ")[2]: line for name, line in joined[key].items()}
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
