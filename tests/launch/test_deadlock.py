"""Processes that wait for nothing but each other, and others that may go on."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import pytest

from injector import reaper
from injector.launch.deadlock import deadlock

HEAD = "import multiprocessing, os, queue, select, signal, sys, threading, time\n"
WAITING = {
    "a queue that a dead process was to fill": """
queue = multiprocessing.get_context("fork").SimpleQueue()
queue.get()
""",
    "a pipe by poll": """
reading, writing = os.pipe()
poll = select.poll()
poll.register(reading, select.POLLIN)
poll.poll()
""",
    "a pipe of a child that waits as well": """
reading, writing = os.pipe()
os.fork()
os.read(reading, 1)
""",
    "a child that waits for a lock of threads": """
if os.fork() == 0:
    lock = threading.Lock()
    lock.acquire()
    lock.acquire()
os.wait()
""",
    "a semaphore of forked processes": """
lock = multiprocessing.get_context("fork").Lock()
lock.acquire()
lock.acquire()
""",
}
MAY_GO_ON = {
    "a sleep": "time.sleep(600)",
    "a sleep in another thread": """
threading.Thread(target=time.sleep, args=(600,), daemon=True).start()
queue.Queue().get()
""",
    "a queue with a time limit": "queue.Queue().get(timeout=600)",
    "a pipe with a time limit": "multiprocessing.Pipe(False)[0].poll(600)",
    "what it was started with": "sys.stdin.read()",
    "a child that works": """
if os.fork() == 0:
    while True: pass
os.wait()
""",
    "an alarm": """
signal.signal(signal.SIGALRM, lambda *_: print("rings"))
signal.alarm(600)
queue.Queue().get()
""",
    "a signal": "signal.pause()",
    "a semaphore with a name, which others may open": """
lock = multiprocessing.get_context("spawn").Lock()
lock.acquire()
lock.acquire()
""",
}


@pytest.fixture
def moments():
    """Start a program, and return what it waits in at two moments, the second when it has been quiet."""
    processes = []

    def look(program):
        words = [sys.executable, "-c", HEAD + "print('here', flush=True)\n" + program]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        process = subprocess.Popen(words, **pipes)
        processes.append(process)
        process.stdout.readline()
        time.sleep(0.5)
        first = None
        for _ in range(20 if program in WAITING.values() else 2):
            first, before = deadlock(below(process.pid)), first
            if first is not None and first == before:
                break
            time.sleep(0.2)
        return before, first

    yield look
    for process in processes:
        reaper.end_by_force(below(process.pid))
        process.communicate()


def below(pid):
    return [reaper.find(pid), *reaper.descendants(pid)]


pytestmark = pytest.mark.skipif(
    not os.access("/proc/self/syscall", os.R_OK), reason="the kernel does not show system calls"
)


@pytest.mark.parametrize("program", WAITING)
def test_what_waits_for_nothing_but_each_other(moments, program):
    before, now = moments(WAITING[program])
    assert before is not None and before == now


@pytest.mark.parametrize("program", MAY_GO_ON)
def test_what_may_go_on(moments, program):
    assert moments(MAY_GO_ON[program]) == (None, None)
