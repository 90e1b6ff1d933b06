"""Snapshots of runs whose sums are known."""

from __future__ import annotations

import json
import struct

import pytest

from injector.json_types import plain
from injector.live.state import State as Watched

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
    site(7, "comm", what="all_reduce", place={"file": "/x/train.py", "line": 41}),
    site(8, "step", task="disc"),
    site(9, "step", task="gen"),
    site(10, "io", of=1, place={"file": "/x/train.py", "line": 30}),
    site(11, "forward", of=4),
    site(12, "io.end", of=1),
    site(13, "io", of=5),
    site(14, "io.end", of=5),
]


class Folder:
    """A run folder that grows."""

    def __init__(self, path):
        self.path = path
        (path / "raw").mkdir(parents=True)
        self.spans = {}
        self.unwritten = {}

    def process(self, pid, rank=None, host="h", began=0.0, wrong=0.0, **more):
        data = {"pid": pid, "ppid": 1000, "rank": rank, "host": host, **more}
        data.update(time=100.0 + began + wrong, monotonic_ns=round(began * 1e9))
        self.log(pid, "process", data, host)
        for one in SITES:
            self.log(pid, "site", one, host)
        self.spans[pid] = [b"{}\n".ljust(1024, b"\0")]

    def log(self, pid, event, data, host="h"):
        with open(self.path / "raw" / f"{host}.{pid}.log", "a") as file:
            file.write(json.dumps({"event": event, "data": data, "t": 0}) + "\n")

    def monitor(self, event, data, t=0.0, host="h"):
        record = {"event": event, "data": data, "t": round(t * 1e9)}
        with open(self.path / "raw" / f"{host}.9.monitor", "a") as file:
            file.write(json.dumps(record) + "\n")

    def opened(self, pid, *numbers, host="h"):
        """What it is in from now on, as its file says."""
        places = [0, *numbers, *[0] * (63 - len(numbers))]
        self.spans[pid][0] = b"{}\n".ljust(512, b"\0") + struct.pack("=64q", *places)
        self.unwritten[pid] = host

    def row(self, pid, start, end, number, payload=0, host="h"):
        """A span; of many, the file is written when it is asked for."""
        self.spans[pid].append(struct.pack("=4q", start, end, payload, number))
        self.unwritten[pid] = host

    def write(self):
        for pid, host in self.unwritten.items():
            (self.path / "raw" / f"{host}.{pid}.spans").write_bytes(b"".join(self.spans[pid]))
        self.unwritten.clear()

    def steps(self, pid, first, count, items=8):
        """Steps of 10 ms: io 2, forward 3, backward 4, optimizer 1."""
        for at in range(first, first + count):
            t = at * 10 * MS
            self.row(pid, t, t + 2 * MS, 1)
            self.row(pid, t + 2 * MS, t + 5 * MS, 2, items)
            self.row(pid, t + 5 * MS, t + 9 * MS, 3)
            self.row(pid, t + 9 * MS, t + 10 * MS, 4)


class State(Watched):
    """Sees what was written so far."""

    def tick(self, now=None):
        for made in FOLDERS:
            made.write()
        return super().tick(now)

    def catch_up(self, patience=60.0, now=None):
        for made in FOLDERS:
            made.write()
        super().catch_up(patience, now)


FOLDERS = []


@pytest.fixture
def folder(tmp_path):
    FOLDERS[:] = [Folder(tmp_path / "train.2026-01-01_00-00-00.000000")]
    return FOLDERS[0]


def test_a_loss_that_counts_tokens_tells_no_items(folder):
    folder.process(1)
    state = State(str(folder.path))
    for at in range(201):
        t = at * 10 * MS
        folder.row(1, t, t + 2 * MS, 1)
        if at > 1:  # until then only the loss has been seen
            folder.row(1, t + 2 * MS, t + 5 * MS, 2, 8)
        folder.row(1, t + 5 * MS, t + 6 * MS, 11, 800)
        folder.row(1, t + 6 * MS, t + 9 * MS, 3)
        folder.row(1, t + 9 * MS, t + 10 * MS, 4)
        if at == 100:
            state.tick(101.0)
    assert state.tick(102.0).rate == pytest.approx(800.0)


