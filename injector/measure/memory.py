"""Memory where regions begin and end (``inject run --memory``): of the process, and of PyTorch's allocator.

Both are counters that exist anyway. None is reset, so that a program reads the peaks that it would read
without us, and no device is waited for.
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
    """Bytes by the device that holds them: ``host``, ``cuda:0``."""

REGIONS = frozenset(("forward", "backward", "optimizer", "zero_grad", "io"))
STATM = "/proc/self/statm"


class MemoryMarks:
    """Reads memory at the moments at which marks of a device would be set, in place of these.

    ``marks`` are those of the device, and are set as well where its time is measured.
    """

    def __init__(self, add: Add, sites: Sites, marks: Marks | None) -> None:
        self._add, self._sites, self._marks = add, sites, marks
        self.clocks: list[Any] = []
        """As :attr:`.marks.Marks.clocks`, but empty: memory is there to be read without a device."""

    def mark(self) -> tuple[Any, int, Reading]:
        """Read memory where a region begins, and mark the device where its time is measured."""
        mark = None if self._marks is None else self._marks.mark()
        return mark, perf_counter_ns(), readings()

    def span(self, begin: tuple[Any, int, Reading], start: int, site: int) -> None:
        """End the region that began with ``begin``, and write what memory it began and ended with."""
        mark, began, before = begin
        if self._marks is not None and mark is not None:
            self._marks.span(mark, start, site)
        end = perf_counter_ns()
        for where, after in readings().items():
            if where in before:
                like = self._sites.like(site, clock="memory", device=where, payload=None)
                self._add(began, end, memory_payload(before[where], after), like)

    def drop(self, begin: tuple[Any, int, Reading]) -> None:
        """Free the mark of ``begin``, which is the begin of no region."""
        if self._marks is not None and begin[0] is not None:
            self._marks.drop(begin[0])


def readings() -> Reading:
    """Return what of this process is resident, and what is allocated on the current device, where known."""
    bytes_by_device = {}
    resident = resident_bytes()
    if resident is not None:
        bytes_by_device["host"] = resident
    try:
        device = _allocated()
    except Exception:  # an allocator without counters, or a device after an error
        device = None
    if device is not None:
        bytes_by_device[device[0]] = device[1]
    return bytes_by_device


def resident_bytes() -> int | None:
    """Return how many bytes of this process are resident, as Linux counts them; None on other systems.

    The file is opened each time, since the program could see one that stays open.
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
    """Return the name of the current device, and the bytes that PyTorch has allocated on it."""
    torch = sys.modules.get("torch")
    for kind in ("cuda", "xpu"):
        backend = getattr(torch, kind, None)
        if backend is None or not getattr(backend, "is_initialized", bool)():
            continue
        index = backend.current_device()
        # torch.cuda.memory_stats makes its long flat dict of this nested one, which takes most of its time.
        stats = backend.memory.memory_stats_as_nested_dict(index)
        return f"{kind}:{index}", int(stats["allocated_bytes"]["all"]["current"])
    return None
