"""What of a run's record is missing: a report says it before anything else, and its verdict does too."""

from __future__ import annotations

from dataclasses import replace

from ..store.folder import Run
from .profile import Verdict

UNCOLLECTED = (
    "there is no run.json: the run goes on, or its supervisor was killed, or the disk was full, or the "
    "file was removed; how the program ended is not known"
)


def missing_of(run: Run) -> tuple[str, ...]:
    """What was changed or removed in the run folder, then what could not be recorded; as sentences."""
    lost = [
        f"{process['lost']} records of process {process.get('pid')} on {process.get('host')} were lost"
        + (f": {process['why']}" if process.get("why") else "")
        for process in run.info.get("processes") or ()
        if process.get("lost")
    ]
    return (*run.damage, *lost)


def said_first(run: Run) -> tuple[str, ...]:
    """:func:`missing_of`, and whether the run was ever collected."""
    uncollected = (UNCOLLECTED,) if run.info.get("collected") is False else ()
    return (*uncollected, *missing_of(run))


def qualified(verdict: Verdict, run: Run) -> Verdict:
    """``verdict`` as it can be said of ``run``: of a record that is not whole, it is about what is left."""
    if not missing_of(run):
        return verdict
    if verdict.kind == "none":
        sentence = "what limits the run is not known: parts of its record are missing"
    else:
        sentence = (
            f"{verdict.sentence}; parts of the record are missing, and this is about the rest"
        )
    return replace(verdict, sentence=sentence)