@pytest.mark.parametrize(
    ("drawn", "called", "rate"),
    [(8, 77, 800.0), (8, 0, 800.0), (8, 8, 800.0), (1, 64, 100.0), (0, 0, 100.0), (0, 8, 800.0)],
)
def test_what_a_loader_drew_counts(folder, drawn, called, rate):
    folder.process(1)
    for at in range(201):
        t = at * 10 * MS
        folder.row(1, t, t + 2 * MS, 1, drawn)
        folder.row(1, t + 2 * MS, t + 5 * MS, 2, called)
        folder.row(1, t + 5 * MS, t + 6 * MS, 11, 800)
        folder.row(1, t + 6 * MS, t + 9 * MS, 3)
        folder.row(1, t + 9 * MS, t + 10 * MS, 4)
        if at == 100:
            state = State(str(folder.path))
            state.tick(101.0)
    found = state.tick(102.0)
    assert (found.rate, found.unit) == (pytest.approx(rate), "items/s" if rate > 100 else "steps/s")


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
    parts = {"io": 0.2, "forward": 0.3, "backward": 0.4, "optimizer": 0.1}
    assert found.regions == pytest.approx(parts), "of a training step, as in the report"


def test_what_lies_inside_is_not_counted_twice(folder):
    folder.process(1)
    state = State(str(folder.path))
    folder.row(1, 0, 1 * MS, 1)
    folder.row(1, 1 * MS, 2 * MS, 4)
    state.tick(100.0)
    folder.row(1, 2 * MS, 5 * MS, 2, 8)
    folder.row(1, 5 * MS, 9 * MS, 3)
    folder.row(1, 2 * MS, 12 * MS, 4)  # an optimizer's closure: around both
    folder.row(1, 12 * MS, 13 * MS, 1)
    found = state.tick(100.0)
    parts = {"io": 1 / 12, "forward": 3 / 12, "backward": 4 / 12, "optimizer": 4 / 12}
    assert found.regions == pytest.approx(parts)


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
    assert plain(made)["state"] == "starting"


# --- how ranks stand ------------------------------------------------------------------------------


def two_ranks(folder, steps=200, **more):
    """Two ranks of one job, at their steps of 10 ms until 102 s."""
    for pid in (1, 2):
        folder.process(pid, rank=pid - 1, **more)
        folder.log(pid, "rank", {"rank": pid - 1, "world": 2})
        folder.steps(pid, 0, steps)


def states(snapshot):
    return [row.state for row in snapshot.ranks]


def test_a_rank_that_died_is_seen(folder):
    two_ranks(folder)
    folder.monitor("exit", {"pid": 2, "code": -9}, 2.0)
    found = State(str(folder.path)).tick(102.1)
    assert states(found) == ["training", "died"]
    assert found.ranks[1].notes == (
        "died at step 199: killed by SIGKILL; its last span: optimizer",
    )
    assert found.state == "training"
    assert found.tasks[0].ranks == 1, "who is gone makes no steps"


def test_how_it_died_is_what_is_known(folder):
    two_ranks(folder)
    folder.monitor("exit", {"pid": 1, "code": None}, 2.0)
    folder.log(2, "error", {"type": "ValueError", "message": "\nbad sample\nmore"})
    folder.log(2, "end", {})
    found = State(str(folder.path)).tick(102.1)
    assert states(found) == ["died", "died"] and found.state == "died"
    assert found.ranks[0].notes[0].startswith("died at step 199: exit not known; ")
    assert found.ranks[1].notes[0].startswith("died at step 199: ValueError: bad sample; ")


def test_what_a_launcher_says_of_its_workers(folder):
    folder.process(5)
    two_ranks(folder)
    folder.log(5, "exited", {"pid": 1, "code": 3})
    found = State(str(folder.path)).tick(102.1)
    assert states(found) == ["died", "training"]
    assert found.ranks[0].notes[0].startswith("died at step 199: exit code 3; ")


def test_an_orderly_end_is_no_death(folder):
    two_ranks(folder)
    folder.log(1, "end", {})
    folder.monitor("exit", {"pid": 1, "code": None}, 2.0)
    folder.log(2, "end", {"code": 0})
    folder.monitor("exit", {"pid": 7, "code": -9}, 2.0)  # nobody that recorded
    assert states(State(str(folder.path)).tick(102.1)) == ["ended", "ended"]


def test_an_exit_before_a_process_began_is_another_ones(folder):
    two_ranks(folder, began=1.0)
    folder.monitor("exit", {"pid": 1, "code": -9}, 0.5)
    assert states(State(str(folder.path)).tick(103.1)) == ["training", "training"]


