"""Time limits, and what a program leaves behind: nothing is left running, ever."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys

import pytest

from .supervised import PATIENCE, WAIT, alive, belong, until

FAMILY = """
import multiprocessing, os, signal, subprocess, sys, time

def wait(name, ignore):
    if ignore:
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
    os.symlink(str(os.getpid()), os.path.join(sys.argv[1], name))  # whole at once
    while True:
        time.sleep(0.05)

def daemon(name, ignore):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            for descriptor in (0, 1, 2):
                os.close(descriptor)
            wait(name, ignore)
        os._exit(0)
    os.wait()

if __name__ == "__main__":
    for name in os.listdir(sys.argv[1]):
        os.unlink(os.path.join(sys.argv[1], name))
    ignore = "ignore" in sys.argv
    fork = multiprocessing.get_context("fork")
    fork.Process(target=wait, args=("child", ignore), daemon="daemonic" in sys.argv).start()
    grandchild = "import sys; sys.argv[1] = %r; import main; main.wait('grandchild', %r)"
    subprocess.Popen([sys.executable, "-c", grandchild % (sys.argv[1], ignore), "x"])
    daemon("daemon", ignore)
    while len(os.listdir(sys.argv[1])) < 3:
        time.sleep(0.01)
    if "ignore" in sys.argv:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    print("ready", os.getpid(), flush=True)
    if "leave" in sys.argv:
        os._exit(5)
    while True:
        time.sleep(0.05)
