"""Every signal reaches the program once, however it was sent."""

from __future__ import annotations

import os
import pty
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from .supervised import PATIENCE, alive, belong, state, until

NAMES = ("SIGTERM", "SIGHUP", "SIGINT", "SIGQUIT", "SIGUSR1", "SIGTSTP", "SIGCONT")

COUNTS = """
import os, signal, sys, time
def told(number, frame):
    os.write(log, f"{signal.Signals(number).name}\\n".encode())
    if number == signal.SIGUSR2:
        os._exit(0)
log = os.open("log", os.O_CREAT | os.O_APPEND | os.O_WRONLY)
for name in NAMES:
    signal.signal(getattr(signal, name), told)
if sys.argv[1:] == ["child"] and os.fork() == 0:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    os.killpg(0, signal.SIGTERM)
    os._exit(0)
print("ready", os.getpid(), flush=True)
while True:
    time.sleep(0.05)
""".replace("NAMES", repr((*NAMES, "SIGUSR2")))
"""Writes down each signal that it is told of; SIGUSR2 ends it."""


class Counting:
    """A program that counts, and what stands above it: ``pid`` is inject's, or the program's own."""

    def __init__(self, pid, program, log):
        self.pid, self.program, self.log = pid, program, log

    def got(self):
        return self.log.read_text().split()

    def wait_for(self, count):
        until(lambda: len(self.got()) >= count)

    def end(self):
        """What was passed on before the last signal is; nothing that came late is missed."""
        os.kill(self.pid, signal.SIGUSR2)
        until(lambda: not alive(self.program))
        *got, last = self.got()
        assert last == "SIGUSR2"
        return got


@pytest.fixture
def counting(start, tmp_path):
    def begin(*arguments, before=()):
        process = start(COUNTS, *arguments, before=before)
        counting = Counting(process.pid, process.program, tmp_path / "log")
        counting.process = process
        return counting

    return begin


@pytest.mark.parametrize("how", [os.kill, os.killpg])
def test_to_us_or_to_the_group(counting, how):
    program, sent = counting(), []
    for name in NAMES:
        # What is said to us alone: go on, if you are stopped, which is not so.
        for _ in range(2 if how is os.killpg or name != "SIGCONT" else 0):
            how(program.pid, getattr(signal, name))
            sent.append(name)
            program.wait_for(len(sent))
    assert program.end() == sent
    assert program.process.wait(PATIENCE) == 0


def test_all_of_them_at_once(counting):
    names = [name for name in NAMES if name != "SIGTSTP"]  # SIGCONT takes it back
    program = counting()
    for name in names:
        os.killpg(program.pid, getattr(signal, name))
    program.wait_for(len(names))
    assert sorted(program.end()) == sorted(names)


def once_more(program):
    """Another sender, once inject has taken what came before: pending signals become one."""
    bit = 1 << (signal.SIGTERM - 1)
    until(lambda: not pending(program.pid) & bit)
    subprocess.run(["kill", "-TERM", str(program.pid)], check=True)


def pending(pid):
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1], 16) for line in lines if line.startswith("ShdPnd"))


def test_to_the_group_and_then_to_us(counting):
    """The second is one more, as it would be without us."""
    program = counting()
    os.killpg(program.pid, signal.SIGTERM)
    program.wait_for(1)
    once_more(program)
    program.wait_for(2)
    assert program.end() == ["SIGTERM", "SIGTERM"]


def test_to_one_process_after_the_other(counting):
    """As systemd and Slurm do: whoever belongs to a job is sent the signal by itself."""
    program = counting()
    everybody = until(lambda: len(found := belong(program.process.mark)) >= 3 and found)
    for pid in sorted(everybody, key=lambda pid: pid != program.pid):
        os.kill(pid, signal.SIGTERM)
    program.wait_for(1)
    assert program.end() == ["SIGTERM"]


@pytest.mark.parametrize("options", [(), ("--foreground",)])
def test_timeout(counting, options):
    """It signals us, then the group in which it is itself."""
    program = counting(before=("timeout", *options, "1h"))
    timeout, program.pid = program.pid, parent(program.program)
    os.kill(timeout, signal.SIGTERM)
    program.wait_for(1)
    # It also has whoever is stopped go on.
    assert [name for name in program.end() if name != "SIGCONT"] == ["SIGTERM"]


def parent(pid):
    text = Path(f"/proc/{pid}/stat").read_text()
    return int(text.rpartition(")")[2].split()[1])


