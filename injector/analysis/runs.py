"""The runs of a folder, one line of facts each, and what is missing of a run's record."""

from __future__ import annotations

import os

from ..named_tuple import NamedTuple
from ..plain_json import dumps
from ..store.event import REASONS
from ..store.folder import Run, is_run
from ..store.run_json import NotARunError, read_info
from ..store.seal import flaws
from .wording import count

TYPE_CHECKING = False  # importing typing would cost 5 ms
if TYPE_CHECKING:
    from typing import Any


class Listed(NamedTuple):
    """One run folder."""

    run: str
    """The folder's own name, by which other verbs find it."""
    name: str
    started: float | None
    """Unix seconds; None for a foreign or uncollected folder."""
    duration: float | None
    """Seconds."""
    exit: int | None
    """Exit code, negative for the signal it died by; None if unknown."""
    stopped: bool
    """Whether it was ended on purpose, after so many steps or so much time."""
    processes: int | None
    records: int | None
    lost: int | None
    host: str | None
    command: str
    verdict: str | None
    """What limits it, where the run says so."""
    broken: str | None
    """Which rank died or hung first, and was not started again."""
    problem: str | None
    """Why it cannot be read, or what of it is missing."""
    tags: str | None = None
    """Its properties, as a JSON object; None where it was given none."""


def listed(folder: str) -> list[Listed]:
    """Every run in ``folder``, the oldest first; one that cannot be read says why.

    Raises NotARunError when there is no such folder.
    """
    try:
        names = os.listdir(folder)
    except OSError as error:
        raise NotARunError(f"{folder}: no runs can be listed: {error.strerror}") from None
    found = [
        one(os.path.join(folder, name)) for name in names if is_run(os.path.join(folder, name))
    ]
    return sorted(found, key=lambda each: (each.started or _changed(folder, each.run), each.run))


def one(path: str) -> Listed:
    """The facts of the run folder ``path``."""
    name = os.path.basename(os.path.abspath(path))
    stem = name.rsplit(".", 2)[0]
    try:
        info = read_info(path)
    except NotARunError as error:
        return _of({}, name, stem)._replace(
            problem=str(error).replace(os.path.join(path, ""), "").replace(path, "it", 1)
        )
    # Only names and sizes: a list does not read all that was ever recorded.
    found = flaws(path, info["files"], content=False) if "files" in info else []
    damaged = f"damaged: {found[0].sentence}" + ", …" * (len(found) > 1) if found else None
    return _of(info, name, stem)._replace(problem=damaged)


def _of(info: dict[str, Any], name: str, stem: str) -> Listed:
    ended = info.get("exit") if isinstance(info.get("exit"), dict) else {}
    signal = (ended or {}).get("signal")
    processes = info.get("processes")
    verdict = info.get("verdict")
    return Listed(
        name,
        str(info.get("name") or stem),
        _number(info.get("started")),
        _number(info.get("duration")),
        -signal if isinstance(signal, int) else (ended or {}).get("code"),
        bool(info.get("stopped")),
        len(processes) if isinstance(processes, list) else None,
        info.get("records"),
        info.get("lost"),
        info.get("host"),
        " ".join(str(word) for word in info.get("command") or ()),
        verdict.get("kind") if isinstance(verdict, dict) else None,
        _broken(info.get("broken")),
        None,
        dumps(info["tags"]) if info.get("tags") else None,
    )


def _broken(fates: object) -> str | None:
    for fate in fates if isinstance(fates, list) else ():
        if isinstance(fate, dict) and fate.get("restarted") is None:
            return f"rank {fate.get('rank')} {fate.get('kind')}"
    return None


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, (int, float)) else None


def _changed(folder: str, name: str) -> float:
    try:
        return os.path.getmtime(os.path.join(folder, name))
    except OSError:
        return 0.0


UNCOLLECTED = (
    "there is no run.json: the run goes on, or its supervisor was killed, or the disk was full, or the "
    "file was removed; how the program ended is not known"
)


def missing_of(run: Run) -> tuple[str, ...]:
    """What was changed or removed in the run folder, then what could not be recorded; as sentences."""
    lost = [
        f"{count(process['lost'], 'record')} of process {process.get('pid')} on {process.get('host')} "
        f"{'was' if process['lost'] == 1 else 'were'} lost"
        + (f": {REASONS.get(why, why)}" if (why := process.get("why")) else "")
        for process in run.info.get("processes") or ()
        if process.get("lost")
    ]
    return (*run.damage, *lost)


def missing_or_uncollected(run: Run) -> tuple[str, ...]:
    """:func:`missing_of`, and whether the run was ever collected."""
    uncollected = (UNCOLLECTED,) if run.info.get("collected") is False else ()
    return (*uncollected, *missing_of(run))
