"""A trace, read back by Perfetto's own classes, and by its own trace processor."""

from __future__ import annotations

import numpy as np
import pytest
from spans import site, write_process, write_run

from injector.analysis.traces import traces_of
from injector.analysis.views import views
from injector.store.folder import open_run

pytest.importorskip("perfetto")
from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as protos

BEGIN, END = protos.TrackEvent.TYPE_SLICE_BEGIN, protos.TrackEvent.TYPE_SLICE_END


class Read:
    """What a trace says: tracks by their whole names, slices of each as (name, start, end, depth, line)."""

    def __init__(self, path):
        trace = protos.Trace.FromString(path.read_bytes())
        self.tracks, self.pids, self.units = {}, {}, {}
        self.slices, self.values, self.lines, names = {}, {}, {}, {}
        open_slices = {}
        for packet in trace.packet:
            for each in packet.interned_data.event_names:
                names[each.iid] = each.name
            for each in packet.interned_data.source_locations:
                self.lines[each.iid] = (each.file_name, each.line_number)
            if packet.HasField("track_descriptor"):
                self._describe(packet.track_descriptor)
            elif packet.HasField("track_event"):
                event, track = packet.track_event, self.tracks[packet.track_event.track_uuid]
                stack = open_slices.setdefault(track, [])
                if event.type == BEGIN:
                    place = self.lines[event.source_location_iid]
                    counts = {each.name: each.uint_value for each in event.debug_annotations}
                    stack.append((names[event.name_iid], packet.timestamp, place, counts))
                elif event.type == END:
                    name, start, place, counts = stack.pop()
                    assert name == names[event.name_iid]
                    found = (name, start, packet.timestamp, len(stack), place, counts)
                    self.slices.setdefault(track, []).append(found)
                else:
                    value = (packet.timestamp, event.double_counter_value)
                    self.values.setdefault(track, []).append(value)
        assert not any(open_slices.values())

    def _describe(self, made):
        name = made.process.process_name or made.name
        if made.HasField("process"):
            self.pids[name] = made.process.pid
        above = self.tracks.get(made.parent_uuid)
        self.tracks[made.uuid] = f"{above}: {name}" if above else name
        if made.HasField("counter"):
            self.units[self.tracks[made.uuid]] = made.counter.unit_name


@pytest.fixture(scope="module")
def small(runs, export):
    done = export(runs, "LAST", "--to", "perfetto", "-o", "t.pftrace")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("t.pftrace: 42 slices")
    return Read(runs / "t.pftrace")


@pytest.fixture(scope="module")
def traced(large, export, tmp_path_factory):
    path = tmp_path_factory.mktemp("trace") / "t.pftrace"
    done = export(path.parent, str(large), "--to", "perfetto", "-o", str(path))
    assert done.returncode == 0, done.stderr
    return path


@pytest.fixture(scope="module")
def whole(traced):
    return Read(traced)


def test_regions_lie_in_their_steps(small):
    [track] = [name for name in small.slices if name.endswith(": regions")]
    steps = [one for one in small.slices[track] if one[0] == "step"]
    inner = [one for one in small.slices[track] if one[0] == "forward"]
    assert len(steps) == len(inner) == 10
    for (_, start, end, depth, _, _), (_, begin, over, below, place, _) in zip(
        steps, inner, strict=True
    ):
        assert start <= begin <= over <= end
        assert (depth, below) == (0, 1)
        assert place[0].endswith("train.py") and place[1] == 6


def test_steps_are_numbered_and_as_long_as_they_were(small, runs):
    [folder] = (runs / ".inject" / "runs").glob("train.*")
    [trace] = traces_of(open_run(str(folder)))
    [track] = [name for name in small.slices if ": steps" in name]
    found = small.slices[track]
    assert [one[5] for one in found] == [{"step": at} for at in range(10)]
    assert [one[1] for one in found] == trace.start.tolist()
    assert [one[2] for one in found] == trace.end.tolist()


def test_values_of_the_program_are_counters(small):
    assert [value for _, value in small.values["values: loss"]] == [10.0 - at for at in range(10)]


def test_what_overlaps_is_whole_on_a_track_of_its_own(tmp_path, export):
    sites = [site(1, "load", line=3), site(2, "compute", line=4)]
    spans = [(0, 208, 0, 1), (106, 314, 0, 2), (300, 400, 0, 1), (310, 320, 0, 2)]
    write_process(tmp_path / "r", sites, spans)
    write_run(tmp_path / "r")
    done = export(tmp_path, "r", "--to", "perfetto", "-o", "t.pftrace")
    assert done.returncode == 0, done.stderr
    found = Read(tmp_path / "t.pftrace").slices
    lengths = {
        name.rpartition(": ")[2]: [(one[0], one[2] - one[1], one[3]) for one in slices]
        for name, slices in found.items()
    }
    assert lengths == {
        "regions": [("load", 208, 0), ("compute", 10, 1), ("load", 100, 0)],
        "regions (overlapping)": [("compute", 208, 0)],
    }


def test_every_rank_is_a_process(whole):
    assert whole.pids == {"rank 0 on h": 100, "rank 1 on h": 101}


def test_every_span_is_there_whole(whole, large):
    rows = views(open_run(str(large)))["regions"]()
    for rank in (0, 1):
        mine = np.flatnonzero(rows["rank"] == rank)
        slices = sorted(whole.slices[f"rank {rank} on h: regions"], key=lambda one: one[1])
        assert len(slices) == len(mine)
        order = np.argsort(rows["start"][mine], kind="stable")
        seconds = [(one[2] - one[1]) / 1e9 for one in slices]
        assert np.allclose(seconds, rows["seconds"][mine][order], atol=2e-9)


def test_devices_and_hosts_are_counters(whole, large):
    rows = views(open_run(str(large)))["devices"]()
    sent = [
        value for value, device in zip(rows["power"], rows["device"], strict=True) if device == "0"
    ]
    assert [value for _, value in whole.values["devices: h/0: power"]] == sent
    assert whole.units["devices: h/0: power"] == "W"


@pytest.mark.xdist_group("browser")
def test_perfettos_own_trace_processor_has_the_same(traced, whole, processor):
    """Devices and all slices: the depth of a slice is Perfetto's own finding."""
    processor.load(traced.read_bytes())
    assert processor.ask("select name from stats where severity = 'error' and value > 0") == []
    sql = """select value from counter join track own on own.id = counter.track_id
        join track above on above.id = own.parent_id join counter_track as counted on counted.id = own.id
        where above.name = 'h/0' and own.name = 'power' and unit = 'W' order by ts"""
    sent = [value for _, value in whole.values["devices: h/0: power"]]
    assert [value for (value,) in processor.ask(sql)] == sent and sent
    slices = [one for track in whole.slices.values() for one in track]
    [found] = processor.ask("select count(*), sum(dur), sum(depth) from slice")
    assert found == (
        len(slices),
        sum(end - start for _, start, end, *_ in slices),
        sum(one[3] for one in slices),
    )


def test_time_never_goes_back_on_a_track(whole):
    for slices in whole.slices.values():
        ends = [one[2] for one in slices]
        assert ends == sorted(ends)