def followed(folder, now):
    """What is seen of it at ``now``, when it has been watched for some seconds."""
    state = State(str(folder.path))
    state.tick(now - 4)
    return state.tick(now)


def test_the_rank_that_hangs_is_the_one_in_no_collective(folder):
    two_ranks(folder)
    folder.opened(1, 7)
    found = followed(folder, 111.0)
    assert states(found) == ["training", "training"], "9 s may be a checkpoint"
    found = followed(folder, 113.0)
    assert states(found) == ["waiting", "hung"] and found.state == "stuck"
    assert found.ranks[0].notes == (
        "has waited 11.0 s in comm (all_reduce) at train.py:41, after step 199",
    )
    text = "has hung for 11.0 s after step 199 (a step usually takes 10.00 ms); its last span: optimizer"
    assert found.ranks[1].notes == (text,)
    assert found.rate is None, "nobody makes steps"


def test_a_rank_that_hangs_in_its_loader(folder):
    two_ranks(folder)
    folder.opened(1, 7)
    folder.opened(2, 10)
    found = followed(folder, 113.0)
    assert found.ranks[1].notes[0].endswith("; it is in io at train.py:30")


def test_a_rank_that_hangs_while_the_other_goes_on(folder):
    two_ranks(folder)
    folder.steps(1, 200, 2000)
    found = State(str(folder.path)).tick(122.0)
    assert states(found) == ["training", "hung"]


def test_slow_steps_are_no_hanging(folder):
    for pid in (1, 2):
        folder.process(pid, rank=pid - 1)
        for at in range(5):
            folder.row(pid, at * 1000 * MS, at * 1000 * MS + MS, 1)
            folder.row(pid, at * 1000 * MS + 900 * MS, at * 1000 * MS + 999 * MS, 4)
    folder.opened(1, 7)
    state = State(str(folder.path))
    state.tick(105.0)
    assert states(state.tick(104.999 + 19)) == ["training", "training"]
    assert states(state.tick(104.999 + 21)) == ["waiting", "hung"]


def test_a_rank_alone_hangs_for_nobody(folder):
    folder.process(1)
    folder.steps(1, 0, 200)
    state = State(str(folder.path))
    assert states(state.tick(130.0)) == ["training"]
    assert states(state.tick(170.0)) == ["silent"]
    assert state.tick(170.0).state == "silent"


def watched(folder, wrong, silent=(), monitored=True):
    """The states of three ranks, two of them on a host with a clock that is wrong, at each look at them.

    Each step takes 100 ms; between two looks lie 2 s. Ranks in ``silent`` make none after the third look.
    """
    hosts = {0: "h", 1: "far", 2: "far"}
    for rank, host in hosts.items():
        off = wrong if host == "far" else 0
        folder.process(10 + rank, rank=rank, world=3, host=host, wrong=off)
    state, found = State(str(folder.path)), []
    for look in range(60):
        if look == 30:
            state = State(str(folder.path))  # who comes late
        for rank, host in hosts.items():
            if rank not in silent or look < 3:
                for at in range(20):
                    t = (look * 20 + at) * 100 * MS
                    folder.row(10 + rank, t, t + 20 * MS, 1, host=host)
                    folder.row(10 + rank, t + 20 * MS, t + 90 * MS, 2, 8, host=host)
                    folder.row(10 + rank, t + 90 * MS, t + 100 * MS, 4, host=host)
        if monitored:
            for host in ("h", "far"):
                folder.monitor("host", {"cores": {}}, 2 * look + 1.9, host)
        snapshot = state.tick(102.0 + 2 * look)
        found.append([each.state for each in snapshot.ranks])
        if not silent:
            assert abs(snapshot.elapsed - 2 - 2 * look) < 5, "as by the clock of who watches"
    return found


@pytest.mark.parametrize("monitored", [True, False])
@pytest.mark.parametrize("wrong", [0, 3600, -3600])
def test_a_host_whose_clock_is_wrong_is_judged_by_what_comes_of_it(folder, wrong, monitored):
    assert all(each == ["training"] * 3 for each in watched(folder, wrong, (), monitored))


@pytest.mark.parametrize("monitored", [True, False])
@pytest.mark.parametrize("wrong", [0, 3600, -3600])
def test_a_rank_that_is_silent_on_a_host_whose_clock_is_wrong_is_seen(folder, wrong, monitored):
    found = watched(folder, wrong, (2,), monitored)
    hangs = [at for at, each in enumerate(found) if each == ["training", "training", "hung"]]
    assert all(each in (["training"] * 3, found[hangs[0]]) for each in found)
    assert 7 <= hangs[0] <= 10 and {*range(hangs[0], 30), *range(33, 60)} <= {*hangs}


