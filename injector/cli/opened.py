"""How the verbs that read runs name them, and open them: collected, or put together for that time."""

from __future__ import annotations

import argparse
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

from ..bus import collector
from ..errors import UserError
from ..store.folder import LAST, NotARunError, Run, find, newest_of, open_run, resolve
from ..suite.plan import FILE as PLAN


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


def add_base(parser: argparse.ArgumentParser) -> None:
    """``--base``, where suites are looked for by name."""
    text = "base folder of suites ($INJECT_BASE, .inject/suite): their runs can be named, too"
    parser.add_argument("--base", metavar="DIR", help=text)


def is_suite(path: str) -> bool:
    """Whether the folder ``path`` holds the runs of a suite."""
    return os.path.isfile(os.path.join(path, PLAN))


def located(options: argparse.Namespace) -> str:
    """The folder that ``options.run`` names: that of a run, or of the runs of a suite.

    LAST, and None, stand for the newest of both. Raises UserError when there is none.
    """
    from .suite.options import base

    which: str | None = options.run
    runs = str(base(options.base))
    if which is not None and is_suite(which):
        return os.path.abspath(which)
    try:
        found = find(which, options.runs)
    except NotARunError as error:
        from ..suite.finding import find as find_suite

        try:
            return find_suite(which, runs)
        except UserError:
            raise error from None
    if which is None or which == LAST:
        suite = resolve(None, os.path.join(runs, "runs"), is_suite)
        return newest_of([found, *([suite] if suite else [])]) or found
    return found


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
