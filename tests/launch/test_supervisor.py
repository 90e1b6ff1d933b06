"""Signals, ends, and what is left behind; the terminal."""

from __future__ import annotations

import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from .supervised import WAIT, alive


@pytest.mark.parametrize("name", ["SIGTERM", "SIGHUP", "SIGUSR1", "SIGUSR2", "SIGINT", "SIGQUIT"])
def test_what_is_sent_to_us_reaches_the_program(start, name):
    process = start(WAIT)
    process.send_signal(getattr(signal, name))
    assert process.wait(60) == -getattr(signal, name)
    assert not alive(process.program)


@pytest.mark.parametrize("name", ["SIGTERM", "SIGINT"])
def test_a_handler_of_the_program_runs(start, name):
    process = start(WAIT, name)
    process.send_signal(getattr(signal, name))
    assert process.wait(60) == 7
    assert process.stdout.read() == f"got {name}\n"


def test_other_signals_leave_it_running(start):
    process = start(WAIT, "SIGUSR1", "SIGTERM")
    for _ in range(3):
        process.send_signal(signal.SIGUSR1)
        assert process.stdout.readline() == "got SIGUSR1\n"
    process.terminate()
    assert process.wait(60) == 7


def test_interrupting_the_group_reaches_the_program_once(start):
    process = start(WAIT, "SIGINT")
    os.killpg(process.pid, signal.SIGINT)
    assert process.wait(60) == 7
    assert process.stdout.read() == "got SIGINT\n"


def test_keyboard_interrupt_of_the_group(start):
    process = start(WAIT)
    os.killpg(process.pid, signal.SIGINT)
    assert process.wait(60) == -signal.SIGINT
    assert process.stderr.read().endswith("KeyboardInterrupt\n")


@pytest.mark.parametrize("name", ["SIGKILL", "SIGSEGV", "SIGABRT", "SIGTERM", "SIGHUP", "SIGINT"])
def test_we_die_as_the_program_dies(start, name, tmp_path):
    process = start(WAIT)
    os.kill(process.program, getattr(signal, name))
    assert process.wait(60) == -getattr(signal, name)
    assert not [file for file in os.listdir(tmp_path) if file.startswith("core")]


def test_the_program_survives_us(start):
    process = start(WAIT)
    process.kill()
    process.wait()
    time.sleep(0.2)
    assert alive(process.program)
    os.kill(process.program, signal.SIGKILL)


def test_nohup_reaches_the_program(start):
    process = start(WAIT, before=("nohup",))
    process.send_signal(signal.SIGHUP)
    os.kill(process.program, signal.SIGHUP)
    time.sleep(0.2)
    assert process.poll() is None and alive(process.program)
    process.terminate()
    assert process.wait(60) == -signal.SIGTERM


def test_signals_of_the_program_to_its_group_come_once(start):
    process = start(
        "import os, signal, time\nsignal.signal(signal.SIGUSR1, lambda *_: print('got', flush=True))"
        "\nprint('ready', os.getpid(), flush=True)\nos.killpg(0, signal.SIGUSR1)\ntime.sleep(0.3)"
    )
    assert process.wait(60) == 0
    assert process.stdout.read() == "got\n"


def test_dispositions_and_mask_are_as_under_python(inject, environ, tmp_path):
    (tmp_path / "main.py").write_text(
        "for line in open('/proc/self/status'):\n"
        "    if line.startswith(('SigIgn', 'SigBlk', 'SigCgt')):\n"
        "        print(line[:6], hex(int(line[7:], 16) & 0x7fffffff))"  # above 31: the C library's
    )

    def run(*words):
        done = subprocess.run(words, cwd=tmp_path, env=environ, capture_output=True, text=True)
        return done.stdout

    plain = run(sys.executable, "main.py")
    assert "SigIgn" in plain
    assert run(*inject, "run", "--quiet", "main.py") == plain
    ignoring = ("sh", "-c", 'trap "" INT QUIT; exec "$@"', "sh")
    assert run(*ignoring, *inject, "run", "--quiet", "main.py") == run(
        *ignoring, sys.executable, "main.py"
    )


def in_terminal(words, keys, environ, cwd):
    """Run in a terminal of its own, type ``keys`` when "name?" or "ready" is asked."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(cwd)
        os.execve(words[0], words, environ)
    output = b""
    while True:
        if not select.select([terminal], [], [], 60)[0]:
            os.kill(pid, signal.SIGKILL)
            break
        try:
            output += os.read(terminal, 4096)
        except OSError:
            break
        if keys and re.search(rb"name\?|ready", output):
            time.sleep(0.2)  # until it no longer prints, but waits
            os.write(terminal, keys)
            keys = b""
    _, status = os.waitpid(pid, 0)
    os.close(terminal)
    return os.waitstatus_to_exitcode(status), re.sub(rb"ready \d+", b"ready", output)


TERMINAL = {
    "typed": ("terminal.py", [], b"somebody\n"),
    "control-c": ("wait.py", [], b"\x03"),
    "control-c handled": ("wait.py", ["SIGINT"], b"\x03"),
    "control-backslash": ("wait.py", [], b"\x1c"),
    "end of input": ("terminal.py", [], b"\x04"),
}


@pytest.mark.parametrize("what", TERMINAL)
def test_in_a_terminal(what, inject, environ, tmp_path):
    program, arguments, keys = TERMINAL[what]
    programs = Path(__file__).parents[1] / "programs"
    (tmp_path / "terminal.py").write_text((programs / "terminal.py").read_text())
    (tmp_path / "wait.py").write_text(WAIT)
    environ = {**environ, "TERM": "dumb", "PYTHON_COLORS": "0"}
    plain = in_terminal([sys.executable, program, *arguments], keys, environ, tmp_path)
    ours = [*inject, "run", "--quiet", program, *arguments]
    assert in_terminal(ours, keys, environ, tmp_path) == plain


LATER = """
import os, sys
from injector.launch import supervisor
asked = []
def later():
    print("later", flush=True)
    asked.append(1)
    if len(asked) == 3:
        os.mkdir(sys.argv[2])
    return len(asked) < 3
words = [sys.executable, "-c", sys.argv[3], sys.argv[2]]
plan = [(float(sys.argv[1]), later)]
ended = supervisor.run(sys.executable, words, os.environ, lambda pid: None, later=plan)
print("ended", ended.code)
"""
UNTIL = "import os, sys, time\nwhile not os.path.exists(sys.argv[1]): time.sleep(0.01)"


@pytest.mark.parametrize(
    ("after", "text", "message"), [(0.1, UNTIL, "later\n" * 3), (600, "pass", "")]
)
def test_what_can_wait_is_done_while_the_program_runs(after, text, message, tmp_path):
    """As often as it wants, and not at all beside a program that ends at once."""
    words = [sys.executable, "-c", LATER, str(after), str(tmp_path / "there"), text]
    done = subprocess.run(words, capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout == f"{message}ended 0\n"
