"""The statistics of the events that a run recorded: rates by task, losses and other values, regions."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping, Sequence
from math import fsum, inf, isfinite, nan, sqrt

from ..named_tuple import NamedTuple
from ..store.call_sites import EVALUATING
from ..store.exceptions import in_a_line
from ..store.folder import Run, read_events
from ..store.logs import Damage
from ..value_class import field, value_class
from .losses import LossSource, Origin, Processes, origins_of
from .profile import SourceLine, Statistics

TYPE_CHECKING = False  # importing typing would cost 5 ms
if TYPE_CHECKING:
    from typing import Any

NO_TASK = ""
BACKWARD = ("train", "loss")
"""Task and name of the loss that backward starts from, which shipped voirfiles record."""
CONTEXT = frozenset(
    {"task", "rate", "units", "time", "process", "rank", "host", "progress", "batch_id", "elapsed"}
    | {"io", "items", "of"}
)
"""Keys of a ``data`` event that say what its values belong to, and are none themselves."""
_STRINGS = {"NaN": nan, "Infinity": inf, "-Infinity": -inf}


@value_class
class Rate:
    """The rates of one task in one unit, by default items per second."""

    bench: str
    """The file it stands in, without ``.data``; ``""`` where the run has only one."""
    task: str
    unit: str
    overall: Statistics
    by_process: dict[int, Statistics]
    """By index of ``processes`` in ``run.json``; empty unless there are several."""
    odd: int
    """How many were not finite, and left out."""


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
    """Of those that are finite numbers; None if there is none."""
    odd: int
    """How many were numbers and not finite."""
    source: LossSource | None = None
    """Of a loss that backward starts from: its name in the program, and the lines that it comes from."""

    @property
    def is_loss(self) -> bool:
        """Whether its name calls it a loss."""
        return "loss" in self.name.lower()


@value_class
class TimedRegion:
    """How long the calls of a region took; the statistics are in seconds of the host."""

    bench: str
    name: str
    total: float
    statistics: Statistics


class TimedLoss(NamedTuple):
    """The finite values of one loss of training in one process, in the order in which they were recorded."""

    process: int
    """Index of ``processes`` in run.json."""
    label: str
    times: array[float]
    """Unix seconds."""
    values: array[float]


@value_class
class Recorded:
    """What the ``.data`` files of a run say."""

    rates: list[Rate]
    series: list[ValueSeries]
    regions: list[TimedRegion]
    events: dict[str, int]
    """How many events there are of each name."""
    benches: dict[str, dict[str, Any]]
    """By file, the data of its ``start``, ``end`` and first ``error`` events."""
    torn: int
    """Lines that could not be read."""
    losses: tuple[TimedLoss, ...] = field(default=(), repr=False, internal=True)

    @property
    def failure(self) -> str:
        """The first exception that ended a process, in one line; empty where none did."""
        errors = (events.get("error") for events in self.benches.values())
        first = next((one for one in errors if isinstance(one, dict) and one.get("type")), None)
        if first is None:
            return ""
        return in_a_line(first["type"], first.get("message"), first.get("trace"))


def sum_of_known(values: Iterable[float | None]) -> float | None:
    """The sum of those that are not None; None where there is none."""
    known = [value for value in values if value is not None]
    return fsum(known) if known else None


def percentile(ordered: Sequence[float], fraction: float) -> float:
    """The value below which ``fraction`` of ``ordered`` lies, linear between its neighbours.

    As numpy's default: R-7 of Hyndman and Fan, "Sample quantiles in statistical packages", 1996.
    Raises ValueError when ``ordered`` is empty.
    """
    if not ordered:
        raise ValueError("no percentile of nothing")
    place = (len(ordered) - 1) * fraction
    below = min(int(place), len(ordered) - 1)
    above = min(below + 1, len(ordered) - 1)
    low, high = ordered[below], ordered[above]
    return low + (high - low) * (place - below)


def statistics(values: Iterable[float]) -> Statistics | None:
    """Of ``values``, all finite; None if there are none."""
    ordered = sorted(values)
    n = len(ordered)
    if not n:
        return None
    mean = fsum(value / n for value in ordered)
    # Scaled, so that neither very large nor very small values leave the range when squared.
    largest = max(abs(value - mean) for value in ordered) or 1.0
    squares = fsum(((value - mean) / largest) ** 2 for value in ordered)
    std = largest * sqrt(squares / (n - 1)) if n > 1 else 0.0
    middle, late = percentile(ordered, 0.5), percentile(ordered, 0.95)
    return Statistics(n, mean, middle, late, std, ordered[0], ordered[-1])


def number(value: object) -> float | None:
    """``value`` as a float, spelled-out ones that JSON lacks included; None for anything else."""
    if isinstance(value, str):
        return _STRINGS.get(value)
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        try:
            return float(value)
        except OverflowError:
            return inf
    return None


class _Sample:
    """Collects numbers; eight bytes each."""

    __slots__ = ("count", "first", "is_loss", "last", "odd", "values")

    def __init__(self) -> None:
        self.values = array("d")
        self.count = 0
        self.odd = 0
        self.is_loss = False
        """Whether it is one of training, whose values are kept with their times, too."""
        self.first: object = None
        self.last: object = None

    def add(self, value: object) -> None:
        if not self.count:
            self.first = value
        self.last = value
        self.count += 1
        found = number(value)
        if found is None:
            return
        if isfinite(found):
            self.values.append(found)
        else:
            self.odd += 1


class _EventReader:
    """Sorts the events of a run into samples.

    ``origin(process, time)`` is what is added to the name of a loss that backward starts from.
    """

    def __init__(self, origin: Origin | None) -> None:
        self.origin = origin
        self.rates: dict[tuple[str, str, str], dict[int, _Sample]] = {}
        self.series: dict[tuple[str, str, str], _Sample] = {}
        self.regions: dict[tuple[str, str], _Sample] = {}
        self.events: dict[str, int] = {}
        self.benches: dict[str, dict[str, Any]] = {}
        self.losses: dict[tuple[int, str], TimedLoss] = {}

    def take(self, bench: str, event: str, data: Any) -> None:
        self.events[event] = self.events.get(event, 0) + 1
        if event in ("start", "end", "error"):
            self.benches.setdefault(bench, {}).setdefault(event, data)
        elif not isinstance(data, dict):
            return
        elif event == "data":
            self._data(bench, data)
        elif event == "region" and data.get("region") is not None:
            name = str(data["region"])
            self.regions.setdefault((bench, name), _Sample()).add(data.get("seconds"))

    def _data(self, bench: str, data: dict[str, Any]) -> None:
        task = str(data.get("task") or NO_TASK)
        if "rate" in data:
            unit = str(data.get("units") or "items/s")
            process = data.get("process")
            by_process = self.rates.setdefault((bench, task, unit), {})
            index = process if isinstance(process, int) else 0
            by_process.setdefault(index, _Sample()).add(data["rate"])
        for name, value in data.items():
            # What is made of parts (the state of every device, …) is no series of values.
            if name not in CONTEXT and not isinstance(value, (dict, list)):
                if self.origin is not None and (task, name) == BACKWARD:
                    process, time = data.get("process"), number(data.get("time"))
                    name += self.origin(process if isinstance(process, int) else 0, time or 0.0)
                key = bench, task, name
                sample = self.series.get(key)
                if sample is None:  # setdefault would make one for each of a million values
                    sample = self.series[key] = _Sample()
                    sample.is_loss = "loss" in name.lower() and task not in EVALUATING
                sample.add(value)
                if sample.is_loss:
                    self._timed(name, data.get("process"), number(data.get("time")), number(value))

    def _timed(self, name: str, process: object, time: float | None, value: float | None) -> None:
        if time is None or value is None or not isfinite(value):
            return
        key = process if isinstance(process, int) else 0, name
        known = self.losses.get(key)
        if known is None:
            known = self.losses[key] = TimedLoss(*key, array("d"), array("d"))
        known.times.append(time)
        known.values.append(value)


def recorded(run: Run, processes: Processes | None = None) -> Recorded:
    """Read the events of ``run`` once; ``processes`` as for :func:`.losses.origins_of`. Raises OSError."""
    try:
        origin, places = origins_of(run, processes)
    except Exception:  # the profile is made of the same files, and says what is wrong with them
        origin, places = None, {}
    reader, damage = _EventReader(origin), Damage()
    for bench, event, data in read_events(run, damage):
        reader.take(bench if len(run.data_files) > 1 else "", event, data)
    rates = (_rate(key, samples) for key, samples in reader.rates.items())
    regions = (_region(key, sample) for key, sample in reader.regions.items())
    return Recorded(
        rates=[rate for rate in rates if rate],
        series=_once([_series(key, sample, places) for key, sample in reader.series.items()]),
        regions=[region for region in regions if region],
        events=reader.events,
        benches=reader.benches,
        torn=damage.torn,
        losses=tuple(reader.losses.values()),
    )


def _once(found: list[ValueSeries]) -> list[ValueSeries]:
    """``found`` without the loss that backward starts from where a voirfile gives the same values."""
    task, name = BACKWARD
    given = [one for one in found if one.is_loss and not (one.task == task and _is(name, one.name))]
    values = [(one.n, one.first, one.last, one.statistics) for one in given if one.statistics]
    return [
        one
        for one in found
        if one in given
        or (one.n, one.first, one.last, one.statistics) not in values
        or not one.is_loss
    ]


def _is(name: str, found: str) -> bool:
    """Whether ``found`` is ``name``, perhaps with what it is of."""
    return found == name or found.startswith((f"{name} at ", f"{name} of "))


def _rate(key: tuple[str, str, str], samples: dict[int, _Sample]) -> Rate | None:
    overall = statistics(value for sample in samples.values() for value in sample.values)
    if overall is None:
        return None
    found = {index: statistics(samples[index].values) for index in sorted(samples)}
    several = {index: each for index, each in found.items() if each} if len(samples) > 1 else {}
    return Rate(*key, overall, several, sum(sample.odd for sample in samples.values()))


def _series(
    key: tuple[str, str, str], sample: _Sample, places: Mapping[str, SourceLine]
) -> ValueSeries:
    found = statistics(sample.values)
    place = places.get(key[2].removeprefix(BACKWARD[1])) if _is_backwards(key) else None
    source: LossSource | None = None
    if place is not None:
        from .loss_lines import loss_source  # most runs without steps have no loss

        source = loss_source(place)
    return ValueSeries(*key, sample.count, sample.first, sample.last, found, sample.odd, source)


def _is_backwards(key: tuple[str, str, str]) -> bool:
    return key[1] == BACKWARD[0] and _is(BACKWARD[1], key[2])


def _region(key: tuple[str, str], sample: _Sample) -> TimedRegion | None:
    found = statistics(sample.values)
    return TimedRegion(*key, fsum(sample.values), found) if found else None
