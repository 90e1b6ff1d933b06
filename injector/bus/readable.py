"""Runs as readers need them: collected, and without what is no longer what was recorded.

Readers never write into a run folder. What has to be repaired is repaired in a temporary folder, which the
reader is given in place of the run's own (:attr:`.Run.copy`).
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from ..store.folder import Run, open_run, read_events
from ..store.logs import Damage
from ..store.place import data_files
from ..store.seal import flaws, names, salvage
from .collector import FinishedRun, collect, retell
from .merge import Merged

TYPE_CHECKING = False  # importing typing would cost 5 ms
if TYPE_CHECKING:
    from typing import Any


def is_foreign(run: Run) -> bool:
    """Whether ``run`` has nothing but ``.data`` files: another tool wrote it, or the rest is lost."""
    if run.info or not run.data_files:
        return False
    readable = names(run.path)
    return data_files(readable) == sorted(readable)


@contextmanager
def collected(run: Run, check: bool = True) -> Iterator[Run]:
    """``run`` as it can be read. What differs from its seal is left out and named in :attr:`.Run.damage`.

    A run that was not collected is collected into a temporary folder. Without ``check`` the files are not
    compared with the seal, as for a run that has just been collected. Raises OSError, NotARunError.
    """
    if is_foreign(run):
        yield run._replace(damage=_foreign(run))
        return
    if run.info and "files" not in run.info:
        yield run  # an older injector collected it, which took no seal
        return
    damage = flaws(run.path, run.info["files"]) if run.info and check else []
    if run.info and run.data_files and not damage:
        yield run
        return
    from tempfile import TemporaryDirectory  # 3 ms, as the next one, which hardly any run needs

    from ..store.unsealed import salvage_unsealed

    with TemporaryDirectory() as copy:
        if run.info:
            salvage(run.path, run.info["files"], damage, copy)
            problems = [flaw.sentence for flaw in damage]
            # The stream follows from the raw files, so that it can be written again if it was damaged.
            if not data_files(os.listdir(copy)):
                retell(copy, run.info)
        else:
            problems = salvage_unsealed(run.path, copy)
            repair(copy, copy, os.path.basename(os.path.abspath(run.path)))
        repaired = open_run(copy)
        info = run.info or repaired.info
        yield repaired._replace(path=run.path, info=info, copy=copy, damage=tuple(problems))


def _foreign(run: Run) -> tuple[str, ...]:
    """The damage of a run of ``.data`` files alone, which can be judged by their own lines only."""
    damage, ended = Damage(), set()
    is_ours = os.path.isdir(os.path.join(run.path, "raw"))
    for bench, event, data in read_events(run, damage):
        if event == "end":
            ended.add(bench)
        is_ours = is_ours or (event == "config" and isinstance(data, dict) and "injector" in data)
    benches = [os.path.basename(path)[: -len(".data")] for path in run.data_files]
    problems = [f"{bench}.data has no end" for bench in benches if bench not in ended]
    if damage.torn:
        which = "1 line" if damage.torn == 1 else f"{damage.torn} lines"
        are = "is no record and is" if damage.torn == 1 else "are no records and are"
        problems.append(f"{which} of .data files {are} left out")
    if is_ours:
        problems.append("there is no run.json, and nothing in raw/: only events are left")
    return tuple(problems)


def repair(folder: str, out: str, name: str | None = None) -> dict[str, Any]:
    """Collect the run in ``folder`` into the folder ``out``, as its supervisor died or has not ended.

    Command and times are taken from the processes' records. ``name`` is the name of the run folder, if
    ``folder`` is a copy of it. Returns what ``run.json`` says.
    """
    logs = Merged(folder).logs
    main: dict[str, Any] = logs[0].process if logs else {}
    started = float(main.get("time") or os.path.getmtime(folder))
    run = FinishedRun(
        command=[str(word) for word in main.get("argv") or ()],
        name=(name or os.path.basename(os.path.abspath(folder))).rsplit(".", 2)[0],
        started=started,
        ended=started,
        exit=None,
        collected=False,
    )
    return collect(folder, run, out)
