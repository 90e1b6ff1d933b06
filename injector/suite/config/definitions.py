"""Definitions of benchmarks: folders that say where a program is from and how it is run.

Two layouts are read: ours (``benchmark.yaml``) and milabench's (``benchfile.py``, :mod:`.benchfile`). Both
result in a mapping with the keys of a suite's entry, and the entry itself is laid over it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ... import origin
from . import benchfile
from .benchfile import Definition
from .problems import Problem, SuiteError, Where, meant

DEFINITION_FILES = YAML, BENCHFILE = ("benchmark.yaml", "benchfile.py")
"""A folder with one of these defines a benchmark: ours, or milabench's layout."""


def shipped_suites() -> dict[str, Path]:
    """The suites that come with this package, by name."""
    return {file.stem: file for file in sorted(Path(origin.shipped("suites")).glob("*.yaml"))}


def shipped_benchmarks() -> dict[str, Path]:
    """The folders of the definitions that come with this package, by name."""
    folders = sorted(Path(origin.shipped("benchmarks")).glob("*"))
    return {folder.name: folder for folder in folders if is_definition(folder)}


def is_definition(folder: Path) -> bool:
    """Whether ``folder`` defines a benchmark."""
    return any((folder / name).is_file() for name in DEFINITION_FILES)


def find(written: str, beside: Path) -> Path:
    """The folder that ``definition: WRITTEN`` means in a file of the folder ``beside``.

    It is a path relative to that file, else the name of a shipped definition. Raises LookupError if there is
    neither, with a text that says what would be right.
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
    """What the definition in ``folder`` says, and what its files imply about keys that it does not set.

    Raises SuiteError if there is none, or its ``benchfile.py`` cannot be read.
    """
    if (folder / YAML).is_file():
        return Definition(folder / YAML, _implied(folder), {})
    file = folder / BENCHFILE
    if not file.is_file():
        at = Where(str(folder), 1)
        raise SuiteError([Problem(at, f"holds neither {YAML} nor {BENCHFILE}")])
    found = benchfile.read(file)
    return found._replace(settings={**_implied(folder), **found.settings})


def _implied(folder: Path) -> dict[str, Any]:
    """The keys that a definition need not set, since files of their usual names stand beside it."""
    conventions = {"voirfile": "voirfile.py", "prepare": "prepare.py"}
    return {key: name for key, name in conventions.items() if (folder / name).is_file()}
