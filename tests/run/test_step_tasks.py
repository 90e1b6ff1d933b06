"""Tasks of a Slurm step share a run folder: as Slurm describes them to a process, and under Slurm itself."""

from __future__ import annotations

import json
import os
import re
import subprocess
import threading
import time
from statistics import median

import pytest
import wrong_clock
from slurm_cluster import free_ports

from injector.analysis.columns import sources as sources_of
from injector.bus import clocks, writer
from injector.errors import UserError
from injector.launch.command import split
from injector.run import step_tasks
from injector.run.own_task import step_task
from injector.run.step_tasks import HURRY, SIGN_PERIOD, SILENCE
from injector.store.folder import open_run
from injector.store.logs import logs_of
from injector.store.place import Place

PROGRAM = """\
import os, sys

def train(steps):
    loss = float(os.environ["SLURM_PROCID"])
    for _ in range(steps):
        loss += 1
    return loss

train(3)
print("task", os.environ["SLURM_PROCID"], flush=True)
sys.exit(3 if os.environ["SLURM_PROCID"] in sys.argv[1:] else 0)
"""
VOIRFILE = """\
def instrument_it(ov):
    ov.value("//train > loss")
"""


LAUNCHER = """\
import os, subprocess, sys

task = int(os.environ["SLURM_PROCID"])
ranks = [2 * task, 2 * task + 1]
environs = [os.environ | {"RANK": str(rank), "WORLD_SIZE": "4"} for rank in ranks]
children = [subprocess.Popen([sys.executable, "train.py"], env=environ) for environ in environs]
sys.exit(sum(child.wait() for child in children))
"""


def sources(folder):
    (folder / "train.py").write_text(PROGRAM)
    (folder / "launch.py").write_text(LAUNCHER)
    (folder / "x.py").write_text(VOIRFILE)
    return ["run", "--no-monitor", "--runs", "runs", "--voirfile", "x.py", "train.py"]


def record(folder):
    [path] = folder.glob("runs/*/run.json")
    assert not list(folder.glob("runs/.step.*"))
    return json.loads(path.read_text())


def described(rank, tasks=2, **others):
    """What Slurm says to a task that this process is, or has started."""
    names = {"PROCID": rank, "STEP_NUM_TASKS": tasks, "TASK_PID": os.getpid()}
    names |= {"JOB_ID": 17, "STEP_ID": 0, **others}
    return {f"SLURM_{name}": str(text) for name, text in names.items()}


