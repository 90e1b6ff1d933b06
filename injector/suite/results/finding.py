"""Which folder of runs somebody means."""

from __future__ import annotations

import os

from ...store.folder import LAST, resolve
from ..plan.jobs import is_suite_run
from . import reading

RUNS = "runs"
YAML = (".yaml", ".yml")


def find(which: str | None, base: str) -> str:
    """The folder of a suite's runs that ``which`` names: a path, a name below ``base``, a suite.

    A suite's file, or its name, stands for the newest of its runs; None and ``LAST`` for the newest of
    all. Of a folder that holds several, the newest as well.

    Raises:
        NoResultsError: there is none; the text says where it was looked for.
        NotARunError: the beginning of several names.
    """
    runs = os.path.join(base, RUNS)
    named = which
    if which is not None and which.endswith(YAML):
        named = os.path.splitext(os.path.basename(which))[0]
    elif which is not None and is_suite_run(which):
        return os.path.abspath(which)
    elif which is not None and os.path.isdir(which):
        return resolve(None, which, is_suite_run) or which
    found = resolve(named, runs, is_suite_run)
    # A file stands for the runs of that suite, not for those of one whose name begins like its.
    if found is not None and (named == which or os.path.basename(found).startswith(f"{named}.")):
        return found
    if which is None or which == LAST:
        raise reading.NoResultsError(f"no suite has been run in {runs}")
    if which.endswith(YAML):
        raise reading.NoResultsError(f"{which}: no run of it is in {runs}")
    raise reading.NoResultsError(
        f"{which}: there is no such folder, and {runs} has no run of that name"
    )
