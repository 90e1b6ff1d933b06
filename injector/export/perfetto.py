"""Exports to a Perfetto trace: of each process its steps, the regions of its threads, its devices and values,
and what torch.profiler recorded; of each host what the monitor sampled.

A run may have millions of spans, too many to make each packet by Perfetto's own classes. So these make one
packet for all spans of a track, with placeholders for the few numbers that differ. Its bytes are copied once
for each span, and the placeholders are replaced by columns (:func:`_rows`). All these packets have the same
length, as a varint may have more bytes than its number needs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt

from ..analysis.columns import SECOND, Ints, RecordedProcess, read_rows, sources
from ..analysis.traces import Thread, threads_of
from ..analysis.tracks import Track, split
from ..store.call_sites import CallSite, SourceLine
from ..store.folder import Run
from ..store.place import replace_file
from .content import Content
from .series import Series, sample_series, value_series
from .torch_profile import TorchTrace, profiles_of
from .tracked import Destination, missing_library, path_of

Rows = npt.NDArray[np.uint8]
"""The bytes of packets, one a row."""
TIME, NAME, PLACE, COUNT = (1 << 62) + 5, (1 << 20) + 77, (1 << 20) + 78, (1 << 34) + 79
"""Placeholders for numbers. The numbers are written with as many bytes as these have."""
VALUE = 1.2345678901234567e-300
"""The placeholder for a float."""
SEQUENCE = 1
CLEARED, NEEDED = 1, 2
"""Flags of a packet: numbers of names begin anew, and earlier ones are needed."""


def export(contents: Iterable[Content], target: Destination) -> Iterator[str]:
    """Write each run to a file. Yields sentences on where. Raises UserError, OSError."""
    try:
        from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as protos
    except ImportError as error:
        raise missing_library(error, "perfetto") from None
    for content in contents:
        path = path_of(content.name, target, ".pftrace")
        trace = Trace(protos)
        write_run(trace, content.run, profiles_of(content.files))
        replace_file(path, trace.pieces())
        yield (
            f"{path}: {trace.slices} slices and {trace.samples} samples; open it with "
            "https://ui.perfetto.dev, which reads the file in the browser and sends it nowhere"
        )


class Trace:
    """The packets of one trace."""

    def __init__(self, protos: Any) -> None:
        self.protos = protos
        self.slices = 0
        self.samples = 0
        self._chunks: list[bytes] = []
        self._names = protos.TracePacket(
            trusted_packet_sequence_id=SEQUENCE, sequence_flags=CLEARED
        )
        self._numbers: dict[tuple[str, str, int], int] = {}
        """The number of each name with a file and a line."""
        self._tracks = 0
        self._first: int | None = None
        """The earliest time in the trace, unix nanoseconds."""

    def pieces(self) -> list[bytes]:
        """The bytes of the trace, to be joined."""
        clock = self.protos.TracePacket(trusted_packet_sequence_id=SEQUENCE)
        for kind in (self.protos.BUILTIN_CLOCK_BOOTTIME, self.protos.BUILTIN_CLOCK_REALTIME):
            clock.clock_snapshot.clocks.add(clock_id=kind, timestamp=self._first or 0)
        head = self.protos.Trace(packet=[clock, self._names])
        return [head.SerializeToString(), *self._chunks]

    def track(
        self, name: str, parent: int | None = None, pid: int | None = None, unit: str | None = None
    ) -> int:
        """Add a track in the track ``parent``, and return its number.

        ``pid`` makes it the track of a process, ``unit`` that of a counter.
        """
        self._tracks += 1
        packet = self.protos.TracePacket(trusted_packet_sequence_id=SEQUENCE)
        track = packet.track_descriptor
        track.uuid = track.sibling_order_rank = self._tracks
        track.child_ordering = track.EXPLICIT
        if parent is not None:
            track.parent_uuid = parent
        if pid is not None:
            track.process.pid, track.process.process_name = pid, name
        else:
            track.name = name
        if unit is not None:
            track.counter.unit_name = unit
        self._chunks.append(self.protos.Trace(packet=[packet]).SerializeToString())
        return self._tracks

    def name(self, text: str, place: SourceLine | None = None) -> int:
        """The number of a name and a line of the program, under which both are found."""
        file, line = (place.file, place.line) if place else ("", 0)
        key = (text, file, line)
        if key not in self._numbers:
            number = self._numbers[key] = (1 << 14) + len(self._numbers)
            self._names.interned_data.event_names.add(iid=number, name=text)
            self._names.interned_data.source_locations.add(
                iid=number, file_name=file, line_number=line
            )
        return self._numbers[key]

    def add_slices(
        self,
        track: int,
        start: Ints,
        end: Ints,
        names: Ints,
        category: str,
        counts: tuple[str, Ints] | None = None,
    ) -> None:
        """Add slices that nest, from ``start`` to ``end`` (unix nanoseconds).

        They are in the order of their starts, and one that encloses another comes before it. ``names`` are
        numbers of :meth:`name`. ``counts``: the name of a number that each slice has, and these numbers.
        """
        if not len(start):
            return
        begin = self._event(track, self.protos.TrackEvent.TYPE_SLICE_BEGIN)
        event = begin.track_event
        event.name_iid, event.source_location_iid = NAME, PLACE
        event.categories.append(category)
        columns = {TIME: start, NAME: names, PLACE: names}
        if counts is not None:
            event.debug_annotations.add(name=counts[0], uint_value=COUNT)
            columns[COUNT] = counts[1]
        finish = self._event(track, self.protos.TrackEvent.TYPE_SLICE_END)
        finish.track_event.name_iid = NAME
        begins, ends = _rows(begin, columns), _rows(finish, {TIME: end, NAME: names})
        self._write(begins, ends, _order_in_time(start, end))
        self._note_time(int(start.min()))
        self.slices += len(start)

    def add_counter(self, track: int, times: Ints, values: npt.NDArray[np.float64]) -> None:
        """Add values of a counter at ``times`` (unix nanoseconds)."""
        if not len(times):
            return
        packet = self._event(track, self.protos.TrackEvent.TYPE_COUNTER)
        packet.track_event.double_counter_value = VALUE
        self._chunks.append(_rows(packet, {TIME: times}, values).tobytes())
        self._note_time(int(times.min()))
        self.samples += len(times)

    def _event(self, track: int, kind: int) -> Any:
        """A packet with a placeholder for its time."""
        packet = self.protos.TracePacket(
            timestamp=TIME, trusted_packet_sequence_id=SEQUENCE, sequence_flags=NEEDED
        )
        packet.track_event.type, packet.track_event.track_uuid = kind, track
        return packet

    def _note_time(self, time: int) -> None:
        self._first = time if self._first is None else min(time, self._first)

    def _write(self, begins: Rows, ends: Rows, order: Ints) -> None:
        """Write n ``begins``, which ``order`` numbers from 0, and n ``ends``, which it numbers from n."""
        n = len(begins)
        width = np.where(order < n, begins.shape[1], ends.shape[1])
        offset = np.concatenate(([0], np.cumsum(width)))
        out = np.empty(int(offset[-1]), np.uint8)
        for rows, is_kind in ((begins, order < n), (ends, order >= n)):
            at = offset[:-1][is_kind][:, None] + np.arange(rows.shape[1])
            out[at] = rows[order[is_kind] % n]
        self._chunks.append(out.tobytes())


def _order_in_time(start: Ints, end: Ints) -> Ints:
    """The order in time of n begins (numbers from 0) and n ends (numbers from n) of slices.

    At the same moment slices end before others begin, inner ones first. A slice without length ends right
    after it has begun.
    """
    n = len(start)
    row = np.arange(n)
    times = np.concatenate((start, end))
    begins = np.concatenate((np.ones(n, np.bool_), end == start))
    rank = np.concatenate((2 * row, np.where(end == start, 2 * row + 1, -row)))
    order: Ints = np.lexsort((rank, begins, times))
    return order


def _rows(
    packet: Any, columns: Mapping[int, Ints], values: npt.NDArray[np.float64] | None = None
) -> Rows:
    """The bytes of ``packet``, once for each row of ``columns``, which replace the placeholders by which they
    are keyed. ``values`` replace :data:`VALUE`.

    A varint has 7 bits of its number in each byte, the lowest first; the eighth says that more bytes follow.
    """
    body: bytes = packet.SerializeToString()
    template = b"\x0a" + _varint(len(body)) + body  # field 1 of the trace, bytes of this length
    n = len(next(iter(columns.values())))
    rows = np.tile(np.frombuffer(template, np.uint8), (n, 1))
    for placeholder, column in columns.items():
        encoded = _varint(placeholder)
        at = template.index(encoded)
        for byte in range(len(encoded)):
            more = 0x80 if byte + 1 < len(encoded) else 0
            rows[:, at + byte] = (np.maximum(column, 0) >> (7 * byte)) & 0x7F | more
    if values is not None:
        at = template.index(np.float64(VALUE).astype("<f8").tobytes())
        rows[:, at : at + 8] = values.astype("<f8")[:, None].view(np.uint8)
    return rows


def _varint(number: int) -> bytes:
    encoded = bytearray()
    while number > 0x7F:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*encoded, number])


# --- the parts of a run ---------------------------------------------------------------------------


def write_run(trace: Trace, run: Run, profiles: Iterable[TorchTrace] = ()) -> None:
    """Add all of ``run`` to ``trace``, with what torch.profiler recorded of it. Raises OSError."""
    profile_of: dict[tuple[str, int | None], TorchTrace] = {
        (one.host, one.pid): one for one in profiles
    }
    pids: set[int] = set()
    for source in sources(run):
        # Two processes may have the same id: on two machines, or one after the other.
        pid = source.pid if source.pid and source.pid not in pids else (1 << 30) + source.index
        pids.add(pid)
        name = f"{source.name} on {source.host}"
        process = trace.track(name, pid=pid)
        if source.has_spans():
            _write_spans(trace, source, process)
        profile = profile_of.get((source.host, source.pid))
        if profile is not None:
            _write_profile(trace, profile, process, source.shift)
    _write_series(trace, value_series(run, ()), sample_series(run))


def _write_spans(trace: Trace, source: RecordedProcess, process: int) -> None:
    """Add tracks of a process's steps, of the regions of each thread, and of each device."""
    rows = read_rows(source)
    for thread in threads_of(source, rows):
        _write_steps(trace, thread, process)
        name = "regions" if thread.number == 0 else f"regions of thread {thread.number}"
        _write_track(trace, name, process, thread.track, source.sites, "host")
    for device, track in split(rows, source.sites, "device").items():
        _write_track(trace, str(device) or "device", process, track, source.sites, "device")


