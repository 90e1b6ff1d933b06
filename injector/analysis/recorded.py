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
_NUMBERS = frozenset((float, int))
_AT_ONCE = 1024
"""Events with the same keys that are taken together."""
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

    __slots__ = ("at", "count", "first", "is_loss", "last", "odd", "values")

    def __init__(self) -> None:
        self.values = array("d")
        self.at = self.count = 0
        self.odd = 0
        self.is_loss = False
        """Whether it is one of training, whose values are kept with their times, too."""
        self.first: object = None
        self.last: object = None

    def add(self, values: Sequence[object], at: int) -> None:
        """``values``, the last of which was the event of number ``at``."""
        if not self.count:
            self.first = values[0]
        if at >= self.at:
            self.at, self.last = at, values[-1]
        self.count += len(values)
        found = _finite(values)
        if found is not None:
            self.values.extend(found)
            return
        for value in map(number, values):
            if value is not None and isfinite(value):
                self.values.append(value)
            elif value is not None:
                self.odd += 1


def _finite(values: Sequence[Any]) -> array[float] | None:
    """``values`` if they are finite numbers, all of them: one by one they take ten times as long."""
    if not _NUMBERS.issuperset(map(type, values)):
        return None
    try:
        found = array("d", values)
    except OverflowError:
        return None
    return found if all(map(isfinite, found)) else None


class _Alike:
    """Events of one process and task that have the same keys, and wait to be taken together."""

    __slots__ = ("at", "bench", "events", "most", "others")

    def __init__(self, bench: str) -> None:
        self.bench = bench
        self.at = 0
        """The number of the last of them."""
        self.events: list[dict[str, Any]] = []
        self.most = 1  # the first at once: series are in the order of their first values
        self.others: list[_Alike] = []
        """Those with some of its values, which are to stay in order."""


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
        self._at = 0
        self._alike: dict[tuple[object, ...], _Alike] = {}
        self._of_value: dict[tuple[int, str], list[_Alike]] = {}

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
            self.regions.setdefault((bench, name), _Sample()).add([data.get("seconds")], 0)

    def _data(self, bench: str, data: dict[str, Any]) -> None:
        self._at += 1
        whose = (bench, data.get("task"), data.get("process"))
        key = (*whose, data.get("units"), *data)
        try:
            alike = self._alike.get(key)
        except TypeError:  # one of them is made of parts
            self.take_rest()  # in the order of the events
            self._together(bench, [data], self._at)
            return
        if alike is None:
            alike = self._alike[key] = self._of_new_keys(bench, data)
        for other in alike.others:
            self._taken(other)
        alike.events.append(data)
        alike.at = self._at
        if len(alike.events) == alike.most:
            self._taken(alike)
            alike.most = _AT_ONCE

    def _of_new_keys(self, bench: str, data: Mapping[str, Any]) -> _Alike:
        made, process = _Alike(bench), _index(data)
        for name in data.keys() - (CONTEXT - {"rate"}):
            known = self._of_value.setdefault((process, name), [])
            for other in known:
                made.others.append(other)
                other.others.append(made)
            known.append(made)
        return made

    def take_rest(self) -> None:
        """The events that still wait."""
        for alike in self._alike.values():
            self._taken(alike)

    def _taken(self, alike: _Alike) -> None:
        events, alike.events = alike.events, []
        if events:
            self._together(alike.bench, events, alike.at)

    def _together(self, bench: str, events: list[dict[str, Any]], at: int) -> None:
        """Take ``events``, which have the same keys, task and process."""
        data = events[0]
        task = str(data.get("task") or NO_TASK)
        index = _index(data)
        if "rate" in data:
            unit = str(data.get("units") or "items/s")
            by_process = self.rates.setdefault((bench, task, unit), {})
            by_process.setdefault(index, _Sample()).add([each["rate"] for each in events], at)
        for name in data:
            if name not in CONTEXT:
                for label, part in self._by_origin(task, name, index, events):
                    self._values((bench, task, name + label), index, part, name, at)

    def _by_origin(
        self, task: str, name: str, process: int, events: list[dict[str, Any]]
    ) -> Iterable[tuple[str, list[dict[str, Any]]]]:
        """``events`` that have a value ``name``, by what is added to that name."""
        # What is made of parts (the state of every device, …) is no series of values.
        if not _NUMBERS.issuperset(type(each[name]) for each in events):
            events = [each for each in events if not isinstance(each[name], (dict, list))]
        if self.origin is None or (task, name) != BACKWARD:
            return [("", events)] if events else []
        parts: dict[str, list[dict[str, Any]]] = {}
        for each in events:
            label = self.origin(process, number(each.get("time")) or 0.0)
            parts.setdefault(label, []).append(each)
        return parts.items()

    def _values(
        self,
        key: tuple[str, str, str],
        process: int,
        events: list[dict[str, Any]],
        name: str,
        at: int,
    ) -> None:
        """The values ``name`` of ``events``, as those of the series ``key``."""
        sample = self.series.get(key)
        if sample is None:
            sample = self.series[key] = _Sample()
            sample.is_loss = "loss" in key[2].lower() and key[1] not in EVALUATING
        values = [each[name] for each in events]
        sample.add(values, at)
        if sample.is_loss:
            self._timed((process, key[2]), [each.get("time") for each in events], values)

    def _timed(
        self, key: tuple[int, str], times: Sequence[object], values: Sequence[object]
    ) -> None:
        moments, found = _finite(times), _finite(values)
        if moments is None or found is None:
            pairs = zip(map(number, times), map(number, values), strict=True)
            known = [(t, v) for t, v in pairs if t is not None and v is not None and isfinite(v)]
            moments, found = array("d", (t for t, _ in known)), array("d", (v for _, v in known))
        if not found:
            return
        loss = self.losses.get(key)
        if loss is None:
            loss = self.losses[key] = TimedLoss(*key, array("d"), array("d"))
        loss.times.extend(moments)
        loss.values.extend(found)


def _index(data: Mapping[str, Any]) -> int:
    process = data.get("process")
    return process if isinstance(process, int) else 0


def recorded(run: Run, processes: Processes | None = None) -> Recorded:
    """Read the events of ``run`` once; ``processes`` as for :func:`.losses.origins_of`. Raises OSError."""
    try:
        origin, places = origins_of(run, processes)
    except Exception:  # the profile is made of the same files, and says what is wrong with them
        origin, places = None, {}
    reader, damage = _EventReader(origin), Damage()
    for bench, event, data in read_events(run, damage):
        reader.take(bench if len(run.data_files) > 1 else "", event, data)
    reader.take_rest()
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
