"""Whether a program ended because there was no more memory."""

from __future__ import annotations

import os
import re
import signal

from ..results import traces
from ..results.outcome import ProcessResult

_SIGNS = re.compile(
    r"OutOfMemory|out of memory|MemoryError|[Cc]annot allocate memory|can't allocate memory"
    r"|std::bad_alloc|bad allocation|RESOURCE_EXHAUSTED|ALLOC_FAILED|[Uu]nable to allocate"
    r"|exitcode\s*:\s*-9\b|Signal 9 \(SIGKILL\)|killed by signal: Killed|oom-kill"
)
"""How CUDA, PyTorch, JAX, numpy, C++ and launchers whose rank the kernel killed say it."""


def why(process: ProcessResult) -> str | None:
    """How it ran out of memory, as a sentence; None where it did not.

    A SIGKILL that nobody here sent is the kernel's: it kills so when memory is exhausted.
    """
    record = process.record
    if process.timed_out or (record and record.timed_out):
        return None
    number = process.signal or (record and record.signal)
    if number == signal.SIGKILL:
        return "killed by SIGKILL, as the kernel does when memory is exhausted"
    code = process.code if process.code is not None else record and record.code
    if not code and not number:
        return None
    if number in (signal.SIGBUS, signal.SIGABRT) or code:
        said = [record.error, *record.trace] if record else []
        for line in [*said, *_printed(process)]:
            if _SIGNS.search(line):
                return traces.short(line)
    return None


def _printed(process: ProcessResult) -> list[str]:
    """The end of what it printed."""
    if process.folder is None:
        return []
    try:
        with open(os.path.join(process.folder, "stderr"), "rb") as file:
            file.seek(0, os.SEEK_END)
            file.seek(max(file.tell() - traces.TAIL, 0))
            return file.read().decode(errors="replace").splitlines()
    except OSError:
        return []
