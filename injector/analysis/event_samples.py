"""The values of a run's events, sorted into samples: one for each rate, series and region.

A run of some hours has millions of events, and what is done for each of them is what reading costs. So
events with the same keys are held back and handled as columns, up to a thousand at a time; see
:class:`_EventGroup` for how their order is kept.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping, Sequence
from math import isfinite

from ..named_tuple import NamedTuple
from ..store.call_sites import EVALUATING
from ..store.folder import process_of
from .statistics import number

TYPE_CHECKING = False  # importing typing would cost 5 ms
if TYPE_CHECKING:
    from typing import Any

    from .losses import Origin

BACKWARD = ("train", "loss")
"""Task and name under which shipped voirfiles record the loss that backward starts from."""
CONTEXT = frozenset(
    {"task", "rate", "units", "time", "process", "rank", "host", "progress", "batch_id", "elapsed"}
    | {"io", "items", "of"}
)
"""Keys of a ``data`` event that say what its values belong to, and are no values themselves."""
_NUMBERS = frozenset((float, int))
_GROUP_SIZE = 1024
"""How many events with the same keys are handled together."""


class TimedLoss(NamedTuple):
    """The finite values of one training loss in one process, in the order in which they were recorded."""

    process: int
    """Index of ``processes`` in run.json."""
    label: str
    times: array[float]
    """Unix seconds."""
    values: array[float]


class ValueSample:
    """All values of one name; the finite numbers among them take eight bytes each."""

    __slots__ = ("count", "first", "is_loss", "last", "last_event", "odd", "values")

    def __init__(self) -> None:
        self.values = array("d")
        self.last_event = self.count = 0
        """The number of the event that ``last`` is from, and how many values there are of any type."""
        self.odd = 0
        self.is_loss = False
        """Whether it is a training loss, of which :class:`TimedLoss` has the times too."""
        self.first: object = None
        self.last: object = None

    def add(self, values: Sequence[object], last_event: int) -> None:
        """Add ``values``, the last of which is from the event with the number ``last_event``."""
        if not self.count:
            self.first = values[0]
        # Groups of different processes come out of order.
        if last_event >= self.last_event:
            self.last_event, self.last = last_event, values[-1]
        self.count += len(values)
        finite = _finite(values)
        if finite is not None:
            self.values.extend(finite)
            return
        for value in map(number, values):
            if value is not None and isfinite(value):
                self.values.append(value)
            elif value is not None:
                self.odd += 1


def _finite(values: Sequence[Any]) -> array[float] | None:
    """``values`` as an array if all of them are finite numbers, else None.

    Nearly always they are, and converting them one by one takes ten times as long.
    """
    if not _NUMBERS.issuperset(map(type, values)):
        return None
    try:
        converted = array("d", values)
    except OverflowError:
        return None
    return converted if all(map(isfinite, converted)) else None


class _EventGroup:
    """Events of one process and task with the same keys, which wait to be handled together.

    Each series must get its values in the order of the events. Within a group it does. Two groups of a
    process may feed the same series, though: where a program records ``{"loss", "lr"}`` in most steps and
    ``{"loss"}`` in others, both have ``loss``. Such groups are rivals, and as soon as an event comes for one
    of them, what waits in the other is handled first.
    """

    __slots__ = ("bench", "events", "last_event", "rivals", "size")

    def __init__(self, bench: str) -> None:
        self.bench = bench
        self.last_event = 0
        """The number of its latest event."""
        self.events: list[dict[str, Any]] = []
        self.size = 1
        """At how many events it is handled. The first one is at once: series are listed in the order of
        their first values."""
        self.rivals: list[_EventGroup] = []


class EventReader:
    """Sorts the events of a run into samples.

    ``origin(process, time)`` gives what is appended to the name of a loss that backward starts from, so that
    the losses of several models or trials become series of their own; None where that is not needed.
    """

    def __init__(self, origin: Origin | None) -> None:
        self.origin = origin
        self.rates: dict[tuple[str, str, str], dict[int, ValueSample]] = {}
        self.series: dict[tuple[str, str, str], ValueSample] = {}
        self.regions: dict[tuple[str, str], ValueSample] = {}
        self.events: dict[str, int] = {}
        self.benches: dict[str, dict[str, Any]] = {}
        self.losses: dict[tuple[int, str], TimedLoss] = {}
        self._data_events = 0
        self._groups: dict[tuple[object, ...], _EventGroup] = {}
        self._groups_with: dict[tuple[int, str], list[_EventGroup]] = {}
        """By process and name of a value."""

    def add(self, bench: str, event: str, data: Any) -> None:
        """Take in the next event of the file ``bench``. After the last one, :meth:`flush` must follow."""
        self.events[event] = self.events.get(event, 0) + 1
        if event in ("start", "end", "error"):
            # All processes write to one file. The first error is the cause of those that follow.
            self.benches.setdefault(bench, {}).setdefault(event, data)
        elif not isinstance(data, dict):
            return
        elif event == "data":
            self._add_data(bench, data)
        elif event == "region" and data.get("region") is not None:
            name = str(data["region"])
            self.regions.setdefault((bench, name), ValueSample()).add([data.get("seconds")], 0)

    def flush(self) -> None:
        """Handle the events that still wait."""
        for group in self._groups.values():
            self._flush_group(group)

    def _add_data(self, bench: str, data: dict[str, Any]) -> None:
        self._data_events += 1
        key = (bench, data.get("task"), data.get("process"), data.get("units"), *data)
        try:
            group = self._groups.get(key)
        except TypeError:  # the program recorded a list or an object as its task, say
            self.flush()  # whatever it has in common with groups: values stay in order
            self._handle(bench, [data], self._data_events)
            return
        if group is None:
            group = self._groups[key] = self._new_group(bench, data)
        for rival in group.rivals:
            self._flush_group(rival)
        group.events.append(data)
        group.last_event = self._data_events
        if len(group.events) == group.size:
            self._flush_group(group)
            group.size = _GROUP_SIZE

    def _new_group(self, bench: str, data: Mapping[str, Any]) -> _EventGroup:
        """A group for events with the keys of ``data``, known to its rivals."""
        group, process = _EventGroup(bench), process_of(data)
        # A rate is a value too, although its samples are apart from the series.
        for name in data.keys() - (CONTEXT - {"rate"}):
            rivals = self._groups_with.setdefault((process, name), [])
            for rival in rivals:
                group.rivals.append(rival)
                rival.rivals.append(group)
            rivals.append(group)
        return group

    def _flush_group(self, group: _EventGroup) -> None:
        events, group.events = group.events, []
        if events:
            self._handle(group.bench, events, group.last_event)

    def _handle(self, bench: str, events: list[dict[str, Any]], last_event: int) -> None:
        """Add the values of ``events``, which have the same keys, task and process, to their samples."""
        data = events[0]
        task = str(data.get("task") or "")
        process = process_of(data)
        if "rate" in data:
            unit = str(data.get("units") or "items/s")
            by_process = self.rates.setdefault((bench, task, unit), {})
            rates = [event["rate"] for event in events]
            by_process.setdefault(process, ValueSample()).add(rates, last_event)
        for name in data:
            if name not in CONTEXT:
                for label, part in self._by_origin(task, name, process, events):
                    self._add_values((bench, task, name + label), process, part, name, last_event)

    def _by_origin(
        self, task: str, name: str, process: int, events: list[dict[str, Any]]
    ) -> Iterable[tuple[str, list[dict[str, Any]]]]:
        """Divide ``events`` by what is appended to ``name`` for each of them."""
        # Lists and objects (such as the state of every device) are no series of values.
        if not _NUMBERS.issuperset(type(event[name]) for event in events):
            events = [event for event in events if not isinstance(event[name], (dict, list))]
        if self.origin is None or (task, name) != BACKWARD:
            return [("", events)] if events else []
        parts: dict[str, list[dict[str, Any]]] = {}
        for event in events:
            label = self.origin(process, number(event.get("time")) or 0.0)
            parts.setdefault(label, []).append(event)
        return parts.items()

    def _add_values(
        self,
        key: tuple[str, str, str],
        process: int,
        events: list[dict[str, Any]],
        name: str,
        last_event: int,
    ) -> None:
        """Add the values ``name`` of ``events`` to the series ``key``: bench, task and labelled name."""
        sample = self.series.get(key)
        if sample is None:
            sample = self.series[key] = ValueSample()
            # Evaluation has a loss as well, but what an epoch of training reached is another one.
            sample.is_loss = "loss" in key[2].lower() and key[1] not in EVALUATING
        values = [event[name] for event in events]
        sample.add(values, last_event)
        if sample.is_loss:
            self._add_loss((process, key[2]), [event.get("time") for event in events], values)

    def _add_loss(
        self, key: tuple[int, str], times: Sequence[object], values: Sequence[object]
    ) -> None:
        """Add ``values`` with their ``times`` to the loss ``key``, but for those that are not finite."""
        moments, finite = _finite(times), _finite(values)
        if moments is None or finite is None:
            pairs = zip(map(number, times), map(number, values), strict=True)
            known = [(t, v) for t, v in pairs if t is not None and v is not None and isfinite(v)]
            moments, finite = array("d", (t for t, _ in known)), array("d", (v for _, v in known))
        if not finite:
            return
        loss = self.losses.get(key)
        if loss is None:
            loss = self.losses[key] = TimedLoss(*key, array("d"), array("d"))
        loss.times.extend(moments)
        loss.values.extend(finite)
