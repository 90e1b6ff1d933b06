"""A run put into a tracker while it goes on: the record is followed from a process of our own, as the live
view follows it, and what is new is sent every few seconds.
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
from ..errors import UserError
from ..live.process import LiveProcess, RecordedValue
from ..live.snapshot import Snapshot
from ..live.state import State
from ..metrics import unit_of
from ..store.logs import clock_of
from ..store.series import SUFFIX, GrowingSeries
from .content import EARLY, Content, Series, clean
from .content import POINTS as LAST
from .tracked import Beginning, Destination, TrackedRun

EVERY = 5.0
"""Seconds from one look to the next."""
AGAIN = 30.0
"""Seconds after which a tracker that took nothing is tried again."""
POINTS = 20
"""Of a series, that one look sends at most, the last one :data:`LAST`: the least and the largest are among
them.
"""
UNSENT = 200
"""Looks whose points wait for a tracker that takes nothing; of more, the first are left out."""


def follow(
    folder: str,
    tool: str,
    target: Destination,
    run: Beginning,
    over: Callable[[float], bool],
    final: Callable[[], AbstractContextManager[Content]],
    say: Callable[[str], None],
) -> None:
    """Send the run in ``folder`` to ``tool`` until ``over(seconds)``, which waits so long; then ``final()``.

    What the tracker does not take has one sentence, and is tried again.
    """
    growing = GrowingRun(folder)
    tracked: TrackedRun | None = None
    unsent: list[list[Series]] = []
    failed, ended, due = False, False, 0.0
    while True:
        ended = over(EVERY) or ended
        unsent = [*unsent, growing.new(ended)][-UNSENT:]
        if time.monotonic() < due and not ended:
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
        except (UserError, OSError) as error:
            if not failed:
                say(f"{tool}: {error}; `inject export --to {tool}` sends the run later")
            failed, due = True, time.monotonic() + AGAIN
        if ended:
            return


class GrowingRun:
    """The series of a run that goes on, as far as they are new."""

    def __init__(self, folder: str) -> None:
        self._raw = os.path.join(folder, "raw")
        self._state = State(folder)
        self._files: dict[str, list[GrowingSeries]] = {}
        self._held: dict[str, list[RecordedValue]] = {}
        self._counts: dict[str, int] = {}
        self._samples = 0
        self._steps: dict[str, int] = {}

    def new(self, all: bool = False) -> list[Series]:
        """What came since the last time; ``all``: also of the step that has not ended."""
        now = time.time()
        snapshot = self._state.tick(now)
        found = [*self._rates(snapshot, now), *self._seen(snapshot, now)]
        several = len([each for each in self._state.processes if each.shown]) > 1
        for process in self._state.processes:
            found += self._values(process, several, all)
        return found

    def _rates(self, snapshot: Snapshot, now: float) -> Iterator[Series]:
        """Means over the last seconds, where steps were made since the last time."""
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

    def _seen(self, snapshot: Snapshot, now: float) -> Iterator[Series]:
        """What the monitor saw last."""
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
        """What it recorded, each value at its step: those of a step that has not ended wait for its end."""
        clock = clock_of(process.facts)
        if clock is None:
            return
        held = self._held.pop(process.name, [])
        fresh = [*held, *self._recorded(process)]
        begins = process.main.begins
        if begins and not all:
            known = begins[-1][0] + EARLY * 1e9
            self._held[process.name] = [one for one in fresh if one.moment > known]
            fresh = [one for one in fresh if one.moment <= known]
        for series in dict.fromkeys(one.series for one in fresh):
            mine = [one for one in fresh if one.series == series]
            name = clean(series) + _rank(process.rank, several)
            at = self._counts.get(name, 0)
            self._counts[name] = at + len(mine)
            values = np.array([one.value for one in mine])
            kept = kept_of(values, LAST if all else POINTS)
            steps = [
                one.step
                if one.step is not None
                else process.main.step_at(one.moment - round(EARLY * 1e9))
                if begins
                else at + number
                for number, one in enumerate(mine)
            ]
            times = np.array([(one.moment + clock.offset) / 1e9 for one in mine])
            unit = unit_of("export TASK/NAME")
            yield Series(name, unit, np.array(steps)[kept], times[kept], values[kept], len(mine))

    def _recorded(self, process: LiveProcess) -> list[RecordedValue]:
        """The new values of its log, and of its series' files."""
        found = list(process.values)
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
            found += [RecordedValue(name, round(t * 1e9), value, None) for t, value in new]
        return [one for one in found if np.isfinite(one.value)]


def _rank(rank: int | None, several: bool) -> str:
    return f"/rank_{rank or 0}" if several else ""


def _point(
    name: str, metric: str, step: int, now: float, value: float | None, axis: str = "step"
) -> Iterator[Series]:
    """One point of the series ``name``, in the unit that the registry has for ``metric``."""
    if value is not None:
        columns = np.array([step]), np.array([now]), np.array([value])
        yield Series(name, unit_of(metric), *columns, 1, axis)
