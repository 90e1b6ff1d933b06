"""``injector.metric``, ``param`` and ``artifact``: what a program records of itself.

In a process of ``inject run``, :func:`record` has named where it goes. Without ``inject`` they only check
their arguments.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False  # importing typing would cost 5 ms
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

LARGEST = 1 << 26
"""Up to this size in bytes a file is copied into the run folder; of a larger one, path and size are kept."""
FOLDER = "artifacts"
"""The folder of the files that programs add, in the run folder (see :mod:`injector.store.seal`)."""
_records: list[ProgramRecords] = []


class ProgramRecords:
    """Where the records of a program go in a process of ``inject run``."""

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
            # Renamed once complete, so that who reads the run meanwhile finds no part of a file.
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
    """Have what the program records from now on go to ``records``; nowhere when that is None."""
    _records[:] = [] if records is None else [records]


def metric(name: str, value: Any, *, step: int | None = None) -> None:
    """Record a number that the program has computed: a value of the series ``name``.

    ``step`` is the step of training that the number is of; without one it is of the step in which it is
    recorded, as a value on a device always is.

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
    """Add a file as it is now to the record, under ``name``, which is its own by default.

    A file of more than 64 MiB stays where it is: its path and size are recorded. A file that cannot be read
    is a warning in the report, and no error of the program. Raises TypeError for a path that is none,
    ValueError for a name that leads out of the run folder.
    """
    text = os.fspath(path)
    if not isinstance(text, str):
        raise TypeError(f"injector.artifact: a path is text, not {type(text).__name__}")
    name = os.path.basename(text.rstrip(os.sep)) if name is None else name
    _check(name, "artifact")
    if os.path.isabs(name) or ".." in name.split(os.sep):
        raise ValueError(f"injector.artifact: {name!r} leads out of the run folder")
    if _records:
        _guarded(f"injector.artifact({text!r})", lambda: _records[0].add_file(text, name))


def _check(name: object, function: str) -> None:
    if not isinstance(name, str):
        raise TypeError(f"injector.{function}: a name is text, not {type(name).__name__}")
    if not name.strip():
        raise ValueError(f"injector.{function}: a name is not empty")


def _guarded(where: str, act: Callable[[], None]) -> None:
    """Call ``act``. An error of it becomes a warning in the report, and does not reach the program."""
    try:
        act()
    except Exception as error:
        _records[0].failed(where, error)


# As in `.user`: a process of `inject run` without a probe waits for this import, to begin to record.
from . import own  # noqa: E402, F401
