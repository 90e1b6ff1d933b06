"""The run folder of a suite: made, found again, and held by one at a time."""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Mapping

from ...errors import UserError
from ...store.folder import LAST, checksum_of, replace_file, resolve
from ...store.place import clean_name, create_unique
from ..plan import jobs as plans
from ..plan.jobs import Plan

LOCK = "lock"


def create(base: str, name: str) -> str:
    """A new folder ``BASE/runs/NAME.TIME``. Raises UserError when it cannot be made."""
    runs = os.path.join(base, "runs")
    try:
        return create_unique(runs, clean_name(name))
    except OSError as error:
        raise UserError(f"no suite can be run in {runs}: {error.strerror}") from None


def write_plan(folder: str, plan: Plan) -> None:
    """Write ``plan.json``, whole or not at all. Raises UserError when that fails."""
    content = plan.as_json()
    text = json.dumps({**content, "checksum": checksum_of(content)}, indent=1)
    try:
        replace_file(os.path.join(folder, plans.FILE), [text.encode(), b"\n"])
    except OSError as error:
        raise UserError(f"{folder}: no plan can be written: {error.strerror}") from None


def find(base: str, which: str | None, suite: str | None = None) -> str:
    """The run folder that ``--resume`` means: a path, a run's name below ``base``, else the newest.

    With ``suite`` (the path of a YAML) the newest of that suite.

    Raises:
        UserError: there is none; the text says where it was looked for.
    """
    runs = os.path.join(base, "runs")
    if which is not None and which != LAST:
        found = which if _is_planned(which) else resolve(which, runs, _is_planned)
        if found is not None:
            return os.path.abspath(found)
        raise UserError(f"--resume {which}: no suite has been run in {which}, nor in {runs}")
    for path in newest(base):
        if suite is None or _suite_of(path) == os.path.abspath(suite):
            return path
    of = f" of {suite}" if suite else ""
    raise UserError(f"--resume: there is no run{of} in {runs}")


def newest(base: str) -> list[str]:
    """The run folders of suites below ``base``, the newest first."""
    runs = os.path.join(base, "runs")
    try:
        names = os.listdir(runs)
    except OSError:
        return []
    names.sort(key=lambda name: name.split(".")[-2:], reverse=True)
    paths = (os.path.join(runs, name) for name in names)
    return [path for path in paths if _is_planned(path)]


def _is_planned(folder: str) -> bool:
    return os.path.isfile(os.path.join(folder, plans.FILE))


def _suite_of(folder: str) -> str | None:
    try:
        with open(os.path.join(folder, plans.FILE), encoding="utf-8") as file:
            suite = json.load(file)["suite"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return suite.get("file") if isinstance(suite, Mapping) else None


def is_held(folder: str) -> bool:
    """Whether somebody runs the suite in ``folder``; also before it is run for the first time."""
    try:
        file = os.open(os.path.join(folder, LOCK), os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return True
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        return False
    except OSError:
        return True
    finally:
        os.close(file)


class Held:
    """A run folder that nobody else runs at the same time.

    Raises:
        UserError: somebody does.
    """

    def __init__(self, folder: str) -> None:
        self._file = os.open(os.path.join(folder, LOCK), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC)
        if not self._locked():
            holder = os.pread(self._file, 40, 0).decode(errors="replace").strip()
            os.close(self._file)
            raise UserError(f"{folder} is being run by process {holder or '?'}") from None
        os.ftruncate(self._file, 0)
        os.pwrite(self._file, f"{os.getpid()}\n".encode(), 0)

    def _locked(self) -> bool:
        """Lock it. Whoever watches the suite holds it for a moment (:func:`is_held`), again and again."""
        for _ in range(20):
            try:
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return True
            except OSError:
                time.sleep(0.01)
        return False

    def release(self) -> None:
        """Let others have it."""
        os.close(self._file)
