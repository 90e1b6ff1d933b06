"""What the events of a run say to a suite: rates that a voirfile computed, losses, numbers, an error."""

from __future__ import annotations

from math import isfinite, isnan
from statistics import fmean
from typing import Any, NamedTuple

from ...analysis.event_samples import CONTEXT
from ...analysis.statistics import number
from ...store.call_sites import INFERENCE
from ...store.folder import Run, read_events
from ...store.logs import Damage
from ..run import tracebacks

SERIES_VALUES = 3_000
"""The most values of a loss that are kept. Of longer series every second, third, … value is."""


class LossSeries(NamedTuple):
    """The values of one loss that a run recorded."""

    n: int
    """How many values all processes recorded, those that are not finite included."""
    odd: int
    """How many of those were not finite."""
    values: tuple[float, ...]
    """The finite values of the first process that recorded any, in order, at most :data:`SERIES_VALUES`."""


class LossCollector:
    """Collects the values of one loss.

    All values are counted, but only those of the first process are kept: ranks take turns in the log, and
    their losses mixed would look like a curve that jumps.
    """

    def __init__(self) -> None:
        self.first: object = None
        self.count = self.odd = self.nan = 0
        """How many values there are, how many are not finite, and how many of those are not a number."""
        self._values: list[float] = []

    def add(self, value: float, process: object = None) -> None:
        """Add one value that ``process`` recorded."""
        if not self.count:
            self.first = process
        self.count += 1
        if not isfinite(value):
            self.odd += 1
            self.nan += isnan(value)
        elif process == self.first:
            self._values.append(value)

    def series(self) -> LossSeries:
        """The series of the values that were added."""
        every = max(1, -(-len(self._values) // SERIES_VALUES))
        return LossSeries(self.count, self.odd, tuple(self._values[::every]))


class RunEvents:
    """What the events of a run hold: rates that a voirfile computed, losses, numbers, the first error."""

    def __init__(self, run: Run) -> None:
        self.given: dict[object, list[float]] = {}
        """The rates that events hold, in order, by the process that recorded them."""
        self.unit = "items/s"
        """The unit of these rates."""
        self.error = ""
        self.trace: tuple[str, ...] = ()
        self.last: dict[str, float] = {}
        """The last value of each number, by its name."""
        self.studies = False
        """Whether any event is about a study of hyper-parameters."""
        self._losses: dict[str, LossCollector] = {}
        self._steps: list[tuple[float, float | None]] = []
        """Seconds and items of each step that an event with a rate describes."""
        for _, event, data in read_events(run, Damage()):
            if not isinstance(data, dict):
                continue
            if event == "data":
                self._add_numbers(data)
                if data.get("task") in (None, "train", INFERENCE):
                    self._add_rate_and_losses(data)
            elif event == "study":
                self.studies = True
            elif event == "error" and not self.error:
                self.error, self.trace = tracebacks.of_event(
                    data.get("type"), data.get("message"), data.get("trace")
                )

    def _add_numbers(self, data: dict[str, Any]) -> None:
        for name, value in data.items():
            if name in CONTEXT or isinstance(value, (dict, list)):
                continue
            as_number = number(value)
            if as_number is not None and isfinite(as_number):
                self.last[name] = as_number

    def _add_rate_and_losses(self, data: dict[str, Any]) -> None:
        # A step that ov.step or ov.loader observes ("of" names what paced it) is among the spans as well,
        # and exact there.
        rate = number(data.get("rate")) if "of" not in data else None
        process = data.get("process")
        elapsed, items = (number(data.get(key)) for key in ("elapsed", "items"))
        if rate is not None and elapsed and isfinite(elapsed):
            self._steps.append((elapsed, items))
        if rate is not None and isfinite(rate):
            self.given.setdefault(process, []).append(rate)
            self.unit = str(data.get("units") or self.unit)
        for name, value in data.items():
            if "loss" in name.lower() and (loss := number(value)) is not None:
                self._losses.setdefault(name, LossCollector()).add(loss, process)

    def rates(self) -> tuple[float, ...]:
        """The rate of each step, added up over the processes that recorded rates.

        Steps after the last one of the shortest process are left out: a sum that lacks a process would look
        like a slow step.
        """
        return tuple(map(sum, zip(*self.given.values(), strict=False)))

    def step(self) -> float:
        """The mean seconds of a step; 0 where no event has them."""
        return fmean(seconds for seconds, _ in self._steps) if self._steps else 0.0

    def items(self) -> float | None:
        """The mean items of a step; None unless the event of each step has them."""
        known = [items for _, items in self._steps if items is not None]
        return fmean(known) if known and len(known) == len(self._steps) else None

    def losses(self) -> dict[str, LossSeries]:
        """The values of each loss, by its name."""
        return {name: collector.series() for name, collector in self._losses.items()}
