"""The runs of a folder, with the main facts of each, and what is missing from a run's record.

Facts come from ``run.json`` alone, so that hundreds of runs are listed in a moment; the summary of each run
has put its verdict and its broken ranks there. Where there is none yet, the first records tell the begin.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping

from ..exit_status import code_of
from ..named_tuple import NamedTuple
from ..plain_json import dumps
from ..store.event import REASONS
from ..store.folder import Run, began, is_run
from ..store.logs import Damage, files, read_records
from ..store.run_json import NotARunError, read_info
from ..store.seal import flaws
from .statistics import number
from .wording import count

TYPE_CHECKING = False  # importing typing would cost 5 ms
if TYPE_CHECKING:
    from typing import Any


BEGIN = 1 << 16
"""Bytes at the beginning of a log that are read for its first record."""


class Listed(NamedTuple):
    """The main facts of one run folder."""

    run: str
    """The folder's own name, by which other verbs find it."""
    name: str
    started: float | None
    """Unix seconds; None for a foreign or uncollected folder."""
    duration: float | None
    """Seconds."""
    exit: int | None
    """The exit code, or minus the signal that it died by; None if unknown."""
    stopped: bool
    """Whether it was stopped on purpose, at a limit of steps or of time."""
    processes: int | None
    records: int | None
    lost: int | None
    host: str | None
    command: str
    verdict: str | None
    """What limits it, by its summary."""
    broken: str | None
    """Which rank died or hung first and was not started again."""
    problem: str | None
    """Why it cannot be read, or what of it is missing."""
    tags: str | None = None
    """Its properties as a JSON object; None if it has none."""


def listed(folder: str) -> list[Listed]:
    """Every run in ``folder``, the oldest first; for one that cannot be read, ``problem`` has the reason.

    Raises NotARunError if there is no such folder.
    """
    try:
        names = os.listdir(folder)
    except OSError as error:
        raise NotARunError(f"{folder}: no runs can be listed: {error.strerror}") from None
    paths = [os.path.join(folder, name) for name in names]
    runs = [one(path) for path in paths if is_run(path)]
    return sorted(runs, key=lambda run: began(os.path.join(folder, run.run)))


def one(path: str) -> Listed:
    """The facts of the run folder ``path``."""
    name = os.path.basename(os.path.abspath(path))
    try:
        info = read_info(path)
    except NotARunError as error:
        # The message begins with the path, which stands beside it in a list.
        problem = str(error).replace(os.path.join(path, ""), "").replace(path, "it", 1)
        return _listed({}, name, problem)
    if not info and (begun := _begun(path)) is not None:
        info = {"started": begun}  # it goes on, or its supervisor was killed
    # Only names and sizes of files are compared: their contents may be gigabytes.
    damage = flaws(path, info["files"], content=False) if "files" in info else []
    damaged = f"damaged: {damage[0].sentence}" + ", …" * (len(damage) > 1) if damage else None
    return _listed(info, name, damaged)


def _begun(path: str) -> float | None:
    """When the first process of a run without ``run.json`` began, unix seconds; None if none has recorded."""
    times = []
    for log in files(path):
        try:
            first = next(read_records(log, Damage(), BEGIN), None)
        except OSError:
            continue
        if first is not None and first["event"] == "process" and isinstance(first["data"], dict):
            times.append(number(first["data"].get("time")))
    return min((time for time in times if time is not None), default=None)


def _listed(info: dict[str, Any], name: str, problem: str | None) -> Listed:
    """The facts in ``info``, of which any may be missing."""
    processes, verdict = info.get("processes"), info.get("verdict") or {}
    return Listed(
        run=name,
        name=str(info.get("name") or name.rsplit(".", 2)[0]),
        started=number(info.get("started")),
        duration=number(info.get("duration")),
        exit=code_of(info.get("exit")),
        stopped=bool(info.get("stopped")),
        processes=None if processes is None else len(processes),
        records=info.get("records"),
        lost=info.get("lost"),
        host=info.get("host"),
        command=" ".join(str(word) for word in info.get("command") or ()),
        verdict=verdict.get("kind"),
        broken=_first_broken(info.get("broken") or ()),
        problem=problem,
        tags=dumps(info["tags"]) if info.get("tags") else None,
    )


def _first_broken(outcomes: Iterable[Mapping[str, Any]]) -> str | None:
    """The first rank that was not started again, in words; ``outcomes`` are in the order of causes."""
    for outcome in outcomes:
        if outcome.get("restarted") is None:
            return f"rank {outcome.get('rank')} {outcome.get('kind')}"
    return None


UNCOLLECTED = (
    "there is no run.json: the run goes on, or its supervisor was killed, or the disk was full, or the "
    "file was removed; how the program ended is not known"
)


def missing_of(run: Run) -> tuple[str, ...]:
    """Sentences about what was changed or removed in the run folder, then about records that were lost."""
    lost = [
        f"{count(process['lost'], 'record')} of process {process.get('pid')} on {process.get('host')} "
        f"{'was' if process['lost'] == 1 else 'were'} lost"
        + (f": {REASONS.get(why, why)}" if (why := process.get("why")) else "")
        for process in run.info.get("processes") or ()
        if process.get("lost")
    ]
    return (*run.damage, *lost)


def missing_or_uncollected(run: Run) -> tuple[str, ...]:
    """As :func:`missing_of`, with a first sentence if the run was never collected."""
    uncollected = (UNCOLLECTED,) if run.info.get("collected") is False else ()
    return (*uncollected, *missing_of(run))
