"""Where things lie below the base folder of suites."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path

from ...errors import UserError

MANY = 1024
"""Paths that are kept: a plan of thousands of processes asks for the same few again and again."""
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]*")


@lru_cache(MANY)
def venv(base: Path, group: str) -> Path:
    """The environment of an install group."""
    return base / "venv" / checked(group, "install group")


@lru_cache(MANY)
def extra(base: Path, group: str) -> Path:
    """What the programs of a group write and share."""
    return base / "extra" / checked(group, "group")


def _below(*names: str) -> Callable[[Path], Path]:
    return lru_cache(MANY)(lambda base: base.joinpath(*names))


data = _below("data")
"""What prepare steps make, and what a suite's user puts there."""
cache = _below("cache")
"""Downloads of the programs: models, compiled kernels."""
sources = _below("sources")
"""Checked out repositories and unpacked archives."""
runs = _below("runs")
"""A folder for each time that a suite was run."""
records = _below("extra", ".prepared")
"""What is known of the prepare steps that have finished, with what they printed."""
locks = _below(".locks")
"""Files that two suites agree by."""


def checked(name: str, what: str) -> str:
    """``name``, which becomes a folder.

    Raises:
        UserError: it would lead somewhere else.
    """
    if not is_name(name):
        raise UserError(
            f"{name!r} is no name of a {what}: letters, digits and . _ + - make one, "
            "and it begins with a letter, a digit or _"
        )
    return name


def is_name(text: str) -> bool:
    """Whether ``text`` can be the name of a folder, and of nothing else."""
    return _NAME.fullmatch(text) is not None


def make(base: Path) -> Path:
    """Make the base folder; a new one keeps itself out of version control.

    Raises:
        UserError: it cannot be made.
    """
    hidden = base.parent if base.parent.name == ".inject" else base
    new = not hidden.exists()
    try:
        base.mkdir(parents=True, exist_ok=True)
        if new:
            (hidden / ".gitignore").write_text("*\n", encoding="utf-8")
    except OSError as error:
        raise UserError(f"{base}: {error.strerror or error}; name another folder: --base") from None
    return base


def remove(path: Path) -> None:
    """Remove a folder, a file, or nothing; what is read-only as well."""
    import shutil

    if path.is_symlink() or path.is_file():
        path.unlink()
        return

    def writable(function: object, name: str, _: object) -> None:
        os.chmod(os.path.dirname(name), 0o700)
        os.chmod(name, 0o700)
        function(name)  # type: ignore[operator]

    if path.exists():
        shutil.rmtree(path, onerror=writable)
