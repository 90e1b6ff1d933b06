"""How the verbs that read runs name them, and open them: collected, or put together for that time."""

from __future__ import annotations

import argparse
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

from ..bus import collector
from ..store.folder import Run, open_run


def add_run(parser: argparse.ArgumentParser, nargs: str | None) -> None:
    """The argument that names a run, and ``--runs``."""
    newest = "LAST for the newest" + ("" if nargs is None else ", which is the default")
    parser.add_argument(
        "run", nargs=nargs, help=f"run folder, its name or how that begins; {newest}"
    )
    add_runs(parser)


def add_runs(parser: argparse.ArgumentParser) -> None:
    """``--runs``, where runs are looked for by name."""
    parser.add_argument("--runs", metavar="DIR", help="folder of runs ($INJECT_RUNS, .inject/runs)")


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
