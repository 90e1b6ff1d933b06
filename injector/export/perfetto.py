"""A run as a Perfetto trace: per process its steps, the regions of its threads, its devices and values; per
host what the monitor saw; and what torch.profiler recorded of it.

The packets are made by Perfetto's own classes. A run has millions of spans, though, so those of one track
are copies of one packet in which only a few numbers differ, written by columns: a number stands in the packet
as a varint, whose bytes may be more than it needs.
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
from ..analysis.wording import rank_name
from ..store.call_sites import CallSite, SourceLine
from ..store.folder import Run
from ..store.place import replace_file
from .content import Content, Series, samples_of, values_of
from .torch_profile import TorchTrace, profiles_of
from .tracked import Destination, missing_library, path_of

Rows = npt.NDArray[np.uint8]
TIME, NAME, PLACE, COUNT = (1 << 62) + 5, (1 << 20) + 77, (1 << 20) + 78, (1 << 34) + 79
"""Numbers that stand in a packet for those that differ: as wide as these are, they are written."""
VALUE = 1.2345678901234567e-300
SEQUENCE = 1
CLEARED, NEEDED = 1, 2
"""Flags of a packet: names are numbered anew from here; those of before are needed."""


def export(contents: Iterable[Content], target: Destination) -> Iterator[str]:
    """Write each run to a file; the sentences that say where. Raises UserError, OSError."""
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
        self._tracks = 0
        self._first: int | None = None

    def pieces(self) -> list[bytes]:
        """The bytes of the trace."""
        clock = self.protos.TracePacket(trusted_packet_sequence_id=SEQUENCE)
        for kind in (self.protos.BUILTIN_CLOCK_BOOTTIME, self.protos.BUILTIN_CLOCK_REALTIME):
            clock.clock_snapshot.clocks.add(clock_id=kind, timestamp=self._first or 0)
        head = self.protos.Trace(packet=[clock, self._names])
        return [head.SerializeToString(), *self._chunks]

    def track(self, name: str, parent: int | None = None, **facts: Any) -> int:
        """A track of its own, in ``parent``; ``facts``: ``pid`` of a process, ``unit`` of a counter."""
        self._tracks += 1
        packet = self.protos.TracePacket(trusted_packet_sequence_id=SEQUENCE)
        made = packet.track_descriptor
        made.uuid = made.sibling_order_rank = self._tracks
        made.child_ordering = made.EXPLICIT
        if parent is not None:
            made.parent_uuid = parent
        if "pid" in facts:
            made.process.pid, made.process.process_name = facts["pid"], name
        else:
            made.name = name
        if "unit" in facts:
            made.counter.unit_name = facts["unit"]
        self._chunks.append(self.protos.Trace(packet=[packet]).SerializeToString())
        return self._tracks

    def name(self, text: str, place: SourceLine | None = None) -> int:
        """The number of a name, together with that of the line of the program it stands at."""
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
        """Slices in the order of their start, whatever encloses others before them; unix nanoseconds."""
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
        over = self._event(track, self.protos.TrackEvent.TYPE_SLICE_END)
        over.track_event.name_iid = NAME
        begins, ends = _rows(begin, columns), _rows(over, {TIME: end, NAME: names})
        self._write(begins, ends, _merged(start, end))
        self._saw(int(start.min()))
        self.slices += len(start)

    def add_counter(self, track: int, times: Ints, values: npt.NDArray[np.float64]) -> None:
        """The values of a counter; unix nanoseconds."""
        if not len(times):
            return
        packet = self._event(track, self.protos.TrackEvent.TYPE_COUNTER)
        packet.track_event.double_counter_value = VALUE
        self._chunks.append(_rows(packet, {TIME: times}, values).tobytes())
        self._saw(int(times.min()))
        self.samples += len(times)

    def _event(self, track: int, kind: int) -> Any:
        packet = self.protos.TracePacket(
            timestamp=TIME, trusted_packet_sequence_id=SEQUENCE, sequence_flags=NEEDED
        )
        packet.track_event.type, packet.track_event.track_uuid = kind, track
        return packet

    def _saw(self, time: int) -> None:
        self._first = time if self._first is None else min(time, self._first)

    def _write(self, begins: Rows, ends: Rows, order: Ints) -> None:
        """Both kinds of rows in ``order``, in which the ends have the numbers after the begins."""
        wide, n = begins.shape[1], len(begins)
        width = np.where(order < n, wide, ends.shape[1])
        place = np.concatenate(([0], np.cumsum(width)))
        out = np.empty(int(place[-1]), np.uint8)
        for rows, mine in ((begins, order < n), (ends, order >= n)):
            at = place[:-1][mine][:, None] + np.arange(rows.shape[1])
            out[at] = rows[order[mine] % n]
        self._chunks.append(out.tobytes())


def _merged(start: Ints, end: Ints) -> Ints:
    """The order of all begins (0…) and ends (n…) in time.

    Of the same moment: what ends, inner slices first, before what begins; a slice without length is over as
    soon as it has begun.
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
    """``packet`` once for each row of ``columns``, with its numbers for those that stand there."""
    body: bytes = packet.SerializeToString()
    one = b"\x0a" + _varint(len(body)) + body  # field 1 of the trace, as bytes of this length
    n = len(next(iter(columns.values())))
    rows = np.tile(np.frombuffer(one, np.uint8), (n, 1))
    for number, column in columns.items():
        sought = _varint(number)
        at = one.index(sought)
        for byte in range(len(sought)):
            more = 0x80 if byte + 1 < len(sought) else 0
            rows[:, at + byte] = (np.maximum(column, 0) >> (7 * byte)) & 0x7F | more
    if values is not None:
        at = one.index(np.float64(VALUE).astype("<f8").tobytes())
        rows[:, at : at + 8] = values.astype("<f8")[:, None].view(np.uint8)
    return rows


