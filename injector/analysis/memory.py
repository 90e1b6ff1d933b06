"""What memory the regions of a step take and leave (``--memory``)."""

from __future__ import annotations

import numpy as np

from ..store.spans import memory_of
from .arrays import owners
from .columns import Ints, RecordedProcess, SpanColumns
from .profile import MemoryUse
from .traces import LoopTrace

STEP = "step"


def memory_use(
    source: RecordedProcess, rows: SpanColumns, trace: LoopTrace, warmup: int
) -> tuple[MemoryUse, ...]:
    """By where the memory is, the measured steps of ``trace``, then their regions as they come.

    ``rows`` are those of memory alone.
    """
    first = trace.measured_from(warmup)
    # Memory is read before a region begins and after it has ended, which may be in the step beside.
    middle = rows.start + (rows.end - rows.start) // 2
    step = owners(trace.start[first:], trace.end[first:], middle)
    kinds: dict[tuple[str, str], list[int]] = {}
    for number in dict.fromkeys(rows.site[step >= 0].tolist()):
        site = source.memory_sites[number]
        kinds.setdefault((site.device or "", site.region), []).append(number)
    found = []
    for where in sorted({where for where, _ in kinds}, key=lambda where: where != "host"):
        mine = {region: numbers for (at, region), numbers in kinds.items() if at == where}
        every = [number for numbers in mine.values() for number in numbers]
        found.append(_steps(where, rows, _kept(rows, step, every), step))
        for region, numbers in mine.items():
            kept = _kept(rows, step, numbers)
            before, after = memory_of(rows.payload[kept])
            calls = len(kept) / max(len(trace.start) - first, 1)
            found.append(
                MemoryUse(
                    region=region,
                    where=where,
                    calls=calls,
                    change=float(np.median(after - before)),
                    largest=int(after.max()),
                )
            )
    return tuple(found)


def _kept(rows: SpanColumns, step: Ints, numbers: list[int]) -> Ints:
    """Rows of some sites within steps, in the order of their ends."""
    kept: Ints = np.flatnonzero((step >= 0) & np.isin(rows.site, numbers))
    return kept[np.argsort(rows.end[kept], kind="stable")]


def _steps(where: str, rows: SpanColumns, kept: Ints, step: Ints) -> MemoryUse:
    """Of each step: from the begin of its first region to the end of its last."""
    before, after = memory_of(rows.payload[kept])
    of = step[kept]
    ordered = np.argsort(of, kind="stable")
    starts = np.flatnonzero(np.diff(of[ordered], prepend=-1))
    ends = np.append(starts[1:], len(of)) - 1
    begun = np.array(
        [  # a region that holds others ends after them: what begins first is looked for
            before[mine[rows.start[kept[mine]].argmin()]] for mine in np.split(ordered, starts[1:])
        ]
    )
    largest = np.maximum.reduceat(after[ordered], starts)
    return MemoryUse(
        region=STEP,
        where=where,
        calls=1.0,
        change=float(np.median(after[ordered[ends]] - begun)),
        largest=int(largest.max()),
    )
