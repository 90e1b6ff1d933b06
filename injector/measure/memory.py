"""Memory where regions begin and end (``inject run --memory``): of the process and of torch's allocator.

Both are counters that exist anyway; none is reset, and no device is waited for: what a program reads of its
own peak stays what it is.
"""

from __future__ import annotations

import os
import sys
from time import perf_counter_ns

from ..store.spans import memory_payload

TYPE_CHECKING = False  # importing typing would cost 5 ms
if TYPE_CHECKING:
    from typing import Any

    from ..probe.room import Add
    from .marks import Marks
    from .sites import Sites

    Reading = dict[str, int]
    """Bytes by where they are: ``host``, ``cuda:0``."""

REGIONS = frozenset(("forward", "backward", "optimizer", "zero_grad", "io"))
STATM = "/proc/self/statm"


class MemoryMarks:
    """Stands where marks of a device stand, and reads memory at the same moments.

    ``marks`` are those of the device, where its time is measured as well.
    """

    def __init__(self, add: Add, sites: Sites, marks: Marks | None) -> None:
        self._add, self._sites, self._marks = add, sites, marks
        self.clocks: list[Any] = []
        """Never of None alone: there is something to mark whether or not there is a device."""

    def mark(self) -> tuple[Any, int, Reading]:
        """This moment, of the device too where its time is measured."""
        mark = None if self._marks is None else self._marks.mark()
        return mark, perf_counter_ns(), readings()

    def span(self, begin: tuple[Any, int, Reading], start: int, site: int) -> None:
        """The region that began with ``begin`` ends here."""
        mark, began, before = begin
        if self._marks is not None and mark is not None:
            self._marks.span(mark, start, site)
        end = perf_counter_ns()
        for where, after in readings().items():
            if where in before:
                like = self._sites.like(site, clock="memory", device=where, payload=None)
                self._add(began, end, memory_payload(before[where], after), like)

    def drop(self, begin: tuple[Any, int, Reading]) -> None:
        """No region began with ``begin``."""
        if self._marks is not None and begin[0] is not None:
            self._marks.drop(begin[0])


def readings() -> Reading:
    """What is resident of this process, and allocated on the current device, as far as it is known."""
    found = {}
    resident = resident_bytes()
    if resident is not None:
        found["host"] = resident
    try:
        device = _allocated()
    except Exception:  # an allocator without counters, or a device in a state in which none answers
        device = None
    if device is not None:
        found[device[0]] = device[1]
    return found


def resident_bytes() -> int | None:
    """Bytes of this process that are in memory, as Linux counts them; None elsewhere.

    The file is opened each time: one that stays open would show in the program.
    """
    try:
        fd = os.open(STATM, os.O_RDONLY | os.O_CLOEXEC)
    except (OSError, AttributeError):
        return None
    try:
        return int(os.read(fd, 256).split()[1]) * _PAGE
    except (OSError, ValueError, IndexError):
        return None
    finally:
        os.close(fd)


_PAGE = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4096


def _allocated() -> tuple[str, int] | None:
    """The current device, and the bytes that torch's allocator has given out on it."""
    torch = sys.modules.get("torch")
    for kind in ("cuda", "xpu"):
        backend = getattr(torch, kind, None)
        if backend is None or not getattr(backend, "is_initialized", bool)():
            continue
        index = backend.current_device()
        # The nested form is what torch.cuda.memory_stats makes its long flat one of.
        stats = backend.memory.memory_stats_as_nested_dict(index)
        return f"{kind}:{index}", int(stats["allocated_bytes"]["all"]["current"])
    return None
