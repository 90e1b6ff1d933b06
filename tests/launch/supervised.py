"""Programs that wait to be ended, and how to see whether they were."""

from __future__ import annotations

import os
import time

PATIENCE = 60
"""Seconds after which something that must happen never will."""

WAIT = """
import os, signal, sys, time
def told(number, frame):
    os.write(1, f"got {signal.Signals(number).name}\\n".encode())
    if number in (signal.SIGTERM, signal.SIGINT):
        sys.exit(7)
for name in sys.argv[1:]:
    signal.signal(getattr(signal, name), told)
print("ready", os.getpid(), flush=True)
while True:
    time.sleep(0.05)
"""
"""Says who it is, then which of the signals it handles have come."""


def state(pid):
    """The letter that ps shows for a process, or None if there is none."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return None


def alive(pid):
    return state(pid) not in (None, "Z", "X")


def until(condition, patience=PATIENCE):
    """Wait for ``condition()``; what it returned."""
    end = time.monotonic() + patience
    while not (found := condition()):
        assert time.monotonic() < end, "this never happened"
        time.sleep(0.01)
    return found


def belong(run):
    """The processes that have ``run`` (a value of their environment) in common: a whole tree."""
    found = []
    for name in os.listdir("/proc"):
        if name.isdecimal() and alive(int(name)):
            try:
                with open(f"/proc/{name}/environ", "rb") as file:
                    if run.encode() in file.read().split(b"\0"):
                        found.append(int(name))
            except OSError:
                continue
    return found
