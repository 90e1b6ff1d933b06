"""The raw files of a run as one stream: lines of values, samples of the monitor in milabench's form."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from injector.bus import collector
from injector.bus.merge import Merged, Record, in_stream, monitor_events
from injector.bus.writer import Writer
from injector.store.event import line_of, process_line
from injector.store.monitor import monitor_logs
from injector.store.series import SeriesFile


def write(folder, *records):
    raw = folder / "raw"
    raw.mkdir(exist_ok=True)
    lines = [json.dumps({"event": e, "data": d, "t": t}) + "\n" for e, d, t in records]
    (raw / "h.9.monitor").write_text("".join(lines))


def host(busy, idle, **more):
    return {"cores": [[busy, idle]], "memory": {"used": 5, "total": 10}, **more}


def test_samples_become_data_events(tmp_path):
    write(
        tmp_path,
        ("process", {"time": 100.0, "monotonic_ns": 10**9}, 10**9),
        ("host", host(0.0, 0.0), 10**9),
        (
            "devices",
            {"0": {"memory_used": 1 << 20, "memory_total": 4 << 20, "load": 0.5, "power": 7.0}},
            2 * 10**9,
        ),
        (
            "host",
            host(3.0, 1.0, nets={"lo": [1, 2], "e": [3, 4]}, disks={"a": [5, 6]}),
            3 * 10**9,
        ),
        ("tree", {"processes": [{"pid": 4, "cpu": 1.5, "rss": 8, "threads": 2}]}, 3 * 10**9),
        ("problem", {"text": "x"}, 3 * 10**9),
    )
    [log] = monitor_logs(str(tmp_path))
    found = [timed.data for timed in monitor_events(log)]
    main = {"task": "main"}
    assert found == [
        {**main, "time": 101.0, "gpudata": {"0": {"memory": [1, 4], "load": 0.5, "power": 7.0}}},
        {**main, "time": 102.0, "cpudata": {"memory": [5, 10], "load": 75.0}},
        {**main, "time": 102.0, "netdata": {"bytes_sent": 4, "bytes_recv": 6}},
        {**main, "time": 102.0, "iodata": {"read_bytes": 5, "write_bytes": 6}},
        {**main, "time": 102.0, "process": {"pids": [4], "cpu": 1.5, "memory": 8, "threads": 2}},
    ]


def test_they_stand_among_the_programs_events_in_the_order_of_time(tmp_path):
    write(
        tmp_path,
        ("process", {"time": 100.0, "monotonic_ns": 0}, 0),
        ("tree", {"processes": []}, 10**9),
        ("tree", {"processes": []}, 3 * 10**9),
    )
    log = [
        ("process", {"pid": 1, "host": "h", "time": 100.0, "monotonic_ns": 0}, 0),
        ("value", {"series": "loss", "value": 1.0}, 2 * 10**9),
    ]
    lines = [json.dumps({"event": e, "data": d, "t": t}) + "\n" for e, d, t in log]
    (tmp_path / "raw" / "h.1.log").write_text("".join(lines))
    run = collector.FinishedRun(exit=0, command=["x"], started=100.0, ended=104.0, name="x")
    info = collector.collect(str(tmp_path), run)
    assert len(info["processes"]) == 1  # the monitor is none of the program's
    records = [json.loads(line) for line in (tmp_path / "x.D0.data").read_text().splitlines()]
    times = [record["data"]["time"] for record in records if record["event"] == "data"]
    assert times == pytest.approx([101.0, 102.0, 103.0])


@pytest.mark.parametrize("several", [False, True], ids=["alone", "with another process"])
@given(
    name=st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
    | st.sampled_from(["time", "train/process", "a/task", "/", "", "a/b/%d", 'x"\\%s/é']),
    values=st.lists(st.floats(), min_size=1, max_size=20),
)
def test_each_value_of_a_series_has_the_line_that_its_record_would_have(
    tmp_path_factory, several, name, values
):
    folder = tmp_path_factory.mktemp("run")
    writer = Writer(str(folder))
    times, room = SeriesFile(writer, name).grow()
    for number, value in enumerate(values):
        room[number], times[number] = value, 1.0 + number
    writer.close()
    if several:
        other = process_line({"pid": 1, "host": "another", "time": 1.0})
        (folder / "raw" / "another.1.log").write_bytes(other)
    merged = Merged(str(folder))
    entries = [
        one for one in merged.entries() if isinstance(one[-1], bytes) or one[-1].event == "value"
    ]
    found = [
        entry if isinstance(entry, bytes) else line_of(in_stream(entry, several))
        for *_, entry in entries
    ]
    assert len(merged.logs) == 1 + several
    assert found == [
        line_of(in_stream(Record(time, "value", {"series": name, "value": value}, index), several))
        for (time, index, *_), value in zip(entries, values, strict=True)
    ]
    known = name.rpartition("/")[2] in ("time", "task", "process")
    assert all(
        isinstance(entry, bytes) == (math.isfinite(value) and not known)
        for (*_, entry), value in zip(entries, values, strict=True)
    )
