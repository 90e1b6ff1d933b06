"""Statistics of the events that a run recorded: rates by task, losses and other values, regions.

Each line of a ``.data`` file is one event; those named ``data`` carry values, such as
``{"task": "train", "loss": 0.7, "process": 0, "time": …}``. :mod:`.event_samples` sorts the values of all
events into samples, of which :func:`recorded` makes statistics.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import fsum

from ..store.exceptions import in_a_line
from ..store.folder import Run, read_events
from ..store.logs import Damage
from ..value_class import field, value_class
from .event_samples import BACKWARD, EventReader, TimedLoss, ValueSample
from .losses import LossSource, Processes, origins_of
from .profile import SourceLine
from .statistics import Statistics, statistics

TYPE_CHECKING = False  # importing typing would cost 5 ms
if TYPE_CHECKING:
    from typing import Any


@value_class
class Rate:
    """The rates of one task in one unit, by default items per second."""

    bench: str
    """Name of the file that has it, without ``.data``; ``""`` where the run has only one file."""
    task: str
    unit: str
    overall: Statistics
    by_process: dict[int, Statistics]
    """The same by process (index of ``processes`` in ``run.json``); empty if there is only one."""
    odd: int
    """How many rates were not finite and are left out."""


@value_class
class ValueSeries:
    """The values of one name within a task, in the order of time. Units are the program's."""

    bench: str
    task: str
    name: str
    n: int
    first: object
    last: object
    statistics: Statistics | None
    """Statistics of the finite numbers among the values; None if there are none."""
    odd: int
    """How many values were NaN or infinite."""
    source: LossSource | None = None
    """For a loss that backward starts from: its name in the program, and the lines that it comes from."""

    @property
    def is_loss(self) -> bool:
        """Whether its name calls it a loss."""
        return "loss" in self.name.lower()


@value_class
class TimedRegion:
    """Durations of the calls of one region, in seconds of the host."""

    bench: str
    name: str
    total: float
    statistics: Statistics


@value_class
class Recorded:
    """Everything that the ``.data`` files of a run say."""

    rates: list[Rate]
    series: list[ValueSeries]
    regions: list[TimedRegion]
    events: dict[str, int]
    """The number of events by their name."""
    benches: dict[str, dict[str, Any]]
    """For each file, the data of its first ``start``, ``end`` and ``error`` events."""
    torn: int
    """How many lines could not be read."""
    losses: tuple[TimedLoss, ...] = field(default=(), repr=False, internal=True)

    @property
    def failure(self) -> str:
        """The first exception that ended a process, in one line; empty if none did."""
        errors = (events.get("error") for events in self.benches.values())
        first = next((e for e in errors if isinstance(e, dict) and e.get("type")), None)
        if first is None:
            return ""
        return in_a_line(first["type"], first.get("message"), first.get("trace"))


def recorded(run: Run, processes: Processes | None = None) -> Recorded:
    """Read the events of ``run`` and return their statistics.

    ``processes`` returns those of the run, as for :func:`.losses.origins_of`. Raises OSError.
    """
    try:
        origin, places = origins_of(run, processes)
    except Exception:  # damaged spans: the profile is made of them too, and reports what is wrong
        origin, places = None, {}
    reader, damage = EventReader(origin), Damage()
    for bench, event, data in read_events(run, damage):
        # milabench writes a file for each process; a run of ours has one, whose name says nothing.
        reader.add(bench if len(run.data_files) > 1 else "", event, data)
    reader.flush()
    rates = (_rate(key, samples) for key, samples in reader.rates.items())
    regions = (_region(key, sample) for key, sample in reader.regions.items())
    return Recorded(
        rates=[rate for rate in rates if rate],
        series=_without_repeated_loss(
            [_series(key, sample, places) for key, sample in reader.series.items()]
        ),
        regions=[region for region in regions if region],
        events=reader.events,
        benches=reader.benches,
        torn=damage.torn,
        losses=tuple(reader.losses.values()),
    )


def _without_repeated_loss(series: list[ValueSeries]) -> list[ValueSeries]:
    """Leave out the loss that backward starts from if the user's voirfile records the same values.

    Shipped voirfiles record it in every run, so a loss that a voirfile records too would be listed twice.
    """
    recorded_otherwise = [
        one for one in series if one.is_loss and not _starts_backward(one.task, one.name)
    ]
    repeated = [_values_of(one) for one in recorded_otherwise if one.statistics]
    return [
        one
        for one in series
        if one in recorded_otherwise or _values_of(one) not in repeated or not one.is_loss
    ]


def _values_of(series: ValueSeries) -> tuple[object, ...]:
    """Enough to tell whether two series have the same values."""
    return series.n, series.first, series.last, series.statistics


def _starts_backward(task: str, name: str) -> bool:
    """Whether a series is the loss that backward starts from, with or without an origin in its name."""
    loss_task, loss = BACKWARD
    return task == loss_task and (name == loss or name.startswith((f"{loss} at ", f"{loss} of ")))


def _rate(key: tuple[str, str, str], samples: dict[int, ValueSample]) -> Rate | None:
    overall = statistics(value for sample in samples.values() for value in sample.values)
    if overall is None:
        return None
    by_process: dict[int, Statistics] = {}
    if len(samples) > 1:
        for index in sorted(samples):
            if (own := statistics(samples[index].values)) is not None:
                by_process[index] = own
    return Rate(*key, overall, by_process, sum(sample.odd for sample in samples.values()))


def _series(
    key: tuple[str, str, str], sample: ValueSample, places: Mapping[str, SourceLine]
) -> ValueSeries:
    """``places`` has the line that starts backward, by what is appended to the name of its loss."""
    _, task, name = key
    place = places.get(name.removeprefix(BACKWARD[1])) if _starts_backward(task, name) else None
    source: LossSource | None = None
    if place is not None:
        from .loss_lines import loss_source  # imports ast, which a run without a loss does not need

        source = loss_source(place)
    return ValueSeries(
        *key, sample.count, sample.first, sample.last, statistics(sample.values), sample.odd, source
    )


def _region(key: tuple[str, str], sample: ValueSample) -> TimedRegion | None:
    seconds = statistics(sample.values)
    return TimedRegion(*key, fsum(sample.values), seconds) if seconds else None
