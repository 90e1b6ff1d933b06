"""Somebody wants a suite to stop, and to go on with it later."""

from __future__ import annotations

import os
import pty
import signal

import pytest
from suite_runs import PATIENCE, journal, last, nothing_left, of, until

STUBBORN = """
import os, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
open(sys.argv[1], "w").close()
time.sleep(3600)
"""


def begun(suites, **how):
    suite = suites.write(suites.counted("a", "b", seconds=600))
    process = suites.start(suite, devices="cpu:2", **how)
    until(lambda: len(suites.entries()) == 2, "a beginning")
    return process


OTHERS = (pytest.param(each, marks=pytest.mark.release) for each in (signal.SIGTERM, signal.SIGHUP))


@pytest.mark.parametrize("number", [signal.SIGINT, *OTHERS])
def test_it_ends_what_runs_and_says_how_to_go_on(suites, number):
    process = begun(suites)
    os.killpg(process.pid, number)  # as the terminal does: to all of its process group
    _, message = process.communicate(timeout=PATIENCE)
    run = suites.run()
    assert process.returncode == 130
    assert f"interrupted; go on with: inject suite run --resume {run}" in message
    assert "2 left to run" in message
    assert last(run)["a.R0"]["state"] == "interrupted"
    assert journal(run)[-1]["event"] == "interrupted"
    assert (run / "jobs/a.R0.D0/run.json").exists()  # inject run came to write its record
    assert nothing_left(suites.base)

    (suites.folder / "ledger.go").touch()
    done = suites.call("run", "--resume", run)
    assert done.returncode == 0, done.stderr
    assert {key: each["attempt"] for key, each in last(run).items()} == {"a.R0": 2, "b.R0": 1}


def test_a_program_that_does_not_want_to_end_is_ended(suites):
    program = suites.program("stubborn.py", STUBBORN)
    ready = suites.folder / "ready"
    process = suites.start(suites.write({"a": {"run": f"{program} {ready}"}}))
    until(ready.exists, "its beginning")
    os.killpg(process.pid, signal.SIGINT)
    assert process.wait(PATIENCE) == 130
    assert (suites.run() / "jobs/a.R0.D0/run.json").exists()
    assert nothing_left(suites.base)


def test_the_second_time_at_once(suites):
    program = suites.program("stubborn.py", STUBBORN)
    ready = suites.folder / "ready"
    process = suites.start(suites.write({"a": {"run": f"{program} {ready}"}}))
    until(ready.exists, "its beginning")
    os.killpg(process.pid, signal.SIGINT)
    assert "once more ends it at once" in until(lambda: next_line(process), "a word")
    os.killpg(process.pid, signal.SIGINT)
    assert process.wait(PATIENCE) == 130
    assert last(suites.run())["a.R0"]["state"] == "interrupted"
    assert nothing_left(suites.base)


def next_line(process):
    """What it says next that is about being interrupted."""
    return next(line for line in process.stderr if "interrupted" in line)


def test_what_is_ignored_stays_so(suites):
    """Under nohup a suite outlives its terminal."""
    ignored = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        process = begun(suites)
    finally:
        signal.signal(signal.SIGHUP, ignored)
    os.killpg(process.pid, signal.SIGHUP)
    (suites.folder / "ledger.go").touch()
    assert process.wait(PATIENCE) == 0


def test_ctrl_c_of_a_terminal_reaches_the_suite_alone(suites):
    """Its programs are no part of the terminal's session: they hear of it from the suite."""
    suite = suites.write(suites.counted("a", seconds=600))
    pid, terminal = pty.fork()
    if pid == 0:
        try:
            words = suites.words("run", suite)
            os.chdir(suites.folder)
            os.execve(words[0], words, suites.environ)
        finally:
            os._exit(127)
    shown = b""
    until(suites.entries, "a beginning")
    os.write(terminal, b"\x03")
    while True:
        try:
            part = os.read(terminal, 4096)
        except OSError:
            break
        if not part:
            break
        shown += part
    _, status = os.waitpid(pid, 0)
    os.close(terminal)
    assert os.waitstatus_to_exitcode(status) == 130
    assert b"\r\x1b[K[0/1]" in shown  # one line that changes
    assert b"go on with: inject suite run --resume" in shown
    assert nothing_left(suites.base)
    assert not of(suites.base)
