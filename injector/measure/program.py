"""``injector.metric``, ``param`` and ``artifact``: what a program tells of itself.

Without ``inject`` they only check what they are given.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False  # importing typing would cost 5 ms
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

LARGEST = 1 << 26
"""Bytes of a file that is copied into the run folder; of a larger one its path and size are kept."""
FOLDER = "artifacts"
"""In the run folder: the files that programs add (:mod:`injector.store.seal` has them in its care)."""
_records: list[ProgramRecords] = []


class ProgramRecords:
    """Where it goes in a process of ``inject run``."""

    def __init__(
        self,
        put: Callable[[str, Any, int | None], None],
        emit: Callable[[str, object], None],
        folder: str | None,
        failed: Callable[[str, BaseException], None],
    ) -> None:
        self.put = put
        self.emit = emit
        self.folder = folder
        self.failed = failed

    def add_file(self, path: str, name: str) -> None:
        """Copy a file into the run folder. Raises OSError."""
        if os.path.isdir(path):
            raise IsADirectoryError(f"{path} is a folder: injector.artifact takes a file")
        size = os.path.getsize(path)
        copied = size <= LARGEST and self.folder is not None
        if copied:
            from shutil import copyfile

            target = os.path.join(str(self.folder), FOLDER, name)
            os.makedirs(os.path.dirname(target), exist_ok=True)
            draft = f"{target}.{os.getpid()}.draft"
            try:
                copyfile(path, draft)
                os.replace(draft, target)
            finally:
                if os.path.exists(draft):
                    os.unlink(draft)
        about = {"path": os.path.abspath(path), "size": size, "copied": copied}
        self.emit("artifact", {"name": name, **about})


def record(records: ProgramRecords | None) -> None:
    """From now on, what a program records goes to ``records``; nowhere when that is None."""
    _records[:] = [] if records is None else [records]


def metric(name: str, value: Any, *, step: int | None = None) -> None:
    """Record a number that the program has computed: a value of the series ``name``.

    ``step`` is the step of training that it is of; without one it is of the step in which it is recorded, as
    a value on a device always is.

    ``value`` may be a tensor or an array of one number; one on a device is read later, without waiting.
    Raises TypeError for a name that is no text or a step that is no whole number, ValueError for an empty
    name.
    """
    _check(name, "metric")
    if step is not None and not isinstance(step, int):
        raise TypeError(f"injector.metric: a step is a whole number, not {type(step).__name__}")
    if _records:
        _guarded(f"injector.metric({name!r})", lambda: _records[0].put(name, value, step))


def param(name: str, value: Any) -> None:
    """Record a setting of the program, such as a learning rate: the last one of a name counts.

    Raises TypeError for a name that is no text, ValueError for an empty one.
    """
    _check(name, "param")
    if _records:
        kept = value if isinstance(value, (bool, int, float, str)) else str(value)
        _guarded(f"injector.param({name!r})", lambda: _records[0].emit("param", {name: kept}))


def artifact(path: str | os.PathLike[str], name: str | None = None) -> None:
    """Add a file as it is now to the record, under ``name``, by default its own.

    A file of more than 64 MiB stays where it is: its path and size are recorded. What cannot be read is a
    warning of the report, and no error of the program. Raises TypeError for a path that is none,
    ValueError for a name that leads out of the run folder.
    """
    found = os.fspath(path)
    if not isinstance(found, str):
        raise TypeError(f"injector.artifact: a path is text, not {type(found).__name__}")
    name = os.path.basename(found.rstrip(os.sep)) if name is None else name
    _check(name, "artifact")
    if os.path.isabs(name) or ".." in name.split(os.sep):
        raise ValueError(f"injector.artifact: {name!r} leads out of the run folder")
    if _records:
        _guarded(f"injector.artifact({found!r})", lambda: _records[0].add_file(found, name))


def _check(name: object, function: str) -> None:
    if not isinstance(name, str):
        raise TypeError(f"injector.{function}: a name is text, not {type(name).__name__}")
    if not name.strip():
        raise ValueError(f"injector.{function}: a name is not empty")


def _guarded(where: str, act: Callable[[], None]) -> None:
    """A record that fails is a warning of the report: the program never hears of it."""
    try:
        act()
    except Exception as error:
        _records[0].failed(where, error)


from . import own  # noqa: E402, F401  # all is defined: code that waits for this may begin to record
