"""Every process that a program has started, however it tried to get away, and how to end them.

We are made a *subreaper*: a process that loses its parent becomes our child. So all that the program ever
started stands below us in the tree of processes, and once we have no child left, nothing is left.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # signal imports enum
import os

TYPE_CHECKING = False  # importing typing would cost 5 ms
if TYPE_CHECKING:
    from collections.abc import Collection, Iterator
    from typing import Any

KEYED_STOPS = (_signal.SIGTSTP, _signal.SIGTTIN, _signal.SIGTTOU)
"""Stops that belong to the terminal. A process of ours that is to leave its group starts with them blocked:
a child that a Ctrl-Z stops before it has become another program keeps its parent waiting in the kernel."""

_SET_CHILD_SUBREAPER = 36  # of prctl(2)


class Process:
    """One process; its start distinguishes it from a later one of the same number."""

    __slots__ = ("begun", "parent", "pid", "state")

    def __init__(self, pid: int, parent: int, state: str, begun: str) -> None:
        self.pid = pid
        self.parent = parent
        self.state = state
        """As of ``ps``: ``Z`` has ended and waits for its parent, ``T`` is stopped."""
        self.begun = begun


def adopt_orphans() -> bool:
    """Make this process the parent of all descendants that lose theirs; whether that worked."""
    try:
        import _ctypes  # ctypes itself costs ten times as much

        native: Any = _ctypes
        prctl = native.dlsym(native.dlopen(None, 0), "prctl")
        return bool(native.call_function(prctl, (_SET_CHILD_SUBREAPER, 1, 0, 0, 0)) == 0)
    except Exception:  # no Linux, or a Python that was built without it
        return False


def find(pid: int) -> Process | None:
    """What the kernel says of a process; None if there is none."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            text = file.read()
    except OSError:
        return None
    # The name stands in brackets and may contain anything.
    words = text.rpartition(b")")[2].split()
    return Process(pid, int(words[1]), words[0].decode(), words[19].decode())


def descendants(root: int, apart: Collection[int] = ()) -> list[Process]:
    """All processes below ``root`` that have not ended, parents first; not ``apart`` and below."""
    children: dict[int, list[Process]] = {}
    for process in everyone():
        children.setdefault(process.parent, []).append(process)
    found: list[Process] = []
    waiting = [root]
    while waiting:
        for process in children.pop(waiting.pop(0), ()):
            if process.pid not in apart:
                found.append(process)
                waiting.append(process.pid)
    return [process for process in found if process.state not in "ZX"]


def everyone() -> Iterator[Process]:
    """All processes of the machine, those that have ended and were not waited for as well."""
    try:
        names = os.listdir("/proc")
    except OSError:
        return
    for name in names:
        process = find(int(name)) if name.isdecimal() else None
        if process is not None:
            yield process


def send(process: Process, number: int) -> bool:
    """Send a signal to exactly this process; whether it was there to take it."""
    try:
        fd = os.pidfd_open(process.pid)
    except OSError:
        fd = -1
    try:
        # What has the number now keeps it while we hold the descriptor.
        found = find(process.pid)
        if found is None or found.begun != process.begun:
            return False
        if fd < 0:  # an old kernel, or no descriptor is free
            os.kill(process.pid, number)
        else:
            _signal.pidfd_send_signal(fd, number)
        return True
    except OSError:  # it has ended, or is no longer ours to end
        return False
    finally:
        if fd >= 0:
            os.close(fd)


def end_politely(processes: list[Process]) -> None:
    """Ask processes to end; those that are stopped wake up to hear of it."""
    for process in processes:
        send(process, _signal.SIGTERM)
        send(process, _signal.SIGCONT)


def end_by_force(processes: list[Process]) -> None:
    """End processes. Who is killed first cannot start another one after that."""
    for process in processes:
        send(process, _signal.SIGSTOP)
    for process in processes:
        send(process, _signal.SIGKILL)


def command(process: Process) -> str:
    """The command line of a process, as one line."""
    try:
        with open(f"/proc/{process.pid}/cmdline", "rb") as file:
            words = file.read(4096).split(b"\0")
    except OSError:
        return "?"
    text = b" ".join(words).decode("utf-8", "replace").strip()
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())[:200] or "?"