"""


@pytest.fixture
def family(tmp_path):
    folder = tmp_path / "family"
    folder.mkdir()
    return folder


def pids(folder):
    return [int(os.readlink(file)) for file in folder.iterdir()]


@pytest.mark.parametrize("how", [(), ("ignore",), ("daemonic",)])
def test_a_time_limit_ends_all_that_was_started(start_in_time, family, how):
    process = start_in_time(FAMILY, str(family), *how, options=("--grace", "0.3"))
    assert len(pids(family)) == 3
    assert process.wait(PATIENCE) == 124
    assert belong(process.mark) == []
    assert not any(map(alive, pids(family)))


@pytest.mark.parametrize("how", [(), ("ignore",)])
def test_what_outlives_the_program_is_ended(start, family, how):
    process = start(FAMILY, str(family), "leave", *how, options=("--grace", "0.3"))
    assert process.wait(PATIENCE) == 5
    assert belong(process.mark) == []


def test_what_is_ended_is_reported(inject, environ, family, tmp_path):
    (tmp_path / "main.py").write_text(FAMILY)
    done = subprocess.run(
        [*inject, "run", "--runs", "runs", "--grace", "0.3", "main.py", str(family), "leave"],
        cwd=tmp_path,
        env=environ,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert done.returncode == 5
    assert done.stderr.count("inject: a process outlived the program, and was ended: ") == 3
    [run] = (tmp_path / "runs").glob("*/run.json")
    record = json.loads(run.read_text())
    assert len(record["outlived"]) == 3
    assert record["exit"] == {"code": 5, "signal": None}
    assert record["warnings"] == []


def test_a_child_may_finish_what_it_does(start, tmp_path):
    process = start(
        "import os, subprocess, sys\n"
        "text = \"import time; time.sleep(0.5); open('done', 'w')\"\n"
        "subprocess.Popen([sys.executable, '-c', text], start_new_session=True)\n"
        "print('ready', os.getpid(), flush=True)",
        options=("--grace", "60"),
    )
    assert process.wait(PATIENCE) == 0
    assert (tmp_path / "done").exists()


def test_a_user_who_is_tired_of_waiting_need_not(start, family):
    process = start(FAMILY, str(family), "leave", "ignore", options=("--grace", "1h"))
    until(lambda: not alive(process.program))
    process.send_signal(signal.SIGINT)  # has those that are left asked to end
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(1)
    while process.poll() is None:  # the first is passed over, should it come too early
        process.send_signal(signal.SIGINT)
        try:
            process.wait(20)  # the next would end the report that is being made
        except subprocess.TimeoutExpired:
            pass
    assert process.returncode == 5
    assert belong(process.mark) == []


def test_when_the_program_is_killed_no_one_waits_for_the_rest(start, family):
    process = start(FAMILY, str(family), options=("--grace", "1h"))
    os.kill(process.program, signal.SIGKILL)
    assert process.wait(PATIENCE) == -signal.SIGKILL
    assert belong(process.mark) == []


def test_the_end_is_announced(start_in_time):
    process = start_in_time(WAIT, "SIGTERM", options=("--grace", "1h"))
    assert process.wait(PATIENCE) == 124
    assert process.stdout.read() == "got SIGTERM\n"


def test_a_process_that_does_not_hear_is_killed(start_in_time):
    deaf = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)\n" + WAIT
    process = start_in_time(deaf, options=("--grace", "0.1"))
    assert process.wait(PATIENCE) == 124
    assert not alive(process.program)


def test_a_stopped_program_is_ended_as_well(start_in_time):
    stops = WAIT.replace("while True:", "os.kill(os.getpid(), signal.SIGSTOP)\nwhile True:")
    process = start_in_time(stops, "SIGTERM", options=("--grace", "1h"))
    assert process.wait(PATIENCE) == 124
    assert process.stdout.read() == "got SIGTERM\n"


def test_a_program_that_ends_in_time_is_what_it_was(start):
    process = start(
        "import os; print('ready', os.getpid(), flush=True); os._exit(3)",
        options=("--timeout=1h",),
    )
    assert process.wait(PATIENCE) == 3


def test_that_it_was_ended_is_in_the_record(start, tmp_path):
    process = start(WAIT, options=("--timeout", "1", "--runs", str(tmp_path / "runs")))
    assert process.wait(PATIENCE) == 124
    [run] = (tmp_path / "runs").glob("*/run.json")
    record = json.loads(run.read_text())
    assert record["timed_out"] is True
    assert record["limits"] == {"timeout": 1.0}
    assert record["exit"] == {"code": None, "signal": signal.SIGTERM}


def test_two_runs_are_not_in_each_others_way(start, family):
    other = start(WAIT)
    process = start(FAMILY, str(family), options=("--timeout", "2", "--grace", "0.2"))
    assert process.wait(PATIENCE) == 124
    assert alive(other.program) and other.poll() is None


def test_no_one_notices_the_ends_of_orphans(start):
    """What is left to us is buried by us, however much of it there is."""
    process = start(
        "import os, time\n"
        "for _ in range(50):\n"
        "    if os.fork() == 0:\n"
        "        if os.fork() == 0: os._exit(3)\n"
        "        os._exit(4)\n"
        "    os.wait()\n"
        "print('ready', os.getpid(), flush=True)\n"
        "time.sleep(0.3)\n"
        "os._exit(6)"
    )
    assert process.wait(PATIENCE) == 6


def test_nonsense_is_refused(inject, environ, tmp_path):
    (tmp_path / "main.py").write_text("print('ran')")
    for words in (["--timeout", "soon"], ["--grace=-1"], ["--stop", "0"], ["--max-duration", "0"]):
        done = subprocess.run(
            [*inject, "run", *words, "main.py"],
            cwd=tmp_path,
            env=environ,
            capture_output=True,
            text=True,
        )
        assert (done.returncode, done.stdout) == (2, ""), words
        assert done.stderr.startswith(f"inject: {words[0].partition('=')[0]} ")


def test_a_grace_of_nothing_is_allowed(start):
    process = start(WAIT, options=("--timeout", "1", "--grace", "0"))
    assert process.wait(PATIENCE) == 124


def test_data_loader_workers_are_ended(start):
    pytest.importorskip("torch")
    process = start(
        "import os, torch\n"
        "class Data(torch.utils.data.Dataset):\n"
        "    __len__ = lambda self: 1 << 40\n"
        "    __getitem__ = lambda self, i: torch.zeros(4)\n"
        "loader = torch.utils.data.DataLoader(Data(), 4, num_workers=2,\n"
        "    sampler=iter(lambda: 0, 1), multiprocessing_context='fork')\n"
        "for number, batch in enumerate(loader):\n"
        "    if number == 3: print('ready', os.getpid(), flush=True)\n",
        options=("--timeout", "1h"),
    )
    assert len(belong(process.mark)) >= 4
    os.kill(process.program, signal.SIGKILL)
    assert process.wait(PATIENCE) == -signal.SIGKILL
    assert belong(process.mark) == []


def test_the_interpreter_here_can_adopt():
    text = "from injector.reaper import adopt_orphans; print(adopt_orphans())"
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True)
    assert done.stdout == "True\n"


def test_who_interrupted_it_is_in_the_record(start, tmp_path):
    process = start(WAIT, options=("--runs", str(tmp_path / "runs")))
    process.terminate()
    assert process.wait(PATIENCE) == -signal.SIGTERM
    [run] = (tmp_path / "runs").glob("*/run.json")
    record = json.loads(run.read_text())
    assert record["interrupted"]["signal"] == signal.SIGTERM
    assert record["started"] <= record["interrupted"]["time"] <= record["ended"]


def test_no_one_interrupted_it(start, tmp_path):
    process = start(
        "import os; print('ready', os.getpid(), flush=True)",
        options=("--runs", str(tmp_path / "runs")),
    )
    assert process.wait(PATIENCE) == 0
    [run] = (tmp_path / "runs").glob("*/run.json")
    assert json.loads(run.read_text())["interrupted"] is None