def test_from_a_child_of_the_program_to_the_group(counting):
    program = counting("child")
    program.wait_for(1)
    assert program.end() == ["SIGTERM"]


def sentinel_of(program):
    def find():
        return [
            pid
            for pid in belong(program.process.mark)
            if os.getpgid(pid) == program.pid and pid not in (program.pid, program.program)
        ]

    [pid] = until(find)
    return pid


def test_a_stopped_sentinel_is_woken(counting):
    program = counting()
    sentinel = sentinel_of(program)
    os.kill(sentinel, signal.SIGSTOP)
    until(lambda: state(sentinel) == "T")
    os.killpg(program.pid, signal.SIGTERM)
    program.wait_for(1)
    once_more(program)
    program.wait_for(2)
    assert program.end() == ["SIGTERM", "SIGTERM"]


def test_without_the_sentinel_nothing_is_missed(counting):
    program = counting()
    os.kill(sentinel_of(program), signal.SIGKILL)
    os.kill(program.pid, signal.SIGTERM)
    program.wait_for(1)
    assert program.end() == ["SIGTERM"]
    assert program.process.wait(PATIENCE) == 0


def test_the_sentinel_ends_with_us(counting):
    program = counting()
    sentinel = sentinel_of(program)
    program.process.kill()
    until(lambda: not alive(sentinel))
    assert alive(program.program)


def test_its_command_line_is_not_taken_for_ours(counting):
    """Whoever means us by our name (``pkill -f``) does not mean it as well."""
    program = counting()
    file = Path(f"/proc/{sentinel_of(program)}/cmdline")
    # It has our command line for a moment after the fork, and the program may be quicker.
    assert until(lambda: set(file.read_bytes().partition(b"\0")[2]) <= {0})


def test_a_sentinel_without_standard_streams(tmp_path):
    """Pipes take the numbers of those that are closed."""
    text = (
        "import os, signal, sys\n"
        "for fd in (0, 1): os.close(fd)\n"
        "from injector.launch.signals import SignalSentinel\n"
        "signal.pthread_sigmask(signal.SIG_BLOCK, {10})\n"
        "sentinel = SignalSentinel([10])\n"
        "os.killpg(0, 10)\n"
        "code = (10, 0, os.getpid()) in sentinel.seen()\n"
        "sentinel.end()\n"
        "os._exit(40 + code)\n"
    )
    assert subprocess.run([sys.executable, "-c", text], start_new_session=True).returncode == 41


REMEMBERS = """
import os, signal
from injector.launch.signals import SignalSentinel, key
one, two = (10, 0, os.getpid()), (12, 0, os.getpid())
signal.pthread_sigmask(signal.SIG_BLOCK, {10, 12})
sentinel = SignalSentinel([10, 12])
for number in (10, 12):
    os.kill(sentinel.pid, number)
assert sentinel.seen() == sentinel.seen() == {one, two}
sentinel.forget(10)
assert sentinel.seen() == {two}
os.kill(os.getpid(), 12)
assert key(signal.sigwaitinfo({12})) in sentinel.seen()
sentinel.end()
"""


