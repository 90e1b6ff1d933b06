"""Definitions of benchmarks: folders that say where a program is from and how it is run.

Two layouts are read: ours (``benchmark.yaml``) and milabench's (``benchfile.py``, see
:mod:`.benchfile`). Both come to a mapping with the keys of a suite's entry, over which the suite's
own entry is merged.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from ... import origin
from . import benchfile
from .problems import Problem, SuiteError, Where, meant

DEFINITION_FILES = YAML, BENCHFILE = ("benchmark.yaml", "benchfile.py")
"""A folder with one of these defines a benchmark: ours, or milabench's layout."""


class Definition(NamedTuple):
    """What a folder says."""

    file: Path
    """The ``benchmark.yaml`` or ``benchfile.py`` in it."""
    settings: Mapping[str, Any]
    """Empty where the file is a ``benchmark.yaml``: who reads suites reads it as well."""
    lines: Mapping[str, int]
    """The line of ``file`` that each key comes from, as far as there is one."""
    notes: tuple[str, ...] = ()
    """What of a ``benchfile.py`` is computed by its own code, and was therefore not read."""


def shipped_suites() -> dict[str, Path]:
    """The suites that come with this package, by name."""
    return {file.stem: file for file in sorted(Path(origin.shipped("suites")).glob("*.yaml"))}


def shipped_benchmarks() -> dict[str, Path]:
    """The folders of the definitions that come with this package, by name."""
    folders = sorted(Path(origin.shipped("benchmarks")).glob("*"))
    return {folder.name: folder for folder in folders if is_definition(folder)}


def is_definition(folder: Path) -> bool:
    """Whether ``folder`` says how a benchmark is made."""
    return any((folder / name).is_file() for name in DEFINITION_FILES)


def find(written: str, beside: Path) -> Path:
    """The folder that ``definition: WRITTEN`` means in a file in the folder ``beside``.

    A path relative to that file; else the name of a shipped definition.

    Raises:
        LookupError: there is none; the text says what would be right.
    """
    folder = (beside / Path(written).expanduser()).absolute()
    if is_definition(folder):
        return folder.resolve()
    known = shipped_benchmarks()
    if written in known:
        return known[written]
    if folder.is_dir():
        raise LookupError(f"{folder} holds neither {YAML} nor {BENCHFILE}")
    raise LookupError(
        f"no definition {written!r}: there is no folder {folder}, and none of that name is shipped"
        f"{meant(written, known)}"
    )


def read(folder: Path) -> Definition:
    """What the definition in ``folder`` says, with what its files imply where it says nothing.

    Raises:
        SuiteError: a ``benchfile.py`` that cannot be read, with its line.
    """
    if (folder / YAML).is_file():
        return Definition(folder / YAML, implied(folder), {})
    file = folder / BENCHFILE
    if not file.is_file():
        at = Where(str(folder), 1)
        raise SuiteError([Problem(at, f"holds neither {YAML} nor {BENCHFILE}")])
    found = benchfile.read(file)
    return Definition(file, {**implied(folder), **found.settings}, found.lines, found.notes)


def implied(folder: Path) -> dict[str, Any]:
    """What a definition need not say, since the files beside it do."""
    conventions = {"voirfile": "voirfile.py", "prepare": "prepare.py"}
    return {key: name for key, name in conventions.items() if (folder / name).is_file()}
