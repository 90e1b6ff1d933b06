"""Runs as their readers want them: collected, and without what is no longer what was recorded."""

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
    """Whether another tool wrote it, without raw files; or nothing else is left of one of ours."""
    if run.info or not run.data_files:
        return False
    found = names(run.path)
    return data_files(found) == sorted(found)


@contextmanager
def collected(run: Run, check: bool = True) -> Iterator[Run]:
    """``run`` as it can be read: what its seal does not vouch for is left out, and named.

    A run that was not collected is collected into a temporary folder; its own stays as it is. Without
    ``check`` its seal, which has just been made, is taken at its word. Raises OSError, NotARunError.
    """
    if is_foreign(run):
        yield run._replace(damage=_foreign(run))
        return
    if run.info and "files" not in run.info:
        yield run  # of an older injector
        return
    found = flaws(run.path, run.info["files"]) if run.info and check else []
    if run.info and run.data_files and not found:
        yield run
        return
    from tempfile import TemporaryDirectory  # 3 ms, as the next, which nearly no run needs

    from ..store.unsealed import salvage_unsealed

    with TemporaryDirectory() as copy:
        if run.info:
            salvage(run.path, run.info["files"], found, copy)
            problems = [flaw.sentence for flaw in found]
            if not data_files(os.listdir(copy)):
                retell(copy, run.info)
        else:
            problems = salvage_unsealed(run.path, copy)
            repair(copy, copy, os.path.basename(os.path.abspath(run.path)))
        made = open_run(copy)
        info = run.info or made.info
        yield made._replace(path=run.path, info=info, copy=copy, damage=tuple(problems))


def _foreign(run: Run) -> tuple[str, ...]:
    """What is wrong with files that only their own lines can vouch for."""
    damage, ended = Damage(), set()
    ours = os.path.isdir(os.path.join(run.path, "raw"))
    for bench, event, data in read_events(run, damage):
        if event == "end":
            ended.add(bench)
        ours = ours or (event == "config" and isinstance(data, dict) and "injector" in data)
    benches = [os.path.basename(path)[: -len(".data")] for path in run.data_files]
    problems = [f"{bench}.data has no end" for bench in benches if bench not in ended]
    if damage.torn:
        which = "1 line" if damage.torn == 1 else f"{damage.torn} lines"
        are = "is no record and is" if damage.torn == 1 else "are no records and are"
        problems.append(f"{which} of .data files {are} left out")
    if ours:
        problems.append("there is no run.json, and nothing in raw/: only events are left")
    return tuple(problems)


def repair(folder: str, out: str, name: str | None = None) -> dict[str, Any]:
    """Collect into the folder ``out`` a run that was not collected, whose ``inject`` died first.

    Command and times are those of the processes; ``name`` is the folder's, where ``folder`` is a copy of
    it. The run may still be going on.
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
