"""Whether processes wait for nothing but each other: then none of them ever goes on.

What a thread waits in stands in ``/proc``, as the number of a system call and its arguments. Few calls are
known here: waits for a lock without a time limit, for the end of a child, and for something to be written
into a pipe, which only processes can do that have it open. A thread in any other call (a sleep, a socket, a
terminal) may go on by itself.
"""

from __future__ import annotations

import os
from struct import iter_unpack

from injector import reaper

TYPE_CHECKING = False  # importing typing would cost 5 ms
if TYPE_CHECKING:
    from collections.abc import Iterable

    Moment = tuple[object, ...]
    """What all threads wait in. If two of these are equal, no thread has run between them."""

READ, LOCK, CHILD, POLL, POLL_TIMED = "read", "lock", "child", "poll", "poll with a timespec"
_CALLS = {
    "x86_64": {0: READ, 202: LOCK, 61: CHILD, 247: CHILD, 7: POLL, 271: POLL_TIMED},
    "aarch64": {63: READ, 98: LOCK, 260: CHILD, 95: CHILD, 73: POLL_TIMED},
}
_LOCK_WAITS = (0, 9)  # FUTEX_WAIT, FUTEX_WAIT_BITSET
_LOCK_KIND, _LOCK_PRIVATE = 0x7F, 0x80
_FOR_EVER = 0xFFFFFFFF  # the time limit -1 of poll(2)
_TIMERS = (14, 26, 27)  # SIGALRM, SIGVTALRM, SIGPROF


def deadlock(processes: Iterable[reaper.Process]) -> Moment | None:
    """Return what the threads of ``processes`` wait in, if that is nothing but each other; else None."""
    calls = _CALLS.get(os.uname().machine, {})
    within = {process.pid: process.begun for process in processes}
    moment: list[object] = [tuple(within.items())]
    pipes: set[str] = set()
    try:
        for pid in within:
            if _has_timer(pid):
                return None
            for thread in os.listdir(f"/proc/{pid}/task"):
                call = _text(f"/proc/{pid}/task/{thread}/syscall")
                awaited = _awaited(pid, call, calls)
                if awaited is None:
                    return None
                pipes.update(awaited)
                switches = _text(f"/proc/{pid}/task/{thread}/status").partition("voluntary")[2]
                moment.append((pid, thread, call, switches))
    except (OSError, ValueError):  # one has ended, or may not be looked at
        return None
    return tuple(moment) if within and not _is_open_outside(pipes, within) else None


def _awaited(pid: int, call: str, calls: dict[int, str]) -> list[str] | None:
    """Return the pipes that a thread of ``pid`` waits for in ``call``; None if it may go on by itself.

    Raises OSError and ValueError where that cannot be read, as of a thread that runs.
    """
    number, *words = call.split()
    kind = calls.get(int(number))
    if kind is None or kind == CHILD:
        return None if kind is None else []
    first, second, third, fourth = (int(word, 16) for word in words[:4])
    if kind == LOCK:
        waits = second & _LOCK_KIND in _LOCK_WAITS and not fourth
        return [] if waits and (second & _LOCK_PRIVATE or not _is_in_file(pid, first)) else None
    if kind == READ:
        descriptors = [first]
    elif third & _FOR_EVER != (_FOR_EVER if kind == POLL else 0):
        return None
    else:
        with open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
            memory.seek(first)
            descriptors = [fd for fd, _, _ in iter_unpack("ihh", memory.read(second * 8))]
    files = [os.readlink(f"/proc/{pid}/fd/{fd}") for fd in descriptors]
    return files if all(file.startswith("pipe:") for file in files) else None


def _is_in_file(pid: int, address: int) -> bool:
    """Whether ``address`` is in a file that a process outside could map as well, as named semaphores are."""
    for line in _text(f"/proc/{pid}/maps").splitlines():
        area, _, _, _, inode, *path = line.split(maxsplit=5)
        begin, _, end = area.partition("-")
        if int(begin, 16) <= address < int(end, 16):
            # The C library creates a semaphore under another name, which it deletes, than it has in the end.
            deleted = bool(path) and path[0].endswith("(deleted)")
            return inode != "0" and not (deleted and int(inode) not in _semaphores())
    return True


def _semaphores() -> set[int]:
    """The inodes of the semaphores and shared memory that have a name."""
    with os.scandir("/dev/shm") as entries:
        return {entry.inode() for entry in entries}


def _has_timer(pid: int) -> bool:
    """Whether a timer may send a signal to the process, which has a handler for it."""
    caught = _text(f"/proc/{pid}/status").partition("SigCgt:")[2].split()[0]
    handled = int(caught, 16)
    return any(handled >> number - 1 & 1 for number in _TIMERS) or bool(_timers(pid))


def _timers(pid: int) -> str:
    try:
        return _text(f"/proc/{pid}/timers")
    except FileNotFoundError:  # a kernel without a list of them
        return ""


def _is_open_outside(pipes: set[str], within: Iterable[int]) -> bool:
    """Whether a process of the machine that is not ``within`` has one of ``pipes`` open.

    We ourselves are one of those: whatever the program was started with, we have open, too.
    """
    for process in reaper.everyone() if pipes else ():
        folder = f"/proc/{process.pid}/fd"
        if process.pid in within:
            continue
        try:
            descriptors = os.listdir(folder)
        except OSError:  # another user's, or it has ended
            continue
        for descriptor in descriptors:
            try:
                if os.readlink(f"{folder}/{descriptor}") in pipes:
                    return True
            except OSError:  # closed in the meantime
                pass
    return False


def _text(path: str) -> str:
    with open(path, "rb") as file:
        return file.read().decode("ascii", "replace")
