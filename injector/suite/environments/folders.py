"""The folders below the base folder of suites, and names that may become folders."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path

from ...errors import UserError

MANY = 1024
"""How many paths are kept: a plan of thousands of processes uses the same few again and again."""
BASE = os.path.join(".inject", "suite")
"""The base folder if none is named."""
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]*")


def base_of(given: str | None) -> Path:
    """The base folder, absolute: the one ``given``, or of the environment; it need not exist."""
    chosen = given or os.environ.get("INJECT_BASE") or os.environ.get("MILABENCH_BASE") or BASE
    return Path(chosen).expanduser().absolute()


@lru_cache(MANY)
def venv(base: Path, group: str) -> Path:
    """The environment of an install group."""
    return base / "venv" / group


@lru_cache(MANY)
def extra(base: Path, group: str) -> Path:
    """The folder in which the programs of a group keep what they share."""
    return base / "extra" / group


def _below(*names: str) -> Callable[[Path], Path]:
    return lru_cache(MANY)(lambda base: base.joinpath(*names))


data = _below("data")
"""Data: made by prepare steps, or put there by the user."""
cache = _below("cache")
"""What programs download or compile: models, kernels."""
sources = _below("sources")
"""Checked out repositories and unpacked archives."""
runs = _below("runs")
records = _below("extra", ".prepared")
"""A record of each prepare step that has finished, and its log."""
locks = _below(".locks")
"""Lock files, so that two suites do not change the same thing at the same time."""


def is_name(text: str) -> bool:
    """Whether ``text`` can be the name of a folder: no path, no ``..``, no option of a command."""
    return _NAME.fullmatch(text) is not None


def with_path(text: str, old: str, new: str) -> str:
    """``text`` with the path ``new`` for ``old``; longer names that begin with ``old`` stay.

    ``x.R0.D1`` is also the beginning of ``x.R0.D10`` and of ``x.R0.D1.a2``.
    """
    return re.sub(re.escape(old) + r"(?![\w.-])", lambda _: new, text)


def make(base: Path) -> Path:
    """Create the base folder if it is not there, with a ``.gitignore`` for all of it; its path.

    Raises UserError if it cannot be created.
    """
    # By default it is .inject/NAME: then all of .inject is ours to ignore.
    ignored = base.parent if base.parent.name == ".inject" else base
    is_new = not ignored.exists()
    try:
        base.mkdir(parents=True, exist_ok=True)
        if is_new:
            (ignored / ".gitignore").write_text("*\n", encoding="utf-8")
    except OSError as error:
        raise UserError(f"{base}: {error.strerror or error}; name another folder: --base") from None
    return base


def remove(path: Path) -> None:
    """Remove a folder, with read-only files and folders in it, a file or a link; nothing if there is none."""
    import shutil

    if path.is_symlink() or path.is_file():
        path.unlink()
        return

    def retry_writable(function: object, name: str, _: object) -> None:
        os.chmod(os.path.dirname(name), 0o700)
        os.chmod(name, 0o700)
        function(name)  # type: ignore[operator]

    if path.exists():
        shutil.rmtree(path, onerror=retry_writable)