@pytest.mark.parametrize("wrong", [0, 3600, -3600])
def test_a_host_of_which_nothing_comes_any_more_is_silent(folder, wrong):
    found = watched(folder, wrong, (1, 2), monitored=False)
    assert found[29] == found[59] == ["training", "hung", "hung"]


def test_a_rank_that_was_started_again(folder):
    two_ranks(folder, attempt=0)
    folder.monitor("exit", {"pid": 2, "code": -9}, 2.0)
    folder.monitor("exit", {"pid": 1, "code": -15}, 2.1)
    state = State(str(folder.path))
    assert states(state.tick(102.2)) == ["died", "died"]
    for pid in (3, 4):
        folder.process(pid, rank=pid - 3, began=5.0, attempt=1)
    found = state.tick(105.0)
    assert states(found) == ["restarted", "restarted"] and found.state == "starting"
    assert found.ranks[1].notes == (
        "it has made no step yet",
        "restarted: attempt 0 died at step 199 (killed by SIGKILL)",
    )
    for pid in (3, 4):
        folder.steps(pid, 500, 10)
    found = state.tick(105.1)
    assert [(row.attempt, row.steps, row.state) for row in found.ranks] == [(1, 9, "training")] * 2
    assert found.steps == 9, "steps of the first attempt are not among them"
    assert found.ranks[0].notes == ("restarted: attempt 0 died at step 199 (killed by SIGTERM)",)


def test_attempts_that_no_launcher_numbers(folder):
    two_ranks(folder)
    folder.monitor("exit", {"pid": 2, "code": 1}, 2.0)
    folder.process(3, rank=1, began=5.0)
    folder.steps(3, 500, 10)
    found = State(str(folder.path)).tick(105.1)
    assert [(row.rank, row.attempt) for row in found.ranks] == [(0, 0), (1, 1)]


def test_two_jobs_side_by_side_may_have_a_rank_0_each(folder):
    for pid in (1, 2):
        folder.process(pid, rank=0)
        folder.steps(pid, 0, 200)
    found = State(str(folder.path)).tick(102.0)
    assert [(row.rank, row.pid, row.attempt) for row in found.ranks] == [(0, 1, 0), (0, 2, 0)]


def test_what_a_rank_has_started_is_no_rank(folder):
    two_ranks(folder)
    folder.process(3, rank=1, ppid=2)
    folder.steps(3, 0, 10)
    found = State(str(folder.path)).tick(102.0)
    assert [row.pid for row in found.ranks] == [1, 2]


def test_a_rank_that_died_before_its_first_step(folder):
    two_ranks(folder, attempt=0)
    folder.process(3, rank=2, attempt=0)
    state = State(str(folder.path))
    assert len(state.tick(102.0).ranks) == 2
    folder.monitor("exit", {"pid": 3, "code": 1}, 2.0)
    last = state.tick(102.1).ranks[-1]
    assert (last.rank, last.state) == (2, "died")
    assert last.notes == ("died at step 0: exit code 1; it recorded no span",)


# --- tasks, devices and the job -------------------------------------------------------------------


def tick_twice(folder, go_on):
    state = State(str(folder.path))
    state.tick(101.0)
    go_on()
    return state.tick(102.0)


def test_a_job_of_ranks_makes_each_step_together(folder):
    two_ranks(folder, steps=0)
    for pid in (1, 2):
        for at in range(101):
            folder.row(pid, at * 10 * MS, at * 10 * MS + MS, 1)
            folder.row(pid, at * 10 * MS + MS, at * 10 * MS + 9 * MS, 4)

    def go_on():
        for pid in (1, 2):
            for at in range(101, 201):
                folder.row(pid, at * 10 * MS, at * 10 * MS + MS, 1)
                folder.row(pid, at * 10 * MS + MS, at * 10 * MS + 9 * MS, 4)

    [task] = tick_twice(folder, go_on).tasks
    assert (task.task, task.ranks, task.unit, task.active) == ("train", 2, "steps/s", True)
    assert task.rate == pytest.approx(100.0), "not 200: it is one step of both"
    assert task.steps == 200


