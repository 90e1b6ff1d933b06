"""What verbs that read runs share: arguments that name runs, the folders of these, and what is missing."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator, Mapping, Sequence

from ..analysis.runs import missing_or_uncollected
from ..bus.readable import collected as collected
from ..bus.readable import is_foreign as is_foreign
from ..errors import UserError
from ..store.folder import LAST, Run, find, is_run, is_suite_run, newest_of, resolve, runs_folder
from ..store.run_json import NotARunError
from ..suite.environments.folders import base_of

DAMAGED = 1
"""The exit code of a verb that showed a run of whose record parts are missing."""
is_suite = is_suite_run


def add_run(parser: argparse.ArgumentParser, nargs: str | None, default: bool = True) -> None:
    """Add the argument ``run`` and ``--runs``. ``default``: whether the newest run is the default."""
    newest = "LAST for the newest" + (", which is the default" if nargs and default else "")
    parser.add_argument(
        "run", nargs=nargs, help=f"run folder, its name or how that begins; {newest}"
    )
    add_runs(parser)


def add_runs(parser: argparse.ArgumentParser) -> None:
    """Add ``--runs``, the folder in which runs are looked up by name."""
    parser.add_argument("--runs", metavar="DIR", help="folder of runs ($INJECT_RUNS, .inject/runs)")


def add_base(parser: argparse.ArgumentParser) -> None:
    """Add ``--base``, the folder in which suites are looked up by name."""
    text = "base folder of suites ($INJECT_BASE, .inject/suite): their runs can be named, too"
    parser.add_argument("--base", metavar="DIR", help=text)


def suites_in(options: argparse.Namespace) -> str:
    """The folder with the runs of suites. Raises UserError if ``--base`` names no folder."""
    given: str | None = options.base
    if given is not None and not os.path.isdir(given):
        why = "this is no folder" if os.path.exists(given) else "there is no such folder"
        raise UserError(f"--base {given or repr(given)}: {why}")
    return str(base_of(given) / "runs")


def locate(which: str | None, options: argparse.Namespace) -> str:
    """The folder that ``which`` names, of a run or of a suite's run. LAST and None name the newest of both.

    Raises UserError if there is none.
    """
    runs = suites_in(options)
    if which is not None and is_suite(which):
        return os.path.abspath(which)
    try:
        run = find(which, options.runs)
    except NotARunError as error:
        from ..suite.run.suite_folder import find_suite_run

        try:
            suite_run = find_suite_run(which, os.path.dirname(runs))
        except UserError:
            raise error from None
        # Any path of a folder is taken for that of a suite's run.
        if not is_suite(suite_run):
            raise
        return suite_run
    if which is None or which == LAST:
        suite = resolve(None, runs, is_suite)
        return newest_of([run, *([suite] if suite else [])]) or run
    return run


def runs_in(path: str) -> Sequence[tuple[Mapping[str, str], str]]:
    """The run folders of ``path``: itself, or those of a suite, each with the labels of its process."""
    if not is_suite(path):
        return [({}, path)]
    from ..suite.results.status import runs_of

    return [(labels, each) for labels, each in runs_of(path) if is_run(each)]


def locate_all(options: argparse.Namespace) -> Iterator[str]:
    """The folders of all runs and suites in the folder ``options.run``, by name, or the one that it names.

    Without ``options.run``: those where runs and suites are looked up. Raises UserError if there is none.
    """
    which = options.run
    if which is not None and not (os.path.isdir(which) and not is_run(which)):
        yield locate(which, options)
        return
    if which is not None and is_suite(which):
        yield which
        return
    folders = [which] if which is not None else [runs_folder(options.runs)]
    if which is None and options.runs is None:
        folders.append(suites_in(options))
    empty = True
    for folder in dict.fromkeys(map(os.path.abspath, folders)):
        for name in sorted(os.listdir(folder)) if os.path.isdir(folder) else ():
            path = os.path.join(folder, name)
            if is_suite(path) or is_run(path):
                empty = False
                yield path
    if empty:
        raise UserError(f"there is neither a run nor a suite in {' or '.join(folders)}")


def exit_code(run: Run) -> int:
    """The exit code of a verb that has shown ``run``."""
    return DAMAGED if missing_or_uncollected(run) else 0


def print_missing(run: Run, key: str) -> None:
    """Print what is missing of ``run`` to stderr, after its name in a suite, ``key``."""
    for sentence in missing_or_uncollected(run):
        print(f"inject: {key + ': ' if key else ''}{sentence}", file=sys.stderr)