def _write_steps(trace: Trace, thread: Thread, process: int) -> None:
    """Add a track for the steps of each loop of a thread, and one for its evaluations."""
    for one in thread.traces:
        name = trace.name(f"{one.pace.task} step", one.pace.place)
        n = len(one.start)
        track = trace.track(f"steps: {one.pace.task}", process)
        trace.add_slices(
            track, one.start, one.end, np.full(n, name), "step", ("step", np.arange(n))
        )
    if len(thread.passes):
        track = trace.track("evaluation", process)
        names = np.full(len(thread.passes), trace.name("evaluation"))
        trace.add_slices(track, thread.passes.start, thread.passes.end, names, "evaluation")


def _write_track(
    trace: Trace,
    name: str,
    process: int,
    track: Track,
    sites: Mapping[int, CallSite],
    category: str,
) -> None:
    """Add the whole spans of ``track``. Slices have to nest, so overlapping spans get tracks of their own."""
    numbers = np.zeros(1 + max(sites), np.int64)
    for number, site in sites.items():
        numbers[number] = trace.name(site.region, site.place)
    for lane, rows in enumerate(track.lanes()):
        title = f"{name} (overlapping{f' {lane}' if lane > 1 else ''})" if lane else name
        names = numbers[track.site[rows]]
        start, end = track.start[rows], track.end[rows]
        trace.add_slices(trace.track(title, process), start, end, names, category)


