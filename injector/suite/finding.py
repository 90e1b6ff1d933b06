"""Which folder of runs somebody means."""

from __future__ import annotations

import os

from ..store.folder import newest_of
from . import results

RUNS = "runs"
YAML = (".yaml", ".yml")


def find(which: str | None, base: str) -> str:
    """The folder of a suite's runs that ``which`` names: a path, a name below ``base``, a suite.

    A suite's file, or its name, stands for the newest of its runs; None for the newest of all. Of a
    folder that holds several, the newest as well.

    Raises:
        NoResultsError: there is none; the text says where it was looked for.
    """
    runs = os.path.join(base, RUNS)
    if which is None:
        return _newest(runs) or _nothing(f"no suite has been run in {runs}")
    if which.endswith(YAML):
        name = os.path.splitext(os.path.basename(which))[0]
        return _newest(runs, name) or _nothing(f"{which}: no run of it is in {runs}")
    for path in (which, os.path.join(runs, which)):
        if results.is_suite_run(path):
            return os.path.abspath(path)
    if os.path.isdir(which):
        return _newest(which) or which
    return _newest(runs, which) or _nothing(
        f"{which}: there is no such folder, and {runs} has no run of that name"
    )


def _newest(runs: str, name: str | None = None) -> str | None:
    """Of the runs in a folder the one that began last; of those of a suite, with ``name``."""
    try:
        names = os.listdir(runs)
    except OSError:
        return None
    mine = [each for each in names if name is None or each.rsplit(".", 2)[0] == name]
    paths = [path for each in mine if results.is_suite_run(path := os.path.join(runs, each))]
    return newest_of(paths)


def _nothing(text: str) -> str:
    raise results.NoResultsError(text)
