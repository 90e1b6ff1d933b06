"""Somebody is killed, or stopped for a while."""

from __future__ import annotations

import os
import random
import signal
import time

import pytest
from supervised import alive, state, until

from injector.store import monitor

from .faulty import until_sampled

KILLS = 50
"""How many processes of one run are killed at random moments."""

RUNS = [0, *(pytest.param(number, marks=pytest.mark.release) for number in range(1, 20))]
"""One run in each `make test`; a thousand processes are killed before a release."""

ENDLESS = """
say("ready", os.getpid())
steps(1 << 60)
"""


@pytest.mark.parametrize(
    "attempt", [0, *(pytest.param(n, marks=pytest.mark.release) for n in (1, 2))]
)
def test_the_program_is_killed(launch, attempt):
    run = launch(ENDLESS)
    program = int(run.next_line()[1])
    time.sleep(random.random() / 10)
    os.kill(program, signal.SIGKILL)
    run = run.over()
    assert run.exit == -signal.SIGKILL
    assert run.processes[program].is_whole()
    assert run.info["lost"] == 0


@pytest.mark.parametrize("attempt", RUNS)
def test_processes_are_killed_at_random_moments(launch, attempt):
    """Many at little cost: the children of one program, which also tell how far each came."""
    run = launch(f"""
import random
random.seed({random.randrange(1 << 30)})
for who in range({KILLS}):
    child = os.fork()
    if child == 0:
        steps(1 << 60, who)
    time.sleep(random.random() ** 2 / 120)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    say(child, counts[who])
sys.exit(7)
""")
    run = run.over()
    assert run.exit == 7
    made = dict(map(int, line.split()) for line in run.out.splitlines())
    recorded = run.processes
    assert len(made) == KILLS
    for pid, count in made.items():
        if pid not in recorded:
            assert count == 0  # it was killed before it began
            continue
        process = recorded[pid]
        assert process.is_whole(), (count, process.steps)
        assert count <= process.steps <= count + 1
        assert process.lost == 0


def test_one_rank_of_four_is_killed(launch):
    run = launch("""
import multiprocessing, threading

def rank(number, barrier):
    os.environ["RANK"] = str(number)
    steps(100, number)
    barrier.wait()
    if number == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    steps(100, number)

if __name__ == "__main__":
    fork = multiprocessing.get_context("fork")
    barrier = fork.Barrier(4)
    ranks = [fork.Process(target=rank, args=(n, barrier)) for n in range(4)]
    for process in ranks: process.start()
    for process in ranks: process.join()
    say(*(process.pid for process in ranks))
    sys.exit(max(abs(process.exitcode) for process in ranks))
""").over()
    assert run.exit == signal.SIGKILL  # as the program itself says
    recorded = run.processes
    counts = [recorded[int(pid)] for pid in run.out.split()]
    assert [len(process.values) for process in counts] == [200, 200, 100, 200]
    assert [process.steps for process in counts] == [200, 200, 100, 200]
    [fate] = run.info["broken"]
    assert (fate["rank"], fate["kind"], fate["steps"]) == (2, "died", 100)
    assert fate["how"] in ("killed by SIGKILL", "exit not known")
    assert "rank 2 died at step 100" in run.err


def test_a_data_loader_worker_is_killed(launch):
    pytest.importorskip("torch")
    run = launch("""
import torch

class Data(torch.utils.data.IterableDataset):
    def __iter__(self):
        while True:
            yield torch.zeros(1)

def main():
    loader = torch.utils.data.DataLoader(Data(), batch_size=2, num_workers=2)
    for number, batch in enumerate(loader):
        step(number)
        if number == 20:
            say("kills", os.getpid())  # PyTorch may raise as soon as it is done
            os.kill(torch.multiprocessing.active_children()[0].pid, signal.SIGKILL)
main()
""").over()
    assert run.exit == 1  # what PyTorch says differs from time to time, with and without us
    program = int(run.out.split()[1])
    assert run.processes[program].is_whole()
    assert len(run.processes[program].values) >= 21
    assert run.info["outlived"] == []


def test_the_supervisor_is_killed(launch, tmp_path):
    run = launch("""
say("ready", os.getpid())
while not os.path.exists("go on"):
    time.sleep(0.01)
steps(1000)
open("done", "w").write("3")
""")
    program = int(run.next_line()[1])
    run.process.kill()
    run.process.wait()
    run.killed = True
    (tmp_path / "go on").touch()
    until((tmp_path / "done").exists)
    until(lambda: not alive(program))
    until(lambda: run.left() == [])
    run = run.over()
    assert run.exit == -signal.SIGKILL
    assert not (run.folder / "run.json").exists()
    assert run.processes[program].is_whole(1000)


def monitor_of(run):
    """The process beside the program that samples it."""
    for pid in run.left():
        with open(f"/proc/{pid}/cmdline") as file:
            if "injector.monitor" in file.read():
                return pid
    return None


@pytest.mark.parametrize("name", ["SIGKILL", "SIGSTOP"])
def test_the_monitor_is_lost(launch, tmp_path, name):
    run = launch("""
say("ready", os.getpid())
while not os.path.exists("go on"):
    time.sleep(0.01)
steps(1000)
sys.exit(5)
""")
    program = int(run.next_line()[1])
    os.kill(until(lambda: monitor_of(run)), getattr(signal, name))
    (tmp_path / "go on").touch()
    run = run.over()
    assert run.exit == 5
    assert run.processes[program].is_whole(1000)
    assert run.info["outlived"] == []


def pause(pid):
    """Stop a process for a while."""
    os.kill(pid, signal.SIGSTOP)
    until(lambda: state(pid) == "T")
    os.kill(pid, signal.SIGCONT)
    until(lambda: state(pid) != "T")