def _write_profile(trace: Trace, profile: TorchTrace, process: int, shift: int) -> None:
    """Add what torch.profiler recorded in a process.

    ``shift`` is unix time less the process's monotonic clock, in nanoseconds.
    """
    for title, lanes in profile.tracks(shift).items():
        for number, (names, start, end) in enumerate(lanes):
            track = trace.track(title if not number else f"{title} (overlapping {number})", process)
            numbers = np.array([trace.name(name) for name in names], np.int64)
            trace.add_slices(track, start, end, numbers, "torch.profiler")


def _write_series(trace: Trace, values: Iterable[Series], samples: Iterable[Series]) -> None:
    """Add the program's values and the monitor's samples as counters, in groups."""
    groups: dict[str, int] = {}
    for one, parts in chain(
        ((one, ["values", one.name]) for one in values),
        ((one, _groups_of(one.name)) for one in samples),
    ):
        parent = None
        for depth, title in enumerate(parts[:-1], 1):
            group = "/".join(parts[:depth])
            if group not in groups:
                groups[group] = trace.track(title, parent)
            parent = groups[group]
        track = trace.track(parts[-1], parent, unit=one.unit)
        trace.add_counter(track, (one.times * SECOND).astype(np.int64), one.values)


def _groups_of(name: str) -> list[str]:
    """The tracks of ``devices/HOST/0/power``, each in the one before: ``devices``, ``HOST/0``, ``power``."""
    kind, _, rest = name.partition("/")
    return [kind, *rest.rsplit("/", 1)]
