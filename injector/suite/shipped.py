"""The suites and benchmarks that come with this package.

In a checkout they are ``suites/`` and ``benchmarks/`` beside the package, so that an editable install
has what the checkout has; in a wheel they lie inside of the package.
"""

from __future__ import annotations

from difflib import get_close_matches
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1]
INSIDE = "shipped"
"""The folder of the package that a wheel has them in; hatch_build.py puts them there."""

DEFINITION_FILES = ("benchmark.yaml", "benchfile.py")
"""A folder with one of these defines a benchmark: ours, or milabench's layout."""


def checkout() -> Path | None:
    """The source tree that this package runs from; None where it was installed from a wheel."""
    above = PACKAGE.parent
    return above if (above / "pyproject.toml").is_file() else None


def place(kind: str) -> Path:
    """The folder of ``kind``: ``suites`` or ``benchmarks``. It may be missing."""
    return (checkout() or PACKAGE / INSIDE) / kind


def suites() -> dict[str, Path]:
    """The shipped suites, by name."""
    return {file.stem: file for file in sorted(place("suites").glob("*.yaml"))}


def benchmarks() -> dict[str, Path]:
    """The folders of the shipped definitions, by name."""
    folders = sorted(folder for folder in place("benchmarks").glob("*") if is_definition(folder))
    return {folder.name: folder for folder in folders}


def is_definition(folder: Path) -> bool:
    """Whether ``folder`` says how a benchmark is made."""
    return any((folder / name).is_file() for name in DEFINITION_FILES)


def nearest(name: str, known: dict[str, Path]) -> str:
    """What was probably meant by ``name``, as the end of a sentence."""
    near = get_close_matches(name, known, n=1)
    if near:
        return f"; did you mean {near[0]}?"
    return f" (there are {', '.join(known)})" if known else ""
