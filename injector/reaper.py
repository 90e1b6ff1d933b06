"""Find and end every process that a program has started, daemons included.

A daemon is started by a process that ends at once, so that its parent becomes process 1 and its origin is
lost. Linux lets a process become a *subreaper* instead: orphans among its descendants become its own
children. The supervisor is one, so that whatever the program started is below it in the tree of processes,
and when it has no child left, nothing is left.

Process numbers are used again, sometimes within seconds on a busy machine. So a process is known by its
number and its start time, and a signal is sent only after both were compared (:func:`send`).
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # signal imports enum
import os

TYPE_CHECKING = False  # importing typing would cost 5 ms
if TYPE_CHECKING:
    from collections.abc import Collection, Iterator
    from typing import Any

KEYED_STOPS = (_signal.SIGTSTP, _signal.SIGTTIN, _signal.SIGTTOU)
"""Signals by which a terminal stops a process. A process of ours that is to leave its process group starts
with them blocked: a child that Ctrl-Z stops between fork and exec keeps its parent waiting in the kernel."""

_SET_CHILD_SUBREAPER = 36  # of prctl(2)


class Process:
    """One process; its start distinguishes it from a later process with the same number."""

    __slots__ = ("begun", "parent", "pid", "state")

    def __init__(self, pid: int, parent: int, state: str, begun: str) -> None:
        self.pid = pid
        self.parent = parent
        self.state = state
        """As ``ps`` has it: ``Z`` has ended and waits for its parent, ``T`` is stopped."""
        self.begun = begun
        """Clock ticks since boot, as text: it is only compared."""


def adopt_orphans() -> bool:
    """Make this process a subreaper, and return whether that worked."""
    try:
        import _ctypes  # ctypes itself costs ten times as much

        native: Any = _ctypes
        prctl = native.dlsym(native.dlopen(None, 0), "prctl")
        return bool(native.call_function(prctl, (_SET_CHILD_SUBREAPER, 1, 0, 0, 0)) == 0)
    except Exception:  # no Linux, or a Python that was built without it
        return False


def find(pid: int) -> Process | None:
    """The process with a number; None if there is none."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            text = file.read()
    except OSError:
        return None
    # After the name, which is in brackets and may contain brackets and blanks itself: state, parent, …,
    # start.
    words = text.rpartition(b")")[2].split()
    return Process(pid, int(words[1]), words[0].decode(), words[19].decode())


def descendants(root: int, apart: Collection[int] = ()) -> list[Process]:
    """All processes below ``root`` that have not ended, parents first.

    Processes whose numbers are in ``apart`` are left out, with all below them.
    """
    children: dict[int, list[Process]] = {}
    for process in everyone():
        children.setdefault(process.parent, []).append(process)
    below: list[Process] = []
    parents = [root]
    while parents:
        # Taken out, as numbers may change hands while /proc is read: parents must not form a circle.
        for process in children.pop(parents.pop(0), ()):
            if process.pid not in apart:
                below.append(process)
                parents.append(process.pid)
    return [process for process in below if process.state not in "ZX"]


def everyone() -> Iterator[Process]:
    """All processes of the machine, including those that have ended and wait for their parents."""
    try:
        names = os.listdir("/proc")
    except OSError:
        return
    for name in names:
        process = find(int(name)) if name.isdecimal() else None
        if process is not None:
            yield process


def send(process: Process, number: int) -> bool:
    """Send a signal to exactly this process, and return whether it was there to take it."""
    try:
        fd = os.pidfd_open(process.pid)
    except OSError:
        fd = -1
    try:
        # While the descriptor is open it stands for one process: if that is the right one now, it stays so.
        current = find(process.pid)
        if current is None or current.begun != process.begun:
            return False
        if fd < 0:  # an old kernel, or no descriptor is free
            os.kill(process.pid, number)
        else:
            _signal.pidfd_send_signal(fd, number)
        return True
    except OSError:  # it has ended, or belongs to another user now
        return False
    finally:
        if fd >= 0:
            os.close(fd)


def end_politely(processes: list[Process]) -> None:
    """Send SIGTERM, and wake up processes that are stopped: they could not handle it otherwise."""
    for process in processes:
        send(process, _signal.SIGTERM)
        send(process, _signal.SIGCONT)


def end_by_force(processes: list[Process]) -> None:
    """Kill ``processes``."""
    # All are stopped first: one that saw another one killed could start it again.
    for process in processes:
        send(process, _signal.SIGSTOP)
    for process in processes:
        send(process, _signal.SIGKILL)


def command(process: Process) -> str:
    """The command line of a process in one line of at most 200 characters; ``?`` if it cannot be read."""
    try:
        with open(f"/proc/{process.pid}/cmdline", "rb") as file:
            words = file.read(4096).split(b"\0")
    except OSError:
        return "?"
    text = b" ".join(words).decode("utf-8", "replace").strip()
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())[:200] or "?"
