"""The suites and benchmarks that come with this package."""

from __future__ import annotations

from difflib import get_close_matches
from pathlib import Path

from .. import origin

DEFINITION_FILES = ("benchmark.yaml", "benchfile.py")
"""A folder with one of these defines a benchmark: ours, or milabench's layout."""


def suites() -> dict[str, Path]:
    """The shipped suites, by name."""
    return {file.stem: file for file in sorted(Path(origin.shipped("suites")).glob("*.yaml"))}


def benchmarks() -> dict[str, Path]:
    """The folders of the shipped definitions, by name."""
    folders = sorted(Path(origin.shipped("benchmarks")).glob("*"))
    return {folder.name: folder for folder in folders if is_definition(folder)}


def is_definition(folder: Path) -> bool:
    """Whether ``folder`` says how a benchmark is made."""
    return any((folder / name).is_file() for name in DEFINITION_FILES)


def nearest(name: str, known: dict[str, Path]) -> str:
    """What was probably meant by ``name``, as the end of a sentence."""
    near = get_close_matches(name, known, n=1)
    if near:
        return f"; did you mean {near[0]}?"
    return f" (there are {', '.join(known)})" if known else ""
