"""``injector.Timer`` and regions with clocks: of the host, of devices, plugged in; standard keys; ranks."""

from __future__ import annotations

import pickle
import warnings
from types import SimpleNamespace

import pytest

import injector
from injector.measure import user
from injector.measure.turns import Loop


@pytest.fixture
def recorded(measured):
    measured.warned = []
    measured.spans.warn = lambda where, error: measured.warned.append((where, str(error)))
    user.record(user.RegionRecorder(measured.spans))
    return measured


class Counter:
    """A clock that the program plugs in; it goes on by what is queued, and has done what is done."""

    name = "npu:3"

    def __init__(self):
        self.now = self.done = 0.0
        self.waited = 0

    def record(self):
        return self.now

    def elapsed(self, begin, end):
        return None if end > self.done else end - begin

    def synchronize(self):
        self.waited += 1
        self.done = self.now


class Broken(Counter):
    def record(self):
        raise RuntimeError("out of order")


class Mute(Counter):
    """It cannot tell how much has passed."""

    def elapsed(self, begin, end):
        return "much"


def device_rows(recorded):
    recorded.spans.close()
    return [row for row in recorded.rows() if row[3]["clock"] == "device"]


@pytest.mark.parametrize(
    ("key", "region"),
    [
        ("Epoch", "epoch"),
        ("Batch", "step"),
        ("BATCH", "step"),
        ("IO", "io"),
        ("io", "io"),
        ("H2D", "h2d"),
        ("Forward", "forward"),
        ("Backward", "backward"),
        ("Comm", "comm"),
        ("Optimizer", "optimizer"),
        ("Other", "Other"),
        ("my part", "my part"),
    ],
)
def test_standard_keys_name_regions(recorded, key, region):
    timer = injector.Timer()
    timer.start(key)
    timer.end(key)
    with injector.region(key):
        pass
    rows = recorded.rows()
    assert [row[3]["region"] for row in rows] == [region] * 2
    assert timer.keys() == [key]


def test_two_spellings_are_two_keys(recorded):
    for key in ("Batch", "batch", "Batch", "BATCH"):
        with injector.region(key):
            pass
    assert [row[3]["region"] for row in recorded.rows()] == ["step", "batch", "step", "BATCH"]


def test_the_place_is_where_a_part_begins(recorded):
    timer = injector.Timer()
    timer.start("x")
    timer.end("x")
    [row] = recorded.rows()
    assert row[3]["place"]["text"] == 'timer.start("x")'


def test_parts_that_overlap_are_whole(recorded):
    timer = injector.Timer()
    for key in "ab":
        timer.start(key)
    for key in "ab":
        timer.end(key)
    first, second = recorded.rows()
    assert first[0] <= second[0] <= first[1] <= second[1]


@pytest.mark.parametrize("device", [True, "cuda:0", "cuda", SimpleNamespace(type="cuda")])
def test_the_devices_time_stands_beside_the_hosts(recorded, gpu, device):
    if not isinstance(device, (bool, str)):
        device = type("Device", (), {"type": "cuda", "__str__": lambda self: "cuda:0"})()
    timer = injector.Timer(device=device)
    with injector.region("y", device=device):
        timer.start("x")
        gpu.work(3_000_000_000)
        timer.end("x")
    assert timer.keys() == ["x"] and timer.keys(device=True) == []
    gpu.finish()
    assert timer.statistics("x", device=True).total == 3
    assert timer.statistics("x").total < 1
    rows = [(row[3]["region"], row[3]["device"], row[1] - row[0]) for row in device_rows(recorded)]
    assert sorted(rows) == [("x", "fake:0", 3_000_000_000), ("y", "fake:0", 3_000_000_000)]
    assert len(recorded.rows()) == 4


def test_without_inject_too(measured, gpu):
    timer = injector.Timer(device=True)
    timer.start("x")
    gpu.work(2_000_000_000)
    timer.end("x")
    gpu.finish()
    assert timer.statistics("x", device=True).total == 2
    assert measured.rows() == []


@pytest.mark.parametrize("inject", [False, True])
def test_a_clock_is_plugged_in(measured, recorded, inject):
    if not inject:
        user.record(None)
    clock = Counter()
    timer = injector.Timer(clock=clock)
    for seconds in (1.0, 2.0, 3.0):
        timer.start("x")
        clock.now += seconds
        timer.end("x")
    assert timer.keys(device=True) == [] and clock.waited == 0
    timer.synchronize()
    assert clock.waited == 1
    found = timer.statistics("x", device=True)
    assert (found.n, found.min, found.mean, found.median, found.max, found.stdev) == (
        3,
        1,
        2,
        2,
        3,
        1,
    )
    assert timer.statistics("x").n == 3
    rows = [(row[3]["device"], row[1] - row[0]) for row in device_rows(recorded)]
    assert rows == ([("npu:3", n * 1_000_000_000) for n in (1, 2, 3)] if inject else [])


def test_a_clock_for_regions_and_functions(recorded):
    clock = Counter()
    clock.done = 1e9

    @injector.region("f", device=clock)
    def f():
        clock.now += 4

    f()
    f()
    rows = device_rows(recorded)
    assert [(row[3]["region"], row[1] - row[0]) for row in rows] == [("f", 4_000_000_000)] * 2
    assert rows[0][3]["place"]["text"] == "f()"


