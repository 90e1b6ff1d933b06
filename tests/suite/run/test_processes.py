"""The processes of a job begin all together, or not at all."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from suite_runs import ROOT, until

from injector.store.run_json import write_info
from injector.suite.plan.jobs import PlannedProcess
from injector.suite.run import processes

SAYS = "import os, sys; open(sys.argv[1], 'w').write(os.getcwd())"


def process(key, folder, *words, environment=(), cwd=None, cores=()):
    run = f"jobs/{key}"
    return PlannedProcess(
        key,
        ("cpu:0",),
        tuple(map(str, words)),
        dict(environment),
        str(cwd or folder / run / "out"),
        run,
        60.0,
        60.0,
        tuple(cores),
    )


def says(key, folder):
    return process(key, folder, sys.executable, "-c", SAYS, folder / f"{key}.said")


def ended(pids):
    return [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids]


def test_an_exit_code_without_a_word_on_a_full_disk(tmp_path, monkeypatch):
    (tmp_path / "jobs").mkdir()
    end = processes.ProcessEnd("jobs", 1, None, False)
    assert end.problem(str(tmp_path)) == "exit code 1"
    monkeypatch.setattr(processes, "LITTLE", 1 << 60)
    assert end.problem(str(tmp_path)) == f"exit code 1 (there is no space left in {tmp_path})"
    (tmp_path / "jobs/stderr").write_text("OSError: no luck\n")
    assert end.problem(str(tmp_path)) == "exit code 1 (OSError: no luck)"


def test_the_reason_of_a_launcher_is_the_rank_that_died(tmp_path):
    broken = [
        {"rank": 1, "kind": "died", "how": "killed by SIGKILL", "restarted": None},
        {"rank": 0, "kind": "followed", "how": "RuntimeError: closed by peer", "restarted": None},
    ]
    (tmp_path / "stderr").write_text("RuntimeError: closed by peer\n")
    end = processes.ProcessEnd("", 1)
    write_info(str(tmp_path), {"broken": broken})
    assert end.problem(str(tmp_path)) == "exit code 1 (rank 1 died: killed by SIGKILL)"
    write_info(str(tmp_path), {"broken": [{**broken[0], "restarted": 1.5}]})
    assert end.problem(str(tmp_path)) == "exit code 1 (RuntimeError: closed by peer)"


def test_all_of_them_begin(tmp_path):
    both = [says(key, tmp_path) for key in "ab"]
    waiting = []

    def opened(pids):
        waiting.extend(pids)
        assert not list(tmp_path.glob("*.said"))  # nobody has begun yet

    pids = processes.start_processes(both, str(tmp_path), (), opened)
    assert pids == waiting
    assert ended(pids) == [0, 0]
    for each in both:
        assert (tmp_path / f"{each.key}.said").read_text() == each.folder


def test_none_of_them_begins_where_one_cannot(tmp_path):
    lost = process("b", tmp_path, tmp_path / "nothing" / "python")
    with pytest.raises(processes.CannotStartError, match="not installed"):
        processes.start_processes([says("a", tmp_path), lost], str(tmp_path), (), lambda pids: None)
    assert not (tmp_path / "jobs").exists()


def test_none_of_them_begins_when_we_die_before_the_gate_opens(tmp_path):
    """Killed with all of them waiting: each finds the gate closed and ends."""
    program = f"""
import os, signal
from pathlib import Path
from injector.suite.plan.jobs import PlannedProcess
from injector.suite.run import processes
folder = {str(tmp_path)!r}
made = [
    PlannedProcess(key, (), ({sys.executable!r}, "-c", {SAYS!r}, f"{{folder}}/{{key}}.said"), {{}},
            folder, f"jobs/{{key}}", 60.0, 60.0)
    for key in "ab"
]
def opened(pids):
    Path(folder, "pids").write_text(" ".join(map(str, pids)))
    os.kill(os.getpid(), signal.SIGKILL)
processes.start_processes(made, folder, (), opened)
"""
    environ = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", program], env=environ)
    assert done.returncode == -signal.SIGKILL
    for pid in (tmp_path / "pids").read_text().split():
        until(lambda pid=pid: not Path("/proc", pid).exists(), "an end of those that waited")
    assert not list(tmp_path.glob("*.said"))
    for key in "ab":
        lock = processes.lock_run(str(tmp_path / "jobs" / key))
        assert lock is not None
        os.close(lock)


def test_it_is_held_as_long_as_something_of_it_lives(tmp_path):
    """Its child inherits the lock, which says to whoever comes that the run goes on."""
    program = "import os, time\nif os.fork() == 0: time.sleep(3600)"
    made = process("a", tmp_path, sys.executable, "-c", program)
    run = str(tmp_path / made.run)
    pids = processes.start_processes([made], str(tmp_path), (), lambda pids: None)
    assert processes.lock_run(run) is None
    with pytest.raises(processes.CannotStartError, match="it is being run already"):
        processes.start_processes([made], str(tmp_path), (), lambda pids: None)
    assert ended(pids) == [0]
    assert processes.lock_run(run) is None
    os.killpg(pids[0], signal.SIGKILL)  # a session of its own is a process group of its own
    until(lambda: processes.lock_run(run) is not None, "a release")


def test_it_finds_signals_as_a_program_expects_them(tmp_path):
    text = "import sys; print(open('/proc/self/status').read(), file=open(sys.argv[1], 'w'))"
    made = process(
        "a",
        tmp_path,
        "/bin/sh",
        "-c",
        'exec "$0" "$@"',
        sys.executable,
        "-c",
        text,
        tmp_path / "said",
    )
    old = signal.signal(signal.SIGTERM, signal.SIG_IGN)
    try:
        assert ended(processes.start_processes([made], str(tmp_path), (), lambda pids: None)) == [0]
    finally:
        signal.signal(signal.SIGTERM, old)
    lines = dict(
        line.split(":\t", 1)
        for line in (tmp_path / "said").read_text().splitlines()
        if ":\t" in line
    )
    ignored = int(lines["SigIgn"], 16)
    assert not ignored & 1 << (signal.SIGTERM - 1)
    assert int(lines["SigBlk"], 16) == 0


def test_what_it_is_given_and_what_is_taken_away(tmp_path):
    made = process("a", tmp_path, "x", environment={"A": "1", "B": None})
    found = processes.process_environment(made, {"B": "2", "C": "3"})
    assert found == {"A": "1", "C": "3"}


def test_what_cannot_be_executed_says_so(tmp_path):
    (tmp_path / "broken").write_text("#!/nowhere/at/all\n")
    (tmp_path / "broken").chmod(0o755)
    made = process("a", tmp_path, tmp_path / "broken")
    assert ended(processes.start_processes([made], str(tmp_path), (), lambda pids: None)) == [127]
    assert "No such file" in (tmp_path / "jobs/a/stderr").read_text()


def test_descriptors_that_it_is_to_keep(tmp_path):
    """As those that hold its devices."""
    kept = os.open(tmp_path / "device", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC)
    fcntl.flock(kept, fcntl.LOCK_EX)
    made = process("a", tmp_path, "/bin/sleep", "3600")
    [pid] = processes.start_processes([made], str(tmp_path), [kept], lambda pids: None)
    os.close(kept)
    other = os.open(tmp_path / "device", os.O_RDWR)
    with pytest.raises(BlockingIOError):
        fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
    os.kill(pid, signal.SIGKILL)
    ended([pid])
    fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
    os.close(other)
