"""Sends a run to a tracker while it goes on: a process of our own follows the record, as the live view does,
and sends what is new every few seconds.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from importlib import import_module
from itertools import count

import numpy as np

from ..analysis.arrays import kept_of
from ..errors import UserError, reason_of
from ..live.process import LiveProcess, RecordedValue
from ..live.snapshot import Snapshot
from ..live.state import State
from ..metrics import unit_of
from ..store.logs import clock_of
from ..store.series import SUFFIX, GrowingSeries
from .content import Content
from .series import EARLY, Series, clean
from .series import POINTS as LAST_POINTS
from .tracked import Beginning, Destination, TrackedRun

EVERY = 5.0
"""Seconds between two looks at the record."""
AGAIN = 30.0
"""Seconds after which a tracker that refused a run is tried again."""
POINTS = 20
"""The most points of a series that a look sends of each :data:`EVERY` seconds, but for the last look, which
sends at least :data:`LAST_POINTS`. A look may come late: a tracker that is slow to answer delays it."""
UNSENT = 200
"""The number of looks whose points are kept for a tracker that refuses them, and of which one late look has
the points. Earlier ones are dropped."""


def follow(
    folder: str,
    tool: str,
    target: Destination,
    run: Beginning,
    is_over: Callable[[float], bool],
    final: Callable[[], AbstractContextManager[Content]],
    say: Callable[[str], None],
) -> bool:
    """Send the run in ``folder`` to ``tool`` while it goes on, then ``final()``. Return whether it took that.

    ``is_over(seconds)`` waits so long, and returns whether the run was collected. What the tracker refuses is
    tried again. ``say`` is called with a sentence on the first refusal, and on where the run is.
    """
    growing = GrowingRun(folder)
    tracked: TrackedRun | None = None
    unsent: list[list[Series]] = []
    failed, ended, next_try = False, False, 0.0
    while True:
        ended = is_over(EVERY) or ended
        unsent = [*unsent, growing.new(ended)][-UNSENT:]
        if time.monotonic() < next_try and not ended:
            continue
        try:
            if tracked is None:
                tracked = import_module(f"injector.export.{tool}").begin(target, run)
            while unsent:
                if unsent[0]:
                    tracked.log(unsent[0])
                del unsent[0]
            if ended:
                with final() as content:
                    tracked.log(content.regions())
                    say(f"{tool}: {tracked.end(content)}")
                return True
        except (UserError, OSError) as error:
            if not failed:
                say(f"{tool}: {reason_of(error)}; `inject export --to {tool}` sends the run later")
            failed, next_try = True, time.monotonic() + AGAIN
        if ended:
            return False


class GrowingRun:
    """The new points of a run that goes on."""

    def __init__(self, folder: str) -> None:
        self._raw = os.path.join(folder, "raw")
        self._state = State(folder)
        self._files: dict[str, list[GrowingSeries]] = {}
        self._held: dict[str, list[RecordedValue]] = {}
        """By process, the values of the step that has not ended."""
        self._counts: dict[str, int] = {}
        """By series of values, the number of points so far."""
        self._samples = 0
        self._steps: dict[str, int] = {}
        """By task, the number of steps at the last look."""

    def new(self, all: bool = False) -> list[Series]:
        """The points since the last call. ``all``: those of the step that has not ended, too."""
        now = time.time()
        snapshot = self._state.tick(now)
        series = [*self._rates(snapshot, now), *self._sampled(snapshot, now)]
        several = len([each for each in self._state.processes if each.shown]) > 1
        for process in self._state.processes:
            series += self._values(process, several, all)
        return series

    def _rates(self, snapshot: Snapshot, now: float) -> Iterator[Series]:
        """Rate, step time and shares of regions over the last seconds, of tasks with new steps."""
        for task in snapshot.tasks:
            name = clean(task.task)
            if task.steps == self._steps.get(name) or not task.steps:
                continue
            self._steps[name] = task.steps
            step = task.steps - 1
            if task.unit == "items/s":
                yield from _point(f"{name}/rate", "export LOOP/rate", step, now, task.rate)
            ranks = [row for row in snapshot.ranks if task.task in row.tasks]
            for row in ranks:
                seconds, whose = row.tasks[task.task].step, _rank(row.rank, len(ranks) > 1)
                title = f"{name}/step_time{whose}"
                yield from _point(title, "export LOOP/step_time", step, now, seconds)
                for region, share in row.regions.items() if task is snapshot.tasks[0] else ():
                    title = f"{name}/share/{clean(region)}{whose}"
                    yield from _point(title, "export LOOP/share/REGION", step, now, share)

    def _sampled(self, snapshot: Snapshot, now: float) -> Iterator[Series]:
        """The latest sample of each device and host."""
        for device in snapshot.devices:
            states = {
                "load": device.load,
                "memory_used": device.memory,
                "temperature": device.temperature,
                "power": device.power,
            }
            for name, value in states.items():
                title = f"devices/{device.host}/{device.number}/{name}"
                metric = f"query devices.{name}"
                yield from _point(clean(title), metric, self._samples, now, value, "sample")
        for host in snapshot.hosts:
            states = {"cpu": host.cpu, "memory": host.memory, "tree_rss": host.rss}
            for name, value in states.items():
                title, metric = f"hosts/{host.host}/{name}", f"query host.{name}"
                yield from _point(clean(title), metric, self._samples, now, value, "sample")
        self._samples += 1

    def _values(self, process: LiveProcess, several: bool, all: bool) -> Iterator[Series]:
        """The new values of a process by name, each at its step.

        The values of a step that has not ended are held until it has, unless ``all`` are wanted. ``several``:
        the names of series end in the rank, as several processes record.
        """
        clock = clock_of(process.facts)
        if clock is None:
            return
        held = self._held.pop(process.name, [])
        new = [*held, *self._recorded(process)]
        begins = process.main.begins
        if begins and not all:
            limit = begins[-1][0] + EARLY * 1e9
            self._held[process.name] = [one for one in new if one.moment > limit]
            new = [one for one in new if one.moment <= limit]
        for series in dict.fromkeys(one.series for one in new):
            own = [one for one in new if one.series == series]
            name = clean(series) + _rank(process.rank, several)
            sent = self._counts.get(name, 0)
            self._counts[name] = sent + len(own)
            values = np.array([one.value for one in own])
            looks = (own[-1].moment - own[0].moment) // round(EVERY * 1e9) + 1
            points = POINTS * min(looks, UNSENT)
            kept = kept_of(values, max(points, LAST_POINTS) if all else points)
            steps = [
                one.step
                if one.step is not None
                else process.main.step_at(one.moment - round(EARLY * 1e9))
                if begins
                else sent + number
                for number, one in enumerate(own)
            ]
            times = np.array([(one.moment + clock.offset) / 1e9 for one in own])
            unit = unit_of("export TASK/NAME")
            yield Series(name, unit, np.array(steps)[kept], times[kept], values[kept], len(own))

    def _recorded(self, process: LiveProcess) -> list[RecordedValue]:
        """The new values of a process from its log, and from its files of series."""
        values = list(process.values)
        process.values.clear()
        files = self._files.setdefault(process.name, [])
        for number in count():
            path = os.path.join(self._raw, f"{process.name}.{number}{SUFFIX}")
            if number == len(files):
                if not os.path.exists(path):
                    break
                files.append(GrowingSeries(path))
            try:
                new = files[number].new()
            except OSError:
                continue
            name = files[number].name
            values += [RecordedValue(name, round(t * 1e9), value, None) for t, value in new]
        return [one for one in values if np.isfinite(one.value)]


def _rank(rank: int | None, several: bool) -> str:
    """The end of a series' name, if ``several`` processes have such a series."""
    return f"/rank_{rank or 0}" if several else ""


def _point(
    name: str, metric: str, step: int, now: float, value: float | None, axis: str = "step"
) -> Iterator[Series]:
    """One point of the series ``name``, in the unit of ``metric``; none if ``value`` is None."""
    if value is not None:
        columns = np.array([step]), np.array([now]), np.array([value])
        yield Series(name, unit_of(metric), *columns, 1, axis)
