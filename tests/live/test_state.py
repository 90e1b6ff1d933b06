"""Snapshots of runs whose sums are known."""

from __future__ import annotations

import json

import pytest

from injector.live.state import State

MS = 1_000_000


def site(number, region, **more):
    return {"site": number, "region": region, "clock": "host", "thread": 0, **more}


SITES = [
    site(1, "io", of=1),
    site(2, "forward", of=2, phase="train"),
    site(3, "backward"),
    site(4, "optimizer", of=3),
    site(5, "forward", of=2, phase="eval"),
    site(6, "step", task="train"),
]


class Folder:
    """A run folder that grows."""

    def __init__(self, path):
        self.path = path
        (path / "raw").mkdir(parents=True)
        self.spans = {}

    def process(self, pid, rank=None, host="h"):
        data = {"pid": pid, "rank": rank, "host": host, "time": 100.0, "monotonic_ns": 0}
        self.log(pid, "process", data, host)
        for one in SITES:
            self.log(pid, "site", one, host)
        self.spans[pid] = [b"{}\n".ljust(1024, b"\0")]

    def log(self, pid, event, data, host="h"):
        with open(self.path / "raw" / f"{host}.{pid}.log", "a") as file:
            file.write(json.dumps({"event": event, "data": data, "t": 0}) + "\n")

    def row(self, pid, start, end, number, payload=0, host="h"):
        import struct

        self.spans[pid].append(struct.pack("=4q", start, end, payload, number))
        (self.path / "raw" / f"{host}.{pid}.spans").write_bytes(b"".join(self.spans[pid]))

    def steps(self, pid, first, count, items=8):
        """Steps of 10 ms: io 2, forward 3, backward 4, optimizer 1."""
        for at in range(first, first + count):
            t = at * 10 * MS
            self.row(pid, t, t + 2 * MS, 1)
            self.row(pid, t + 2 * MS, t + 5 * MS, 2, items)
            self.row(pid, t + 5 * MS, t + 9 * MS, 3)
            self.row(pid, t + 9 * MS, t + 10 * MS, 4)


@pytest.fixture
def folder(tmp_path):
    return Folder(tmp_path / "train.2026-01-01_00-00-00.000000")


def test_a_run_that_has_not_begun(folder):
    found = State(str(folder.path)).tick(100.0)
    assert (found.state, found.steps, found.ranks) == ("starting", 0, ())


def test_rates_are_those_of_the_window(folder):
    folder.process(1)
    state = State(str(folder.path), goal=1000)
    folder.steps(1, 0, 101)
    state.tick(101.0)
    folder.steps(1, 101, 100)
    found = state.tick(102.0)
    assert found.name == "train"
    assert found.state == "training"
    assert found.steps == 200  # the last one has not ended: the next fetch ends it
    assert found.unit == "items/s"
    assert found.rate == pytest.approx(800.0)
    assert found.step == pytest.approx(0.01)
    assert found.left == pytest.approx(8.0)
    assert found.regions == pytest.approx(
        {"io": 0.2, "forward": 0.3, "backward": 0.4, "optimizer": 0.1}
    )


def test_evaluation_is_no_training(folder):
    folder.process(1)
    state = State(str(folder.path))
    folder.steps(1, 0, 10)
    state.tick(100.1)
    for at in range(10):
        folder.row(1, (200 + at) * MS, (201 + at) * MS, 5, 8)
    found = state.tick(100.2)
    assert found.state == "evaluating"
    assert found.steps == 9
    assert found.regions["evaluation"] > 0


def test_what_lies_inside_is_not_counted_twice(folder):
    folder.process(1)
    state = State(str(folder.path))
    folder.row(1, 0, 1 * MS, 1)
    folder.row(1, 1 * MS, 2 * MS, 4)
    state.tick(100.0)
    folder.row(1, 2 * MS, 5 * MS, 2, 8)
    folder.row(1, 5 * MS, 9 * MS, 3)
    folder.row(1, 2 * MS, 12 * MS, 4)  # an optimizer's closure: around both
    found = state.tick(100.0)
    assert found.regions == pytest.approx({"forward": 0.3, "backward": 0.4, "optimizer": 0.3})


def test_explicit_steps_win(folder):
    folder.process(1)
    state = State(str(folder.path))
    for at in range(5):
        folder.row(1, at * 10 * MS, at * 10 * MS + 2 * MS, 4)
        folder.row(1, at * 10 * MS, at * 10 * MS + 10 * MS, 6, 32)
    found = state.tick(100.0)
    assert found.steps == 5
    assert found.unit == "items/s"


def test_a_job_is_all_its_ranks(folder):
    for pid, rank in ((1, 0), (2, 1)):
        folder.process(pid)
        folder.log(pid, "rank", {"rank": rank, "world": 2})
    state = State(str(folder.path))
    folder.steps(1, 0, 11)
    folder.steps(2, 0, 9)
    state.tick(100.0)
    folder.steps(1, 11, 10)
    folder.steps(2, 9, 10)
    found = state.tick(100.0)
    assert [row.rank for row in found.ranks] == [0, 1]
    assert found.steps == 18
    assert found.rate == pytest.approx(1600.0)


def test_a_process_that_says_nothing_any_more(folder):
    folder.process(1)
    state = State(str(folder.path))
    folder.steps(1, 0, 3)
    assert state.tick(100.1).ranks[0].state == "training"
    assert state.tick(200.0).ranks[0].state == "silent"
    folder.log(1, "end", {})
    found = state.tick(200.0)
    assert (found.ranks[0].state, found.state) == ("ended", "ended")


def test_a_stop_is_seen(folder):
    folder.process(1)
    state = State(str(folder.path))
    folder.steps(1, 0, 3)
    folder.log(1, "stop", {"steps": 3})
    assert state.tick(100.1).state == "stopping"


def test_devices_and_hosts_are_those_of_the_monitor(folder):
    lines = [
        ("device_list", {"0": {"name": "A"}}),
        ("host", {"cores": [[0.0, 0.0], [0.0, 0.0]]}),
        ("host", {"cores": [[3.0, 1.0], [1.0, 3.0]], "memory": {"fraction": 0.5}}),
        ("devices", {"0": {"load": 0.25, "memory_used": 1, "memory_total": 4, "power": 7.0}}),
        ("tree", {"processes": [{"rss": 10}, {"rss": 5}]}),
    ]
    with open(folder.path / "raw" / "h.9.monitor", "w") as file:
        for event, data in lines:
            file.write(json.dumps({"event": event, "data": data, "t": 0}) + "\n")
    found = State(str(folder.path)).tick(100.0)
    [device], [host] = found.devices, found.hosts
    assert (device.name, device.load, device.power, device.temperature) == ("A", 0.25, 7.0, None)
    assert (host.host, host.cpu, host.memory, host.rss) == ("h", 0.5, 0.5, 15.0)


def test_subscribers_hear_every_snapshot(folder):
    state = State(str(folder.path))
    heard = []
    state.subscribe(heard.append)
    made = state.tick(100.0)
    assert heard == [made]
    assert json.loads(json.dumps(made.as_dict()))["state"] == "starting"
