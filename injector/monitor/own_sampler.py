"""Samples a process with the sampler of Python itself, ``profiling.sampling`` (3.15 and newer).

A script: it is run by the Python that the process runs on, since the sampler reads no other version, and
imports nothing of ours, since that Python may have none of it. It reads from outside and stops nothing.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping

Call = tuple[str, int, str]
"""File, line (0 where it is not known) and qualified name of a function that was running."""


def lines(counts: Mapping[tuple[Iterable[Call], int], int]) -> Iterable[str]:
    """What ``injector/store/stacks.py`` reads, of stacks (outermost call first) and threads."""
    for (calls, thread), samples in counts.items():
        frames = (f"{function} ({file}:{line})" for file, line, function in calls)
        text = ";".join((f"thread ({thread})", *frames))
        yield f"{text.translate({10: ' ', 13: ' '})} {samples}\n"


def main(pid: int, rate: int, output: str) -> None:
    """Sample until the process ends, then write; nothing is written where nothing could be read."""
    from profiling.sampling.sample import sample
    from profiling.sampling.stack_collector import CollapsedStackCollector

    # The interval is in microseconds. Frames that stand for the garbage collector would be the
    # innermost of a stack, without a place.
    collector = CollapsedStackCollector(1_000_000 // rate)
    sample(pid, collector, all_threads=True, gc=False)
    if collector.stack_counter:
        with open(output, "w", encoding="utf-8", errors="replace") as file:
            file.writelines(lines(collector.stack_counter))


if __name__ == "__main__":
    try:
        main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3])
    except Exception as error:
        sys.exit(f"{type(error).__name__}: {error}")
