"""Ctrl-Z, fg and bg: a shell sees us stop when the program stops, and both go on together."""

from __future__ import annotations

import os
import pty
import select
import signal

import pytest

from .supervised import PATIENCE, WAIT, alive, belong, state, until

STOPPED = ("T",)


def stopped(*pids):
    return lambda: all(state(pid) in STOPPED for pid in pids)


def running(*pids):
    return lambda: all(alive(pid) and state(pid) not in STOPPED for pid in pids)


def test_a_stop_sent_to_us_stops_the_program_and_us(start):
    process = start(WAIT, "SIGCONT", "SIGTERM")
    os.kill(process.pid, signal.SIGTSTP)
    until(stopped(process.pid, process.program))
    os.kill(process.pid, signal.SIGCONT)
    assert process.stdout.readline() == "got SIGCONT\n"
    until(running(process.pid, process.program))
    process.terminate()
    assert process.wait(PATIENCE) == 7
    assert process.stdout.read() == "got SIGTERM\n"


def test_stopping_the_group_stops_both(start):
    process = start(WAIT, "SIGCONT", "SIGTERM")
    for _ in range(3):
        os.killpg(process.pid, signal.SIGTSTP)
        until(stopped(process.pid, process.program))
        os.killpg(process.pid, signal.SIGCONT)
        assert process.stdout.readline() == "got SIGCONT\n"
        until(running(process.pid, process.program))
    process.terminate()
    assert process.wait(PATIENCE) == 7
    assert process.stdout.read() == "got SIGTERM\n"


def test_a_stop_catches_no_process_of_ours_on_its_way_out_of_the_group(start):
    """Stopped there, it would keep the supervisor waiting in the kernel: nothing would answer Ctrl-Z."""
    process = start(WAIT)
    [monitor] = until(
        lambda: [pid for pid in belong(process.mark) if os.getpgid(pid) != process.pid]
    )
    with open(f"/proc/{monitor}/status") as file:
        blocked = next(line for line in file if line.startswith("SigBlk")).split()[1]
    assert int(blocked, 16) >> (signal.SIGTSTP - 1) & 1


def test_a_handler_of_the_program_decides_whether_to_stop(start):
    process = start(WAIT, "SIGTSTP", "SIGTERM")
    process.send_signal(signal.SIGTSTP)
    assert process.stdout.readline() == "got SIGTSTP\n"
    process.terminate()
    assert process.wait(PATIENCE) == 7


def test_a_program_that_another_process_freezes_leaves_us_awake(start):
    """There may be a time limit to keep."""
    process = start(WAIT)
    os.kill(process.program, signal.SIGSTOP)
    until(stopped(process.program))
    assert not stopped(process.pid)()
    os.kill(process.pid, signal.SIGCONT)  # "go on", said to us, is meant for the program
    until(running(process.program))


def test_while_we_are_frozen_the_program_goes_on(start):
    process = start(WAIT, "SIGUSR1", "SIGTERM")
    os.kill(process.pid, signal.SIGSTOP)
    until(stopped(process.pid))
    os.kill(process.program, signal.SIGUSR1)
    assert process.stdout.readline() == "got SIGUSR1\n"
    os.kill(process.pid, signal.SIGTERM)  # waits until we go on
    os.kill(process.pid, signal.SIGCONT)
    assert process.wait(PATIENCE) == 7, process.stderr.read()


@pytest.mark.parametrize("handled", [False, True])
def test_control_z_in_a_terminal(handled, inject, environ, tmp_path):
    """The test is the shell: it gives the terminal to the job and sees it stop and go on."""
    (tmp_path / "main.py").write_text(WAIT)
    words = [*inject, "run", "--quiet", "main.py", "SIGTERM", *(["SIGCONT"] if handled else [])]
    shell, terminal = pty.fork()
    if shell == 0:  # a session leader, as a shell is; the job is a group of its own
        try:
            signal.signal(signal.SIGTTOU, signal.SIG_IGN)
            os.chdir(tmp_path)
            job = os.fork()
            if job == 0:
                os.setpgid(0, 0)
                os.tcsetpgrp(0, os.getpid())
                signal.signal(signal.SIGTTOU, signal.SIG_DFL)
                os.execve(words[0], words, environ)
            _, status = os.waitpid(job, os.WUNTRACED)
            os.write(1, b"job stopped" if os.WIFSTOPPED(status) else b"job %d" % status)
            os.killpg(job, signal.SIGCONT)
            _, status = os.waitpid(job, 0)
            os.write(1, b"job %d" % os.waitstatus_to_exitcode(status))
        finally:
            os._exit(0)
    output = b""
    asked = {b"ready": b"\x1a", b"job stopped": None}
    # Both signals at once would be handled in the order of their numbers.
    awaited = [b"job stopped", *([b"got SIGCONT"] if handled else [])]
    program = 0
    try:
        while select.select([terminal], [], [], PATIENCE)[0]:
            try:
                output += os.read(terminal, 4096)
            except OSError:
                break
            if b"ready" in asked and b"\n" in output.partition(b"ready")[2]:
                program = int(output.partition(b"ready")[2].split()[0])
                os.write(terminal, asked.pop(b"ready"))
            elif all(word in output for word in awaited) and b"job stopped" in asked:
                del asked[b"job stopped"]
                until(running(program))
                os.kill(program, signal.SIGTERM)
    finally:
        os.close(terminal)  # hangs up
        if program and alive(program):
            os.kill(program, signal.SIGKILL)
        os.kill(shell, signal.SIGKILL)
        os.waitpid(shell, 0)
    assert b"job stopped" in output
    assert b"job 7" in output
    assert (b"got SIGCONT" in output) == handled
    assert output.count(b"got SIGTERM") == 1
