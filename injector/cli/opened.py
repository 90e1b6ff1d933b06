"""Runs as their readers want them: collected, or put together again for as long as they are read."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

from ..bus import collector
from ..store.folder import Run, open_run


def is_foreign(run: Run) -> bool:
    """Whether somebody else wrote it, who leaves no raw files."""
    return bool(run.data_files) and not os.path.isdir(os.path.join(run.path, "raw"))


@contextmanager
def collected(run: Run) -> Iterator[Run]:
    """``run``; one that nobody has collected as if somebody had. Its folder stays as it is.

    Raises OSError, NotARunError.
    """
    if run.info or is_foreign(run):
        yield run
        return
    with tempfile.TemporaryDirectory() as folder:
        collector.repair(run.path, folder)
        made = open_run(folder)
        yield made._replace(path=run.path)