def _varint(number: int) -> bytes:
    found = bytearray()
    while number > 0x7F:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*found, number])


# --- what a run has -------------------------------------------------------------------------------


def write_run(trace: Trace, run: Run, profiles: Iterable[TorchTrace] = ()) -> None:
    """Put all of ``run`` into ``trace``, with what torch.profiler recorded of it. Raises OSError."""
    by_process: dict[tuple[str, int | None], TorchTrace] = {
        (one.host, one.pid): one for one in profiles
    }
    pids: set[int] = set()
    for source in sources(run):
        pid = source.pid if source.pid and source.pid not in pids else (1 << 30) + source.index
        pids.add(pid)  # on two machines, or one after the other, two processes may have the same
        name = f"{rank_name(source.rank, source.pid)} on {source.host}"
        process = trace.track(name, pid=pid)
        if source.has_spans():
            _write_spans(trace, source, process)
        profile = by_process.get((source.host, source.pid))
        if profile is not None:
            _write_profile(trace, profile, process, source.shift)
    _write_series(trace, values_of(run, ()), samples_of(run))


def _write_spans(trace: Trace, source: RecordedProcess, process: int) -> None:
    rows = read_rows(source)
    for thread in threads_of(source, rows):
        _write_steps(trace, thread, process)
        name = "regions" if thread.number == 0 else f"regions of thread {thread.number}"
        _write_track(trace, name, process, thread.track, source.sites, "host")
    for device, track in split(rows, source.sites, "device").items():
        _write_track(trace, str(device) or "device", process, track, source.sites, "device")


def _write_steps(trace: Trace, thread: Thread, process: int) -> None:
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
    """The spans of a track, whole: slices enclose each other, so that those which overlap others without
    lying in them are on tracks of their own.
    """
    numbers = np.zeros(1 + max(sites), np.int64)
    for number, site in sites.items():
        numbers[number] = trace.name(site.region, site.place)
    for lane, mine in enumerate(track.lanes()):
        made = trace.track(
            f"{name} (overlapping{f' {lane}' if lane > 1 else ''})" if lane else name, process
        )
        names = numbers[track.site[mine]]
        trace.add_slices(made, track.start[mine], track.end[mine], names, category)


def _write_profile(trace: Trace, profile: TorchTrace, process: int, shift: int) -> None:
    """What torch.profiler recorded in a process whose monotonic clock is ``shift`` before unix time."""
    for title, lanes in profile.tracks(shift).items():
        for number, (names, start, end) in enumerate(lanes):
            track = trace.track(title if not number else f"{title} (overlapping {number})", process)
            numbers = np.array([trace.name(name) for name in names], np.int64)
            trace.add_slices(track, start, end, numbers, "torch.profiler")


def _write_series(trace: Trace, values: Iterable[Series], samples: Iterable[Series]) -> None:
    """Values of the program and samples of machines, grouped; what steps say is in their slices."""
    groups: dict[str, int] = {}
    for one, parts in chain(
        ((one, ["values", one.name]) for one in values),
        ((one, _place_of(one.name)) for one in samples),
    ):
        parent = None
        for depth, title in enumerate(parts[:-1], 1):
            group = "/".join(parts[:depth])
            if group not in groups:
                groups[group] = trace.track(title, parent)
            parent = groups[group]
        track = trace.track(parts[-1], parent, unit=one.unit)
        trace.add_counter(track, (one.times * SECOND).astype(np.int64), one.values)


def _place_of(name: str) -> list[str]:
    """``devices/HOST/0/power`` as ``devices``, ``HOST/0`` and ``power``, each a track in the one before."""
    kind, _, rest = name.partition("/")
    return [kind, *rest.rsplit("/", 1)]