def test_a_sentinel_remembers_until_it_may_forget():
    done = subprocess.run([sys.executable, "-c", REMEMBERS], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_stop_is_not_taken_for_a_signal():
    """Python itself returns memory that nothing has written."""
    text = (
        "import os, signal\n"
        "from injector.launch.signals import take\n"
        "signal.pthread_sigmask(signal.SIG_BLOCK, {10})\n"
        "os.kill(os.getpid(), 10)\n"
        "assert take({10}).si_signo == 10\n"
        "print('ready', flush=True)\n"
        "assert take({10}, 0.3) is None\n"
    )
    with subprocess.Popen([sys.executable, "-c", text], stdout=subprocess.PIPE) as process:
        process.stdout.readline()
        until(lambda: state(process.pid) == "S")  # it waits
        process.send_signal(signal.SIGSTOP)
        time.sleep(0.4)
        process.send_signal(signal.SIGCONT)
    assert process.returncode == 0


# --- terminals -------------------------------------------------------------------------------------

SHELL = """
import os, signal, sys
job = os.fork()
if job == 0:
    os.setpgid(0, 0)
    signal.signal(signal.SIGTTOU, signal.SIG_IGN)
    os.tcsetpgrp(0, os.getpid())
    signal.signal(signal.SIGTTOU, signal.SIG_DFL)
    os.execv(sys.argv[1], sys.argv[1:])
signal.signal(signal.SIGHUP, lambda number, frame: os.killpg(job, number))
os.waitpid(job, 0)
while True:
    signal.pause()
"""
"""What a shell does for a job: a group of its own in the foreground, which hears of a hang-up.

It stays, since when it ends the kernel says the same once more.
"""


class Terminal:
    """A program in a terminal of its own, whose session begins with the first of ``words``."""

    def __init__(self, words, environ, folder):
        self.leader, self.end = pty.fork()
        if self.leader == 0:
            os.chdir(folder)
            os.execve(words[0], words, environ)
        self.open = True
        message = b""
        while b"\n" not in message.partition(b"ready")[2]:
            assert select.select([self.end], [], [], PATIENCE)[0]
            message += os.read(self.end, 4096)
        self.program = int(message.partition(b"ready")[2].split()[0])

    def type(self, keys):
        os.write(self.end, keys)

    def hang_up(self):
        if self.open:
            os.close(self.end)
            self.open = False

    def finish(self):
        self.hang_up()
        for pid in (self.program, self.leader):
            if alive(pid):
                os.kill(pid, signal.SIGKILL)
        os.waitpid(self.leader, 0)


LEADERS = {
    "a shell": lambda words: [sys.executable, "-c", SHELL, *words],
    "a script": lambda words: ["/bin/sh", "-c", '"$@"; true', "sh", *words],
    "the program": lambda words: words,
}


@pytest.fixture(params=["python", "inject"])
def terminal(request, inject, environ, tmp_path):
    """Begin a session with the counting program, under python or under inject."""
    (tmp_path / "main.py").write_text(COUNTS)
    under = {"python": [sys.executable], "inject": [*inject, "run", "--quiet"]}[request.param]
    begun = []

    def begin(leader):
        begun.append(Terminal(LEADERS[leader]([*under, "main.py"]), environ, tmp_path))
        found = begun[-1]
        above = parent(found.program) if request.param == "inject" else found.program
        return found, Counting(above, found.program, tmp_path / "log")

    yield begin
    for each in begun:
        each.finish()


@pytest.mark.parametrize("leader", LEADERS)
def test_control_c_twice(terminal, leader):
    term, program = terminal(leader)
    for count in (1, 2):
        term.type(b"\x03")
        program.wait_for(count)
    assert program.end() == ["SIGINT", "SIGINT"]


@pytest.mark.parametrize("leader", LEADERS)
def test_the_terminal_closes(terminal, leader):
    term, program = terminal(leader)
    term.hang_up()
    program.wait_for(1)
    # The kernel also has whoever is stopped go on.
    assert [name for name in program.end() if name != "SIGCONT"] == ["SIGHUP"]


# --- a launcher ------------------------------------------------------------------------------------

RANK = """
import os, signal, time
def told(number, frame):
    os.write(log, f"{signal.Signals(number).name}\\n".encode())
signal.signal(signal.SIGTERM, told)
log = os.open(f"rank.{os.environ['RANK']}", os.O_CREAT | os.O_APPEND | os.O_WRONLY)
while os.fstat(log).st_size == 0:
    time.sleep(0.05)
time.sleep(1)
"""


@pytest.mark.parametrize("how", [os.kill, pytest.param(os.killpg, marks=pytest.mark.release)])
def test_torchrun_tells_each_rank_once(start, tmp_path, how):
    pytest.importorskip("torch.distributed.run")
    (tmp_path / "rank.py").write_text(RANK)
    process = start(
        "import os, sys\n"
        "print('ready', os.getpid(), flush=True)\n"
        "from torch.distributed.run import main\n"
        "main(['--standalone', '--nproc-per-node', '2', 'rank.py'])\n"
    )
    logs = [tmp_path / f"rank.{rank}" for rank in (0, 1)]
    until(lambda: all(log.exists() for log in logs), 4 * PATIENCE)
    how(process.pid, signal.SIGTERM)
    assert process.wait(4 * PATIENCE) == 1, process.stderr.read()  # it raises SignalException
    assert [log.read_text() for log in logs] == ["SIGTERM\n", "SIGTERM\n"]
    # Before Python 3.11, the text of the signal is its name.
    assert process.stderr.read().count(f"Received {signal.SIGTERM!s} death signal") == 1
