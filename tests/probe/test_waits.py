"""Blocking functions written in C, timed where Python finds their address: nobody can tell."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

ROOT = Path(__file__).parents[2]

# Everything that can be asked of the functions, printed: it has to be the same with and without.
ASKED = """
import _io, _multiprocessing, os, pickle, queue, select, signal, socket, threading, time

class Stop(Exception): pass

def alarm(number, frame):
    raise Stop

signal.signal(signal.SIGALRM, alarm)
held = threading.Lock()
held.acquire()
reader, writer = os.pipe()
ours, theirs = socket.socketpair()

def tried(function, *args, **named):
    try:
        return function(*args, **named)
    except Exception as error:
        return type(error), str(error)

for interrupted in (
    lambda: time.sleep(3), held.acquire, lambda: held.acquire(True, 3), held.__enter__,
    lambda: held.acquire(timeout=3), queue.SimpleQueue().get, threading.Event().wait,
    lambda: select.select([reader], [], [], 3), lambda: os.read(reader, 1), lambda: ours.recv(1),
    lambda: open(reader, "rb", closefd=False).read(1), lambda: queue.Queue().get(timeout=3),
):
    signal.setitimer(signal.ITIMER_REAL, 0.02)
    print(tried(interrupted))

for named in ({}, {"nope": 1}, {"timeout": -5}, {"blocking": False}, {"blocking": False, "timeout": 1}):
    for args in ((), ("",), (False,), (True, 0.01), (1, 2, 3)):
        if args or named:
            print(args, named, tried(held.acquire, *args, **named))
print(tried(time.sleep, -1), tried(os.read, -1, 1), tried(os.read, "x", 1), tried(select.select, 1))
print(tried(queue.SimpleQueue().get, False), tried(queue.SimpleQueue().get, timeout=0.01))

again = threading.RLock()
with again, again:
    print(again._is_owned(), again.acquire(), again._is_owned())
again.release()
print(again._is_owned())

semaphore = _multiprocessing.SemLock(1, 1, 1, "/%d" % os.getpid(), True)
print(semaphore.acquire(), semaphore._is_mine(), semaphore.acquire(False), semaphore.release())

class Named(_io.FileIO):
    def fileno(self):
        print("asked")
        return super().fileno()

os.write(writer, b"1")
print(Named(reader, closefd=False).read(1))
print(pickle.loads(pickle.dumps(time.sleep)) is time.sleep, time.sleep)
print(type(held.acquire), held.acquire.__doc__)

total, mutex = 0, threading.Lock()

def count():
    global total
    for _ in range(5_000):
        with mutex:
            total += 1

threads = [threading.Thread(target=count) for _ in range(3)]
[each.start() for each in threads]
[each.join() for each in threads]
print(total)
"""

TIMED = """
import importlib
from injector.measure import waits
from injector.probe import _native

found = []
rows = _native.Rows(lambda *row: found.append(row))

def site(frame, near, name):
    return 1

def failed(error):
    raise error

for name, timed in waits._TIMED.items():
    try:
        module = importlib.import_module(name)
    except ImportError:
        continue
    waits._timing(timed)(module)
_native.record_waits(rows, lambda frame: frame, site, failed, 1_000_000)
"""


def _run(program: str) -> tuple[str, str]:
    words = [sys.executable, "-c", program]
    environ = {**os.environ, "PYTHONPATH": str(ROOT)}
    environ.pop("INJECT_NATIVE", None)  # in Python alone no wait is timed
    done = subprocess.run(words, env=environ, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout, done.stderr


def test_functions_that_are_timed_do_what_they_did() -> None:
    plain = _run(ASKED)
    timed = _run(TIMED + ASKED + "\nimport sys\nprint(len(found) > 10, file=sys.stderr)")
    assert timed == (plain[0], plain[1] + "True\n")


def test_what_a_signal_raises_while_a_wait_is_recorded_comes_after_it() -> None:
    # The lock is acquired by then: were the exception raised in its place, it would stay so for good.
    program = """
    import signal, threading, time

    class Stop(Exception): pass

    def alarm(number, frame):
        raise Stop

    def site(frame, near, name):
        if trying and threading.current_thread() is threading.main_thread():
            trying.clear()
            signal.setitimer(signal.ITIMER_REAL, 0.01)
            while True:
                pass
        return 0

    trying = []
    signal.signal(signal.SIGALRM, alarm)
    _native.record_waits(rows, lambda frame: frame, site, failed, 1_000_000)
    lock = threading.Lock()
    lock.acquire()
    threading.Timer(0.05, lock.release).start()
    trying.append(True)
    inside = False
    try:
        with lock:
            inside = True
            for _ in range(1000):
                pass
    except Stop:
        print(inside, lock.locked())
    """
    entered, locked = _run(TIMED + textwrap.dedent(program))[0].split()
    # From 3.14 on the interpreter itself raises between acquiring the lock and entering the block.
    assert locked == "False" or (sys.version_info >= (3, 14) and entered == "False")


def test_a_mistake_of_ours_stays_ours() -> None:
    program = """
    import time

    said = []

    def site(frame, near, name):
        raise KeyError(name)

    _native.record_waits(rows, lambda frame: frame, site, said.append, 1_000_000)
    time.sleep(0.01)
    print(said[:1], found)
    """
    assert _run(TIMED + textwrap.dedent(program))[0] == "[KeyError('sleep')] []\n"