def test_programs_side_by_side_make_steps_of_their_own(folder):
    for pid in (1, 2):
        folder.process(pid)
        folder.steps(pid, 0, 101)
    found = tick_twice(folder, lambda: [folder.steps(pid, 101, 100) for pid in (1, 2)])
    [task] = found.tasks
    assert (task.ranks, task.steps) == (2, 400)
    assert task.rate == pytest.approx(1600.0) and found.rate == task.rate


def test_tasks_are_kept_apart(folder):
    folder.process(1)

    def rows(first, last):
        for at in range(first, last):
            folder.row(1, at * 20 * MS, at * 20 * MS + 15 * MS, 8, 32)
            folder.row(1, at * 20 * MS + 15 * MS, at * 20 * MS + 20 * MS, 9, 8)

    rows(0, 50)
    found = tick_twice(folder, lambda: rows(50, 100))
    disc, gen = found.tasks
    assert (disc.task, gen.task) == ("disc", "gen")
    assert (disc.steps, gen.steps) == (100, 100)
    assert disc.rate == pytest.approx(1600.0) and gen.rate == pytest.approx(400.0)
    assert set(found.ranks[0].tasks) == {"disc", "gen"}
    assert found.ranks[0].tasks["gen"].items == 800


@pytest.mark.parametrize("ahead", [False, True])
def test_epochs_with_evaluation_have_as_many_steps_as_were_made(folder, ahead):
    """Also where the loader reads ahead, and is exhausted before its last batch is trained with."""
    folder.process(1)
    epoch = [*[1, 4] * 10, 12]
    if ahead:  # as Hugging Face's Trainer does
        epoch = [1, *[1, 4] * 9, 12, 4]
    for at, number in enumerate([*epoch, 13, 13, 14] * 3):
        folder.row(1, at * MS, (at + 1) * MS, number)
    assert State(str(folder.path)).tick(101.0).steps == 30


def test_evaluation_is_a_task_of_its_own(folder):
    folder.process(1)
    state = State(str(folder.path))
    folder.steps(1, 0, 101)
    state.tick(101.0)
    folder.steps(1, 101, 100)
    state.tick(102.0)
    for at in range(50):
        folder.row(1, (2020 + at * 4) * MS, (2024 + at * 4) * MS, 5, 16)
    state.tick(102.2)
    for at in range(50, 100):
        folder.row(1, (2020 + at * 4) * MS, (2024 + at * 4) * MS, 5, 16)
    found = state.tick(102.4)
    train, evaluation = found.tasks
    assert (train.task, evaluation.task) == ("train", "evaluation")
    assert (train.active, evaluation.active) == (False, True)
    assert evaluation.rate == pytest.approx(4000.0) and evaluation.steps == 100
    assert train.rate == pytest.approx(800.0), "time in which it evaluates is not training's"
    folder.steps(1, 300, 50)
    state.tick(103.5)
    folder.steps(1, 350, 50)
    train, evaluation = state.tick(104.0).tasks
    assert train.rate == pytest.approx(800.0, rel=0.02), "nor when it goes on"
    assert (train.active, evaluation.active) == (True, False)


def test_a_device_knows_who_works_on_it(folder):
    for pid in (1, 2):
        folder.process(pid, rank=pid - 1, host="h")
    folder.steps(1, 0, 101)
    folder.steps(2, 0, 101)
    folder.monitor("process", {"host": "h"})
    folder.monitor("device_list", {"0": {"name": "A"}, "1": {"name": "A"}})
    for at, load in ((1.0, 0.5), (2.0, 1.0), (20.0, 0.0), (21.0, 0.4)):
        state = {"load": load, "power": 100 * load, "processes": {"1": 5}}
        folder.monitor("devices", {"0": state, "1": {"load": 1.0}}, at)
    folder.log(2, "site", {**site(11, "forward", of=2), "device": "cuda:1"})
    found = tick_twice(folder, lambda: [folder.steps(pid, 101, 100) for pid in (1, 2)])
    first, second = found.devices
    assert (first.ranks, second.ranks) == ((0,), (1,))
    assert first.rate == pytest.approx(800.0) and first.unit == "items/s"
    assert (first.load, first.mean_load) == (0.4, pytest.approx(0.2))
    assert first.mean_power == pytest.approx(20.0)


def test_who_comes_late_reads_all_of_it(folder, monkeypatch):
    monkeypatch.setattr("injector.live.raw_files.AT_ONCE", 1024)
    folder.process(1)
    folder.steps(1, 0, 1000)
    state = State(str(folder.path))
    assert state.tick(110.0).steps < 100
    state.catch_up()
    assert state.tick(110.0).steps == 999


