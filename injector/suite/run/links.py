"""The ``.data`` of all jobs side by side, under the names that milabench's readers expect."""

from __future__ import annotations

import os
import shutil

from ...store.place import clean_name
from ..plan.jobs import Job


def link(folder: str, job: Job, repeats: bool) -> None:
    """Put ``BENCH.D0.data``, … (``BENCH.R1.D0.data`` where there are repeats) into the suite's folder.

    One that an earlier attempt left is replaced. Raises OSError.
    """
    stem = clean_name(job.benchmark) + (f".R{job.repeat}" if repeats else "")
    for number, process in enumerate(job.processes):
        path = os.path.join(folder, f"{stem}.D{number}.data")
        if os.path.lexists(path):
            os.unlink(path)
        found = _data(os.path.join(folder, process.run))
        if found is not None:
            _same(found, path)


def _data(run: str) -> str | None:
    """The stream of events of a run, if it has one."""
    try:
        names = sorted(name for name in os.listdir(run) if name.endswith(".data"))
    except OSError:
        return None
    return os.path.join(run, names[0]) if names else None


def _same(old: str, new: str) -> None:
    try:
        os.link(old, new)
    except OSError:  # a file system without hard links
        shutil.copyfile(old, new)
