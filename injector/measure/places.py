"""The line of the program that a call belongs to."""

from __future__ import annotations

import os
import sys

from ..origin import LIBRARY, PACKAGE, PROGRAM, origin
from ..probe import compiled

TYPE_CHECKING = False  # importing typing would cost 5 ms
if TYPE_CHECKING:
    from types import CodeType, FrameType
    from typing import Any

RUNNERS = frozenset({"dask", "distributed", "joblib", "ray"})
"""Packages that run functions which they are given, in workers: a line of theirs tells nothing of these."""
EVENT_LOOP = "asyncio"
"""What is called where an event loop waits for whatever its tasks do."""
_LARGEST = 1 << 23
"""Bytes of a source file that is still read for the text of a line."""
_LONGEST = 200
"""Characters of a line that are kept."""
_MOST_CODES = _MOST_TEXTS = 10_000
_texts: dict[tuple[str, int], str] = {}
"""Lines that were read: a program that makes its models anew in each step has a call site for each."""


class Finder:
    """Finds the program's frame among those that called."""

    def __init__(self) -> None:
        self._kinds: dict[str, str] = {}
        self.program = compiled.Nearest(self.is_program, _MOST_CODES)
        """``program(frame)``: the nearest frame of the program from there on; None if there is none."""

    def place(self, frame: FrameType | None, library: str = "") -> dict[str, Any] | None:
        """Where the nearest frame of the program is: ``file line function text``.

        The program is what lies outside of the standard library, of site-packages and of this package.
        If nothing of it called, it is the package that was started, as the command of a package is, or
        else what lies outside of the package ``library``; and if that is what was started, the caller.
        If only :data:`RUNNERS` called, it is the function of ``library`` that they run.
        """
        packages: dict[str, FrameType] = {}
        run: FrameType | None = None
        started = None
        while frame is not None:
            kind = self._kind(frame)
            if kind == PROGRAM:
                return _place(frame)
            if kind == PACKAGE:
                packages.setdefault(_package(frame), frame)
                run = frame if _package(frame) == library else run
            started = _starts(frame, kind) or started
            frame = frame.f_back
        if not packages:
            return None
        direct = next(iter(packages.values()))
        others = packages.keys() - {library}
        if run is not None and others and others <= RUNNERS:
            return _place(run)
        outside = (each for name, each in packages.items() if name in others - RUNNERS)
        found = direct if started == library else next(outside, direct)
        return _place(packages.get(started or "", found) if started != library else found)

    def called(self, frame: FrameType | None, name: str) -> str | None:
        """The function of the standard library that the program or another library called, as ``Queue.get``.

        ``frame`` has called the C function ``name``, on its behalf. None where the caller is this package.
        """
        while frame is not None:
            kind = self._kind(frame)
            if kind not in (LIBRARY, "made"):
                return None if kind == "ours" else name
            name = _name(frame.f_code)
            if name.endswith("_run_once"):  # whatever the tasks of an event loop wait for
                return EVENT_LOOP
            frame = frame.f_back
        return name

    def is_program(self, frame: FrameType) -> bool:
        """Whether a frame is of the program's own code."""
        return self._kind(frame) == PROGRAM

    def _kind(self, frame: FrameType) -> str:
        if _package(frame) == "injector" or _package(frame).startswith("__voir"):
            return "ours"
        file = frame.f_code.co_filename
        if file[:1] == "<":  # made by a library, unless it is what `python -c` runs
            name = frame.f_globals.get("__name__")
            return PROGRAM if name in ("__main__", "__mp_main__") else "made"
        found = self._kinds.get(file)
        if found is None:
            found = self._kinds[file] = origin(os.path.abspath(file))
        return found


def _starts(frame: FrameType, kind: str) -> str | None:
    """The package of which ``frame`` begins a command: as its script, or as ``python -m`` does."""
    if frame.f_globals.get("__name__") != "__main__":
        return None
    if kind == PACKAGE:
        return str(frame.f_globals.get("__package__") or "").partition(".")[0]
    if kind != LIBRARY:
        return None
    # from package.module import main; sys.exit(main())
    imported = [name.partition(".")[0] for name in frame.f_code.co_names]
    return next((name for name in imported if name not in sys.stdlib_module_names), None)


def _package(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__") or "").partition(".")[0]


def _place(frame: FrameType) -> dict[str, Any]:
    code = frame.f_code
    line = frame.f_lineno or code.co_firstlineno
    file = code.co_filename
    if file[:1] != "<":
        file = os.path.abspath(file)
    text = _texts.get((file, line)) or _text(file, line)
    if text and len(_texts) < _MOST_TEXTS:
        _texts[file, line] = text
    if text is None:  # no file: the cell of a notebook, or code that was made
        file, text = _cell(file) or file, _kept(file, line)
    return {"file": file, "line": line, "function": _name(code), "text": text}


def _name(code: CodeType) -> str:
    return getattr(code, "co_qualname", code.co_name)


def _text(file: str, line: int) -> str | None:
    """The line itself, stripped; ``""`` when it cannot be read, None where there is no such file."""
    try:
        if os.path.getsize(file) > _LARGEST:
            return ""
        with open(file, "rb") as source:
            for number, text in enumerate(source, 1):
                if number == line:
                    return text.strip().decode("utf-8", "replace")[:_LONGEST]
    except FileNotFoundError:
        return None
    except (OSError, ValueError):
        pass
    return ""


def _kept(file: str, line: int) -> str:
    """The line of code that has no file, where it was kept for tracebacks."""
    linecache = sys.modules.get("linecache")
    entry = linecache.cache.get(file) if linecache else None
    lines = (
        entry[2] if entry and len(entry) > 2 else ()
    )  # a shorter one would first have to be loaded
    return str(lines[line - 1]).strip()[:_LONGEST] if 0 < line <= len(lines) else ""


def _cell(file: str) -> str | None:
    """``In[3]``, as IPython names the cell whose code it has compiled under the name of ``file``."""
    ipython = sys.modules.get("IPython")
    try:
        return str(ipython.get_ipython().compile.format_code_name(file)[1])  # type: ignore[union-attr]
    except (
        Exception
    ):  # no IPython, none that runs, one of another version, or a file of another origin
        return None