def test_one_rank_of_four_is_stopped_for_a_while(launch, tmp_path):
    run = launch("""
import multiprocessing

def rank(number, barrier):
    os.environ["RANK"] = str(number)
    steps(100, number)
    barrier.wait()
    while not os.path.exists("go on"):
        time.sleep(0.01)
    for _ in range(10):
        step(100)
        barrier.wait()

if __name__ == "__main__":
    fork = multiprocessing.get_context("fork")
    barrier = fork.Barrier(4)
    ranks = [fork.Process(target=rank, args=(n, barrier)) for n in range(4)]
    for process in ranks: process.start()
    say(*(process.pid for process in ranks))
    for process in ranks: process.join()
    sys.exit(3 + max(process.exitcode for process in ranks))
""")
    ranks = list(map(int, run.next_line()))
    os.kill(ranks[2], signal.SIGSTOP)
    until(lambda: state(ranks[2]) == "T")
    (tmp_path / "go on").touch()
    os.kill(ranks[2], signal.SIGCONT)
    run = run.over()
    assert run.exit == 3
    assert [run.processes[pid].steps for pid in ranks] == [110, 110, 110, 110]


@pytest.mark.release
def test_a_data_loader_worker_is_stopped_for_a_while(launch, tmp_path):
    pytest.importorskip("torch")
    run = launch("""
import torch

class Data(torch.utils.data.IterableDataset):
    def __iter__(self):
        for number in range(40):
            yield torch.zeros(1)

def main():
    loader = torch.utils.data.DataLoader(Data(), batch_size=2, num_workers=1)
    for number, batch in enumerate(loader):
        step(number)
        if number == 2:
            say(torch.multiprocessing.active_children()[0].pid, os.getpid())
            while not os.path.exists("go on"):
                time.sleep(0.01)
main()
sys.exit(4)
""")
    worker, program = map(int, run.next_line())
    os.kill(worker, signal.SIGSTOP)
    until(lambda: state(worker) == "T")
    (tmp_path / "go on").touch()
    os.kill(worker, signal.SIGCONT)
    run = run.over()
    assert run.exit == 4
    assert run.processes[program].is_whole(20)
    assert run.info["outlived"] == []


def test_the_monitor_is_stopped_for_a_while(launch, tmp_path):
    run = launch(
        """
say("ready", os.getpid())
while not os.path.exists("go on"):
    time.sleep(0.01)
steps(1000)
sys.exit(5)
""",
        "--interval",
        "0.05",
    )
    program = int(run.next_line()[1])
    until_sampled(run, 3)
    paused = until(lambda: monitor_of(run))
    pause(paused)
    sampled = len(until_sampled(run, 3).hosts)
    until_sampled(run, sampled + 3)
    (tmp_path / "go on").touch()
    run = run.over()
    assert run.exit == 5
    assert run.processes[program].is_whole(1000)
    [seen] = monitor.read(str(run.folder))
    assert seen.whole


def sentinel_of(run, program):
    """Ours that stands in the program's group to tell what that is sent."""
    group = os.getpgid(program)
    others = [pid for pid in run.left() if pid not in (program, run.process.pid)]
    return next((pid for pid in others if os.getpgid(pid) == group), None)


@pytest.mark.parametrize("name", ["SIGKILL", "SIGSTOP"])
def test_the_sentinel_of_signals_is_lost(launch, name):
    run = launch(
        """
signal.signal(signal.SIGTERM, lambda *_: (steps(1000), sys.exit(5)))
say("ready", os.getpid())
while True:
    time.sleep(0.05)
""",
        process_group_of_its_own=True,
    )
    program = int(run.next_line()[1])
    sentinel = until(lambda: sentinel_of(run, program))
    os.kill(sentinel, getattr(signal, name))
    run.process.terminate()  # to inject alone, which passes it on
    run = run.over()
    assert run.exit == 5
    assert run.processes[program].is_whole(1000)


def test_the_program_is_stopped_for_a_while(launch, tmp_path):
    run = launch("""
say("ready", os.getpid())
number = 0
while not os.path.exists("enough"):
    step(number)
    number += 1
say(number)
sys.exit(5)
""")
    program = int(run.next_line()[1])
    for _ in range(3):
        pause(program)
    (tmp_path / "enough").touch()
    run = run.over()
    assert run.exit == 5
    assert run.processes[program].is_whole(int(run.out.split()[-1]))


def test_the_supervisor_is_stopped_for_a_while(launch, tmp_path):
    """The program does not wait for it, and its end is noticed afterwards."""
    run = launch("""
say("ready", os.getpid())
while not os.path.exists("go on"):
    time.sleep(0.01)
steps(20000)
sys.exit(6)
""")
    program = int(run.next_line()[1])
    run.process.send_signal(signal.SIGSTOP)
    until(lambda: state(run.process.pid) == "T")
    (tmp_path / "go on").touch()
    until(lambda: not alive(program))
    run.process.send_signal(signal.SIGCONT)
    run = run.over()
    assert run.exit == 6
    assert run.processes[program].is_whole(20000)


def test_the_program_leaves_without_a_word(launch):
    run = launch("steps(1000)\nsay(os.getpid())\nos._exit(9)\n").over()
    assert run.exit == 9
    assert run.processes[int(run.out)].is_whole(1000)


@pytest.mark.parametrize("name", ["SIGSEGV", "SIGABRT"])
def test_the_program_crashes(launch, name):
    run = launch(f"steps(1000)\nsay(os.getpid())\nos.kill(os.getpid(), signal.{name})\n").over()
    assert run.exit == -getattr(signal, name)
    assert run.processes[int(run.out)].is_whole(1000)
