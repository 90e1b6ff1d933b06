"""Runs as their readers want them: collected, and without what is no longer what was recorded."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from ..store.folder import Run, open_run, read_events
from ..store.logs import Damage
from ..store.seal import flaws, names, salvage
from ..store.unsealed import salvage_unsealed
from . import collector


def is_foreign(run: Run) -> bool:
    """Whether somebody else wrote it, who leaves no raw files; or nothing else is left of one of ours."""
    if run.info or not run.data_files:
        return False
    return all(name.endswith(".data") for name in names(run.path))


@contextmanager
def collected(run: Run, check: bool = True) -> Iterator[Run]:
    """``run`` as it can be read: what its seal does not vouch for is left out, and named.

    A run that nobody has collected is as if somebody had. Its folder stays as it is. Without ``check``
    its seal, which has just been made, is taken at its word. Raises OSError, NotARunError.
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
    from tempfile import TemporaryDirectory  # 3 ms, which nearly no run needs

    with TemporaryDirectory() as copy:
        if run.info:
            salvage(run.path, run.info["files"], found, copy)
            said = [flaw.sentence for flaw in found]
            if not any(name.endswith(".data") for name in os.listdir(copy)):
                collector.retell(copy, run.info)
        else:
            said = salvage_unsealed(run.path, copy)
            collector.repair(copy, copy, os.path.basename(os.path.abspath(run.path)))
        made = open_run(copy)
        info = run.info or made.info
        yield made._replace(path=run.path, info=info, copy=copy, damage=tuple(said))


def _foreign(run: Run) -> tuple[str, ...]:
    """What is wrong with files that only their own lines can vouch for."""
    damage, ended = Damage(), set()
    ours = os.path.isdir(os.path.join(run.path, "raw"))
    for bench, event, data in read_events(run, damage):
        if event == "end":
            ended.add(bench)
        ours = ours or (event == "config" and isinstance(data, dict) and "injector" in data)
    benches = [os.path.basename(path)[: -len(".data")] for path in run.data_files]
    said = [f"{bench}.data has no end" for bench in benches if bench not in ended]
    if damage.torn:
        said.append(f"{damage.torn} lines of .data files are no records and are left out")
    if ours:
        said.append("there is no run.json, and nothing in raw/: only events are left")
    return tuple(said)
