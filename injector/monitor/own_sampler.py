"""Samples a process with Python's own sampler, ``profiling.sampling`` (3.15 and newer).

This is a script for the interpreter that the process runs on, as the sampler reads no other version of
Python. It imports nothing of this package, which may not be installed there. The sampler reads the memory of
the process from outside and does not stop it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping

Call = tuple[str, int, str]
"""File, line (0 if it is not known) and qualified name of a function on the stack."""


def lines(counts: Mapping[tuple[Iterable[Call], int], int]) -> Iterable[str]:
    """The lines of a file of stacks, as ``injector/store/stacks.py`` reads them.

    ``counts`` are the samples by stack (the outermost call first) and thread.
    """
    for (calls, thread), samples in counts.items():
        frames = (f"{function} ({file}:{line})" for file, line, function in calls)
        text = ";".join((f"thread ({thread})", *frames))
        yield f"{text.translate({10: ' ', 13: ' '})} {samples}\n"


def main(pid: int, rate: int, output: str) -> None:
    """Sample the process ``pid`` ``rate`` times a second until it ends, then write its stacks to ``output``.

    No file is written if nothing could be read.
    """
    from profiling.sampling.sample import sample
    from profiling.sampling.stack_collector import CollapsedStackCollector

    # The interval is in microseconds. Without gc=False, a frame that stands for the garbage collector would
    # be the innermost of some stacks, and has no place in the program.
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