@pytest.mark.parametrize("failing", ["", "1"])
def test_tasks_share_a_run_folder(tmp_path, inject, environ, failing):
    words = [*inject, *sources(tmp_path), failing]
    tasks = [
        subprocess.Popen(
            words,
            cwd=tmp_path,
            env=environ | described(rank),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in (0, 1)
    ]
    (out, report), (other, nothing) = [task.communicate(timeout=300) for task in tasks]
    assert (out, other, nothing) == ("task 0\n", "task 1\n", "")
    code = 3 if failing else 0
    assert [task.returncode for task in tasks] == [0, code]
    assert "2 processes" in report
    info = record(tmp_path)
    assert sorted((each["rank"], each["world"]) for each in info["processes"]) == [(0, 2), (1, 2)]
    assert info["exit"]["code"] == code
    assert info["problems"] == (["task 1 of 2 ended with exit code 3"] if failing else [])


def test_a_launcher_is_no_rank_beside_those_that_it_starts(tmp_path, inject, environ):
    words = [*inject, *sources(tmp_path)[:-1], "launch.py"]
    tasks = [
        subprocess.Popen(words, cwd=tmp_path, env=environ | described(rank), text=True)
        for rank in (0, 1)
    ]
    assert [task.wait(300) for task in tasks] == [0, 0]
    processes = record(tmp_path)["processes"]
    found = sorted((each["argv"][1], each["rank"], each["world"]) for each in processes)
    assert found[:2] == [("launch.py", None, None)] * 2
    assert found[2:] == [("train.py", rank, 4) for rank in range(4)]
    run = open_run(str(next(tmp_path.glob("runs/*/run.json")).parent))
    recorded = sources_of(run)
    assert [each.rank for each in recorded] == [each["rank"] for each in processes]


def apart(folder, wrong):
    """The variables of a step whose node n2 has a clock that is wrong by so many seconds."""
    (folder / "clock").write_text(str(wrong))
    made = {"LD_PRELOAD": str(wrong_clock.build(folder)), "CLOCK_FILE": str(folder / "clock")}
    return made | {"CLOCK_NODE": "n2"}


def aligned(folder, wrong):
    """What the record says of the clock of n2, whose times have to be those of task 0's node."""
    info = record(folder)
    assert info["problems"] == [] and info["ended"] - info["started"] < 300
    times = [each["time"] for each in info["processes"]]
    assert len(times) == 2 and all(0 <= each - info["started"] < 300 for each in times)
    run = next(folder.glob("runs/*/run.json")).parent
    logs = [
        json.loads(path.read_text().split("\n")[0])["data"] for path in run.glob("raw/n2.*.log")
    ]
    assert logs and all(abs(each["clock_moved"] + wrong) < 1 for each in logs)
    [monitor] = run.glob("raw/n2.*.monitor")
    began = json.loads(monitor.read_text().split("\n")[0])["data"]["time"]
    assert 0 <= began - info["started"] < 300
    [text] = [each for each in info["remarks"] if "clock" in each]
    return text


MOVED = r"the clock of n2 is moved by (\S+) s to that of \S+, by asking \S+; the error is at most (\S+) ms"


UNTIL_WATCHED = """
import glob, os, time
until = time.monotonic() + 60
wanted = f"runs/*/raw/{os.uname().nodename}.*.monitor"
while not any(open(path).read().count("\\n") > 1 for path in glob.glob(wanted)) and time.monotonic() < until:
    time.sleep(0.05)
"""
"""Lest a program is over before its monitor has written a sample: a file without one is taken away."""


@pytest.mark.parametrize("wrong", [3600, -3600])
def test_nodes_whose_clocks_are_an_hour_apart(tmp_path, inject, environ, wrong):
    words = [each for each in sources(tmp_path) if each != "--no-monitor"]
    (tmp_path / "train.py").write_text(UNTIL_WATCHED + PROGRAM)
    words[1:1] = ["--interval", "0.1"]
    variables = environ | apart(tmp_path, wrong)
    tasks = [
        subprocess.Popen(
            [*inject, *words],
            cwd=tmp_path,
            env=variables | described(rank, STEP_NUM_NODES=2) | {"SLURMD_NODENAME": node},
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank, node in enumerate(("n1", "n2"))
    ]
    said = [task.communicate(timeout=300)[1] for task in tasks]
    assert [task.returncode for task in tasks] == [0, 0], said
    found = re.fullmatch(MOVED, aligned(tmp_path, wrong))
    assert found, said
    error = float(found[2]) / 1e3
    assert 0 < error < 1 and abs(float(found[1]) + wrong) <= error + 1e-6


DRIFTING = """
import os, time

def train(steps):
    for step in range(steps):
        time.sleep(0.2)
        name = f"{os.environ['SLURM_PROCID']}.{step}"
        open(name, "w").close()
        loss = os.stat(name).st_mtime
    return loss

train(40)
"""
"""Its losses are when they come, by the clock of the kernel, which is right on both nodes."""
OFTEN = """
import sys
from injector.run import node_clock
node_clock.ASK_PERIOD = 0.5
from injector.cli import main
sys.exit(main())
"""


def test_clocks_that_drift_apart_are_put_right(tmp_path, inject, environ):
    """n2's goes 2 % too fast, 160 ms in the time that the program takes."""
    words = sources(tmp_path)
    (tmp_path / "train.py").write_text(DRIFTING)
    (tmp_path / "often.py").write_text(OFTEN)
    ppm = 20_000
    variables = environ | apart(tmp_path, f"0 {ppm} {time.monotonic()}")
    tasks = [
        subprocess.Popen(
            [inject[0], "often.py", *words],
            cwd=tmp_path,
            env=variables | described(rank, STEP_NUM_NODES=2) | {"SLURMD_NODENAME": node},
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank, node in enumerate(("n1", "n2"))
    ]
    messages = [task.communicate(timeout=300)[1] for task in tasks]
    assert [task.returncode for task in tasks] == [0, 0], messages
    put_right(tmp_path, ppm)


def put_right(folder, ppm):
    """The record has measured the drift of n2's clock, and values of both nodes stand at their true times."""
    info = record(folder)
    [remark] = [each for each in info["remarks"] if "gained" in each]
    found = re.fullmatch(
        r"the clock of n2 (?:is moved by \S+ s to that of \S+, and )?gained (\S+) ms \((\S+) ppm\)"
        r"(?: on that of \S+)?, measured (\d+) times in (\S+) s: its times are put right, "
        r"with an error of at most (\S+) ms",
        remark,
    )
    assert found, remark
    gained, rate, count, length, error = map(float, found.groups())
    assert rate == pytest.approx(ppm, rel=0.1) and gained == pytest.approx(
        rate * length / 1e3, rel=0.01
    )
    assert count > length / 2 and error < 50
    run = next(folder.glob("runs/*/run.json")).parent
    assert len(list(run.glob("raw/*.drift"))) == 1
    [data] = run.glob("*.D0.data")
    values = [json.loads(line) for line in data.read_text().splitlines()]
    values = [each["data"] for each in values if each["event"] == "data" and "loss" in each["data"]]
    for process in (0, 1):
        off = [each["time"] - each["loss"] for each in values if each["process"] == process]
        assert len(off) == 40 and abs(median(off)) < 0.02, off
    [log] = [each for each in logs_of(str(run)) if each.host == "n2"]
    drift = log.clock.drift.at
    later = drift(log.began + 8 * 10**9) - drift(log.began)
    assert later == pytest.approx(-8e-6 * ppm, rel=0.3)


def test_a_node_that_cannot_ask_for_the_time_says_so(tmp_path, monkeypatch):
    """Whoever task 0 names does not answer; the clocks are taken as they are."""
    folder = tmp_path / "run"
    (folder / "raw").mkdir(parents=True)
    first, second = [
        step_task(
            split(["--runs", str(tmp_path), "train.py"], lambda command: {}),
            described(rank, STEP_NUM_NODES=2),
        )
        for rank in (0, 1)
    ]
    first.place(lambda: Place(str(folder), (), new=True))
    assert first.clock_sentences(str(folder)) == []
    silent = free_ports(1)[0]
    (folder / "raw/task.0.clock").write_text(f"127.0.0.1\n{silent}")
    second.place(lambda: Place(str(folder), (), new=True))
    here = os.uname().nodename
    assert second.clock.moved == 0 and first.clock_sentences(str(folder)) == [
        f"the clock of {here} is taken as it is: {here} does not answer the question for the time"
    ]


@pytest.mark.parametrize(
    "environment",
    [
        {},
        described(0, tasks=1),
        described(0, STEP_ID=""),
        described(1, TASK_PID=1 << 30),
        {"SLURM_PROCID": "0", "SLURM_NTASKS": "2"},
    ],
    ids=["no Slurm", "one task", "a batch script", "below a task", "an allocation"],
)
def test_these_record_alone(environment):
    assert step_task(split(["train.py"], lambda command: {}), environment) is None


def test_flops_need_a_program_that_can_run_alone():
    with pytest.raises(UserError, match="--flops runs the program once more"):
        step_task(split(["--flops", "train.py"], lambda command: {}), described(0))


def waits(tmp_path, monkeypatch, lasts, signals=(), interrupted=False):
    """What task 0 finds of a task 1 that lasts so many seconds, and how long that took.

    None: it shows no sign of life and has no end. Task 0 is sent a signal in the pauses of these numbers.
    """
    folder = tmp_path / "run"
    (folder / "raw").mkdir(parents=True)

    def place():
        return Place(str(folder), (), new=True)

    first, second = [
        step_task(split(["--runs", str(tmp_path), "train.py"], lambda command: {}), described(rank))
        for rank in (0, 1)
    ]
    first.place(place)
    second.place(place)
    started = folder / "raw" / "task.1.started"
    passed, signed, pauses = 0.0, 0.0, 0

    def pause(watched, seconds):
        nonlocal passed, signed, pauses
        passed, pauses = passed + seconds, pauses + 1
        if lasts is not None and passed >= lasts:
            second.ended(str(folder), 0)
        elif lasts is not None and passed - signed >= SIGN_PERIOD:
            before, signed = started.stat().st_mtime_ns, passed
            while started.stat().st_mtime_ns == before:  # of a coarse clock
                assert second.sign(str(folder)) is True
        return pauses in signals

    monkeypatch.setattr(step_tasks, "_interrupted", pause)
    codes, problems = first.wait_for_others(str(folder), interrupted)
    assert not list(tmp_path.glob(".step.*"))
    return codes, problems, passed


@pytest.mark.parametrize("lasts", [0.2, 20 * SILENCE])
def test_a_task_that_runs_is_waited_for(tmp_path, monkeypatch, lasts):
    codes, problems, passed = waits(tmp_path, monkeypatch, lasts)
    assert (codes, problems) == ({1: 0}, []) and passed >= lasts


def test_a_task_without_a_sign_of_life_is_given_up(tmp_path, monkeypatch):
    codes, [problem], passed = waits(tmp_path, monkeypatch, None)
    assert codes == {} and problem.startswith("task 1 of 2 was killed, or still running")
    assert SILENCE <= passed < SILENCE + 2 * step_tasks.LONGEST_PAUSE


@pytest.mark.parametrize(
    ("signals", "interrupted", "most"),
    [((), True, HURRY), ((3,), False, HURRY + 1), ((3, 5), False, 1), ((3,), True, 1)],
    ids=["before", "while waiting", "two while waiting", "before and while waiting"],
)
def test_a_signal_to_end_cuts_the_waiting_short(tmp_path, monkeypatch, signals, interrupted, most):
    codes, [problem], passed = waits(tmp_path, monkeypatch, 20 * SILENCE, signals, interrupted)
    assert codes == {} and "when task 0 stopped waiting" in problem
    assert passed < most + 2 * step_tasks.LONGEST_PAUSE


@pytest.mark.release
@pytest.mark.xdist_group("slurm")
@pytest.mark.parametrize("inside", [False, True], ids=["srun inject run", "inject run srun"])
def test_a_step_over_two_nodes(tmp_path, slurm, inject, environ, inside):
    words = sources(tmp_path)
    srun = ["srun", "--nodes=2", "--ntasks=2"]
    under = [*inject, *words[:-1], *srun, inject[0], "train.py"]
    command = under if inside else [*srun, *inject, *words]
    done = subprocess.run(
        command, cwd=tmp_path, env=environ | slurm, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == ["task 0", "task 1"]
    info = record(tmp_path)
    ranks = sorted(
        (each["rank"], each["world"]) for each in info["processes"] if each["rank"] is not None
    )
    assert ranks == [(0, 2), (1, 2)] and info["problems"] == []


def on_two_nodes(words, folder, environ):
    """A step of two tasks, one on each node."""
    command = ["srun", "--nodes=2", "--ntasks=2", *words]
    return subprocess.run(
        command, cwd=folder, env=environ, capture_output=True, text=True, timeout=300
    )


@pytest.mark.release
@pytest.mark.xdist_group("slurm")
def test_a_step_on_nodes_whose_clocks_are_an_hour_apart(tmp_path, slurm, inject, environ):
    words = [each for each in sources(tmp_path) if each != "--no-monitor"]
    (tmp_path / "train.py").write_text(UNTIL_WATCHED + PROGRAM)
    words[1:1] = ["--interval", "0.1"]
    done = on_two_nodes([*inject, *words], tmp_path, environ | slurm | apart(tmp_path, -3600))
    assert done.returncode == 0, done.stderr
    assert re.fullmatch(MOVED, aligned(tmp_path, -3600))
    assert "the clock of n2 is moved by" in " ".join(done.stderr.split())


@pytest.mark.release
@pytest.mark.xdist_group("slurm")
def test_a_step_on_nodes_whose_clocks_drift_apart(tmp_path, slurm, inject, environ):
    words = sources(tmp_path)
    (tmp_path / "train.py").write_text(DRIFTING)
    (tmp_path / "often.py").write_text(OFTEN)
    variables = environ | slurm | apart(tmp_path, f"-3600 -20000 {time.monotonic()}")
    done = on_two_nodes([inject[0], "often.py", *words], tmp_path, variables)
    assert done.returncode == 0, done.stderr
    put_right(tmp_path, -20_000)


@pytest.mark.release
@pytest.mark.xdist_group("slurm")
def test_torchrun_in_each_task(tmp_path, slurm, inject, environ):
    words = sources(tmp_path)
    port = free_ports(1)[0]
    torchrun = ["-m", "torch.distributed.run", "--nnodes=2", "--nproc-per-node=2"]
    torchrun += ["--rdzv-backend=c10d", f"--rdzv-endpoint=127.0.0.1:{port}"]
    done = on_two_nodes([*inject, *words[:-1], *torchrun, "train.py"], tmp_path, environ | slurm)
    assert done.returncode == 0, done.stderr
    ranks = [each["rank"] for each in record(tmp_path)["processes"]]
    assert sorted(ranks, key=str) == [0, 1, 2, 3, None, None]


@pytest.mark.release
@pytest.mark.xdist_group("slurm")
def test_two_programs_of_one_step_are_two_runs(tmp_path, slurm, inject, environ):
    line = " ".join([*inject, *sources(tmp_path)])
    done = on_two_nodes(["sh", "-c", f"{line}; {line}"], tmp_path, environ | slurm)
    assert done.returncode == 0, done.stderr
    records = [json.loads(path.read_text()) for path in tmp_path.glob("runs/*/run.json")]
    assert [sorted(each["rank"] for each in info["processes"]) for info in records] == [[0, 1]] * 2


@pytest.mark.release
@pytest.mark.xdist_group("slurm")
def test_the_report_of_a_step_of_which_one_inject_was_killed(tmp_path, slurm, inject, environ):
    words = sources(tmp_path)
    killed = "os.environ['SLURM_PROCID'] == '1' and os.kill(os.getppid(), 9)"
    (tmp_path / "train.py").write_text(f"import os\n{killed}\n{PROGRAM}")
    done = on_two_nodes([*inject, *words], tmp_path, environ | slurm)
    assert done.returncode != 0 and "task 1 of 2 was killed" in done.stderr
    [problem] = record(tmp_path)["problems"]
    assert problem.startswith("task 1 of 2 was killed")


@pytest.mark.release
@pytest.mark.xdist_group("slurm")
def test_the_records_of_a_task_that_runs_longer_than_task_0(tmp_path, slurm, inject, environ):
    words = sources(tmp_path)
    program = (
        f"import os, time\nif os.environ['SLURM_PROCID'] == '1':\n    time.sleep({SILENCE + 10})\n"
    )
    (tmp_path / "train.py").write_text(program + PROGRAM)
    done = on_two_nodes([*inject, *words], tmp_path, environ | slurm)
    assert done.returncode == 0, done.stderr
    info = record(tmp_path)
    assert info["problems"] == [] and all(each["ended"] for each in info["processes"])
    assert [each["fired"] for each in info["probes"]] == [8]


class DriftLog:
    """Notes what becomes of it, and takes its time to begin."""

    made: list[DriftLog]

    def __init__(self, *_, **__):
        self.calls = []
        DriftLog.made.append(self)
        time.sleep(0.1)

    def emit(self, *_):
        self.calls.append("emit")

    def close(self):
        self.calls.append("close")


@pytest.mark.parametrize("late", [False, True])
def test_a_question_that_is_open_when_the_program_ends(tmp_path, monkeypatch, late):
    """Its answer comes while the last question is answered, or (``late``) once the task has ended."""
    DriftLog.made = []
    monkeypatch.setattr(writer, "Writer", DriftLog)
    task = step_tasks.StepTask(1, 2, "key", str(tmp_path))
    task.clock.asks_again, task.clock._answerer = True, ("elsewhere", 1)
    monkeypatch.setattr(step_tasks, "write", lambda *text: None)
    meet, ended = threading.Barrier(1 if late else 2), threading.Event()

    def ask(host, port):
        if late and threading.current_thread() is not threading.main_thread():
            assert ended.wait(60)
        meet.wait(60)
        return clocks.Answered(time.monotonic_ns(), 0.0, 0.0, 0.0)

    monkeypatch.setattr(clocks, "ask", ask)
    open_question = threading.Thread(target=task.clock._ask_again, args=(str(tmp_path),))
    open_question.start()
    task.ended(str(tmp_path), 0)
    ended.set()
    open_question.join(60)
    [log] = DriftLog.made
    assert log.calls in (["emit", "close"], ["emit", "emit", "close"])