@pytest.mark.parametrize("make", [Broken, Mute])
def test_a_bad_clock_is_one_warning_under_inject(recorded, make):
    timer = injector.Timer(clock=make())
    for _ in range(40):
        timer.start("x")
        timer.end("x")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert timer.keys(device=True) == []
        timer.synchronize()
    assert timer.statistics("x").n == 40
    recorded.spans.close()
    [(where, _)] = recorded.warned
    assert where == "the clock of a region"


@pytest.mark.parametrize("make", [Broken, Mute])
@pytest.mark.parametrize("action", ["always", "error"])
def test_a_bad_clock_is_one_warning_without(measured, make, action):
    timer = injector.Timer(clock=make())
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter(action)
        for _ in range(40):
            timer.start("x")
            timer.end("x")
        timer.synchronize()
        assert timer.keys(device=True) == []
    assert [each.category for each in seen] == ([RuntimeWarning] if action == "always" else [])
    assert timer.statistics("x").n == 40


@pytest.mark.parametrize("bad", ["gpu", "cuda:x", 5, object()])
def test_what_is_no_device_is_an_error(bad):
    for made in (lambda: injector.Timer(device=bad), lambda: injector.region("x", device=bad)):
        with pytest.raises(
            ValueError, match=r"device is True, a device of PyTorch such as 'cuda:0'"
        ):
            made()


def test_a_device_and_a_clock():
    with pytest.raises(ValueError, match="a device or a clock, not both"):
        injector.Timer(device=True, clock=Counter())


@pytest.mark.parametrize("device", ["cpu", None, False, "cuda:7", "mps", True])
def test_a_device_that_is_not_in_use_leaves_the_hosts_time(measured, device):
    timer = injector.Timer(device=device)
    timer.start("x")
    timer.end("x")
    assert (timer.keys(), timer.keys(device=True)) == (["x"], [])


def test_more_clocks_than_there_can_be(recorded):
    for _ in range(70):
        with injector.region("x", device=Counter()):
            pass
    assert [where for where, _ in recorded.warned] == ["injector.region"]


def test_a_timer_is_pickled_without_what_is_open(measured, gpu):
    timer = injector.Timer(device=True)
    timer.start("x")
    timer.end("x")
    timer.start("x")
    gone = pickle.loads(pickle.dumps(timer))
    gone.start("x")
    gone.end("x")
    assert gone.statistics("x").n == 2


@pytest.mark.parametrize(
    ("ranks", "rank", "timed"),
    [
        ([0], "0", True),
        ([0], "1", False),
        ({1, 2}, "2", True),
        ([0], "", True),
        ([1], "", False),
        ((), "0", False),
    ],
)
def test_chosen_ranks_only(recorded, monkeypatch, ranks, rank, timed):
    monkeypatch.setenv("RANK", rank)
    timer = injector.Timer(ranks=ranks)
    timer.start("x")
    timer.end("x")
    assert timer.keys() == (["x"] if timed else [])
    assert len(recorded.rows()) == timed


def test_the_rank_in_torchs_group_counts(measured, monkeypatch):
    group = SimpleNamespace(is_available=bool, is_initialized=lambda: True, get_rank=lambda: 3)
    group.is_available = lambda: True
    monkeypatch.setitem(__import__("sys").modules, "torch.distributed", group)
    monkeypatch.setenv("RANK", "0")
    timer = injector.Timer(ranks=[3])
    timer.start("x")
    timer.end("x")
    assert timer.keys() == ["x"]


def test_a_fork_does_not_end_what_its_parent_began(recorded):
    timer = injector.Timer()
    timer.start("x")
    recorded.spans.sites.age += 1
    user._recorders[0].renew()
    timer.end("x")
    assert recorded.rows() == [] and timer.statistics("x").n == 1


def test_steps_of_a_loader_by_the_devices_clock(recorded, gpu):
    loop = Loop(
        recorded.spans,
        task="train",
        items=None,
        phase=None,
        selector="x",
        failed=print,
        device=True,
    )
    from injector.measure.loader import wrap

    for _ in wrap([1, 2, 3], loop.turns):
        gpu.work(5_000_000)
    gpu.finish()
    rows = device_rows(recorded)
    found = {}
    for start, end, _, site in rows:
        found.setdefault(site["region"], []).append(end - start)
    assert found == {"io": [0, 0, 0], "step": [5_000_000] * 3}
    assert {site["device"] for *_, site in rows} == {"fake:0"}


def test_a_step_marked_by_the_program_may_be_the_last(recorded, monkeypatch):
    """What stops a run after so many steps is heard of where the step ends."""
    requested = []
    monkeypatch.setattr(
        "injector.probe.stop.request_stop", lambda _, frame: requested.append(frame.f_code.co_name)
    )

    def stop(*span):
        raise injector.StopProgram("enough")

    recorded.spans.room.add = stop
    timer = injector.Timer()
    timer.start("Batch")
    with pytest.raises(injector.StopProgram):
        timer.end("Batch")
    with pytest.raises(injector.StopProgram), injector.region("Batch"):
        pass
    assert requested == ["test_a_step_marked_by_the_program_may_be_the_last"] * 2