def test_who_comes_late_does_not_wait_for_a_run_that_goes_on(folder):
    folder.process(1)
    folder.steps(1, 0, 1000)
    reads = 0

    class Growing(State):
        def _read(self, now):
            nonlocal reads
            reads += 1
            folder.steps(1, 1000 + 10 * reads, 10)
            folder.write()
            super()._read(now)

    state = Growing(str(folder.path))
    state.catch_up()
    assert reads == 1 and state.tick(110.0).steps > 1000


def test_the_end_of_a_loop_is_known_by_its_loader_and_the_programs_text(folder, tmp_path):
    text = "for epoch in range(3):\n" + "\n" * 28 + "    for x in loader:\n        pass\n"
    (tmp_path / "train.py").write_text(text)
    folder.process(1, argv=["train.py"])
    folder.log(
        1, "site", site(1, "io", of=1, place={"file": str(tmp_path / "train.py"), "line": 30})
    )
    folder.log(1, "ahead", {"of": 1, "batches": 200})
    folder.steps(1, 0, 100)
    found = State(str(folder.path)).tick(now=101.0)
    assert found.position == "epoch 1 of 3, batch 100 of 200"
    assert found.left == pytest.approx(500 * 0.01, rel=0.05)
    folder.log(1, "end", {"code": 0})
    assert State(str(folder.path)).tick(now=101.0).state == "ended"


def watched_epochs(folder, tmp_path, loop="for epoch in range(3):", sentence=None, goal=None):
    """A state whose program has three epochs of 100 steps of 10 ms, and 2 s of evaluation after each."""
    (tmp_path / "train.py").write_text(loop + "\n" * 29 + "    for x in loader:\n        pass\n")
    place = {"file": str(tmp_path / "train.py"), "line": 30}
    folder.process(1, argv=["train.py"])
    folder.log(1, "site", site(1, "io", of=1, place=place))
    folder.log(1, "site", site(12, "io.end", of=1, place=place))
    folder.log(1, "site", site(13, "io", of=5))
    folder.log(1, "ahead", {"of": 1, "batches": 100})
    if sentence:
        folder.log(1, "ahead", sentence)
    state = State(str(folder.path), goal=goal)

    def at(epoch, part):
        """The view in the midst of an epoch's batches, or of the evaluation after it."""
        first = 300 * epoch
        folder.steps(1, first, 50)
        if part == "evaluation":
            state.tick(101.0)
            folder.steps(1, first + 50, 50)
            over = (first + 100) * 10 * MS
            folder.row(1, over, over, 12)
            folder.row(1, over + 10 * MS, over + 1000 * MS, 13)
        found = state.tick(102.0)
        return found.left, found.left_of

    return at


def test_what_is_left_has_evaluation_as_it_was_so_far(folder, tmp_path):
    at = watched_epochs(folder, tmp_path)
    assert at(0, "evaluation") == (pytest.approx(2.0, rel=0.05), "training")
    assert at(1, "evaluation") == (pytest.approx(1.0 + 1.0 + 2.0, rel=0.05), "")
    left, of = at(2, "batches")
    assert (left, of) == (pytest.approx(0.5 + 2.0, rel=0.05), "")


def test_what_is_left_of_the_epoch_where_nobody_says_how_many_there_are(folder, tmp_path):
    at = watched_epochs(folder, tmp_path, "while True:")
    left, of = at(0, "batches")
    assert (left, of) == (pytest.approx(0.5, rel=0.05), "epoch")


@pytest.mark.parametrize("sentence", [{"epochs": 3}, {"steps": 300}])
def test_a_trainer_says_how_much_is_to_come(folder, tmp_path, sentence):
    at = watched_epochs(folder, tmp_path, "while True:", sentence)
    assert at(0, "evaluation") == (pytest.approx(2.0, rel=0.05), "training")
    left, of = at(1, "batches")
    assert (left, of) == (pytest.approx(0.5 + 1.0 + 2 * 2.0, rel=0.05), "")


def test_a_stop_comes_before_the_evaluation_that_follows(folder, tmp_path):
    at = watched_epochs(folder, tmp_path, goal=200)
    assert at(0, "evaluation") == (pytest.approx(1.0, rel=0.05), "training")
    assert at(1, "batches") == (pytest.approx(0.5, rel=0.05), "")
