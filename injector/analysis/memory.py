"""How much memory the regions of a step take, and how much is left of it afterwards (``--memory``).

With ``--memory``, the bytes in use on the host and on each device are read before and after each region, and
are recorded as spans of their own whose payload is both numbers. A region that leaves more than it found in
every step is a leak; the largest value shows which region needs the memory that a batch is limited by.
"""

from __future__ import annotations

import numpy as np

from ..store.spans import memory_of
from .arrays import owners
from .columns import Ints, RecordedProcess, SpanColumns
from .profile import MemoryUse
from .traces import LoopTrace

STEP = "step"
"""The name of a whole step among the regions."""


def memory_use(
    source: RecordedProcess, rows: SpanColumns, trace: LoopTrace, warmup: int
) -> tuple[MemoryUse, ...]:
    """For each place of memory, the host first: a whole step, then its regions, ordered by their first calls.

    ``rows`` are the spans of memory alone; only those in measured steps of ``trace`` count.
    """
    first = trace.measured_from(warmup)
    # Memory is read just before a region begins and just after it has ended. Both moments may lie in the step
    # beside, if the region is the first or last of its step; the middle between them does not.
    middle = rows.start + (rows.end - rows.start) // 2
    step = owners(trace.start[first:], trace.end[first:], middle)
    sites: dict[tuple[str, str], list[int]] = {}
    for number in dict.fromkeys(rows.site[step >= 0].tolist()):
        site = source.memory_sites[number]
        sites.setdefault((site.device or "", site.region), []).append(number)
    uses = []
    # The host first, then devices in the order of their first spans.
    places = dict.fromkeys(where for where, _ in sites)
    for where in sorted(places, key=lambda where: where != "host"):
        regions = {region: numbers for (place, region), numbers in sites.items() if place == where}
        all_numbers = [number for numbers in regions.values() for number in numbers]
        uses.append(_use_of_steps(where, rows, _rows_of(rows, step, all_numbers), step))
        for region, numbers in regions.items():
            of_region = _rows_of(rows, step, numbers)
            before, after = memory_of(rows.payload[of_region])
            uses.append(
                MemoryUse(
                    region=region,
                    where=where,
                    calls=len(of_region) / max(len(trace.start) - first, 1),
                    change=float(np.median(after - before)),
                    largest=int(after.max()),
                )
            )
    return tuple(uses)


def _rows_of(rows: SpanColumns, step: Ints, numbers: list[int]) -> Ints:
    """The rows of the call sites ``numbers`` that lie in a step, in the order of their ends."""
    of_sites: Ints = np.flatnonzero((step >= 0) & np.isin(rows.site, numbers))
    return of_sites[np.argsort(rows.end[of_sites], kind="stable")]


def _use_of_steps(where: str, rows: SpanColumns, of_sites: Ints, step: Ints) -> MemoryUse:
    """The memory of whole steps: from the begin of the first region of a step to the end of its last one.

    ``of_sites`` are the rows of all regions at ``where``, in the order of their ends.
    """
    before, after = memory_of(rows.payload[of_sites])
    step_of_row = step[of_sites]
    by_step = np.argsort(step_of_row, kind="stable")
    starts = np.flatnonzero(np.diff(step_of_row[by_step], prepend=-1))
    ends = np.append(starts[1:], len(step_of_row)) - 1
    # In the order of ends, the last row of a step is the region that ended last. The one that began first may
    # be any of them, since a region ends after those within it.
    at_begin = np.array(
        [
            before[in_step[rows.start[of_sites[in_step]].argmin()]]
            for in_step in np.split(by_step, starts[1:])
        ]
    )
    largest = np.maximum.reduceat(after[by_step], starts)
    return MemoryUse(
        region=STEP,
        where=where,
        calls=1.0,
        change=float(np.median(after[by_step[ends]] - at_begin)),
        largest=int(largest.max()),
    )
