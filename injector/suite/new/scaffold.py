"""Making the folder of a new benchmark."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path

from ...errors import UserError
from ..environments import folders
from ..environments.commands import Failed, Say, staged
from . import checking, fetching, writing
from .fetching import Fetched
from .loops import Finder
from .modules import Program, Unreadable, read
from .proposals import Proposal, propose
from .target import Target


@dataclass(frozen=True)
class Wish:
    """What somebody wants a benchmark of."""

    name: str
    into: Path
    """The folder that the benchmark's folder is made in."""
    base: Path
    """The base folder, which keeps repositories and archives."""
    package: str | None = None
    git: str | None = None
    commit: str | None = None
    script: Path | None = None
    run: Target | None = None
    seconds: int | None = None
    """Try it for at most so long."""


@dataclass(frozen=True)
class Made:
    """A new benchmark."""

    folder: Path
    proposal: Proposal
    notes: tuple[str, ...] = ()
    """What could not be done."""


def make(wish: Wish, say: Say) -> Made:
    """Write a benchmark's folder.

    Raises:
        UserError: a bad name, a folder that is there already, a program that is not.
        Failed: the program cannot be had.
    """
    folder = wish.into / _name(wish.name)
    if folder.exists() or folder.is_symlink():
        raise UserError(f"{folder} is there already: remove it, or choose another name")
    ways = [way for way in (wish.package, wish.git, wish.script) if way is not None]
    if len(ways) != 1:
        raise UserError("say where the program is from: one of --package, --git and --script")
    if wish.commit is not None and wish.git is None:
        raise UserError("--commit belongs to --git")
    with tempfile.TemporaryDirectory() as scratch:
        fetched = _fetch(wish, folder, Path(scratch), say)
        try:
            program = read(fetched.main, fetched.module, fetched.around.roots)
        except Unreadable as error:
            raise UserError(str(error)) from None
        proposal, notes = _propose(wish, fetched, program, say)
    wish.into.mkdir(parents=True, exist_ok=True)
    with staged(folder) as new:
        for name, text in {
            "benchmark.yaml": writing.benchmark(wish.name, fetched, proposal),
            "voirfile.py": writing.voirfile(wish.name, proposal),
            "requirements.txt": writing.requirements(fetched, program),
            "README.md": writing.readme(wish.name, str(folder), fetched, proposal),
        }.items():
            (new / name).write_text(text, encoding="utf-8")
    return Made(folder, proposal, notes)


def _name(name: str) -> str:
    if not folders.is_name(name) or name.startswith("_"):
        raise UserError(
            f"{name!r} is no name of a benchmark: letters, digits and . _ + - make one, "
            "and it begins with a letter or a digit"
        )
    return name


def _fetch(wish: Wish, folder: Path, scratch: Path, say: Say) -> Fetched:
    if wish.package is not None:
        return fetching.package(wish.package, wish.run, wish.base, scratch, say)
    if wish.git is not None:
        return fetching.repository(wish.git, wish.commit, wish.run, wish.base, say)
    assert wish.script is not None
    return fetching.script(wish.script, wish.run, folder)


def _propose(
    wish: Wish, fetched: Fetched, program: Program, say: Say
) -> tuple[Proposal, tuple[str, ...]]:
    """What the voirfile says: only what is found in the program by those who will look for it."""
    finder = Finder(program.modules)
    shipped = checking.shipped()
    notes = []
    proposal = propose(program, finder, shipped)
    if wish.seconds is not None:
        say(f"trying {fetched.target.run}")
        try:
            seen = checking.tried(fetched.target, fetched.around, wish.seconds)
            proposal = propose(program, finder, shipped, seen)
        except Failed as error:
            notes.append(str(error))
    if proposal.lines:
        selectors = [line.selector for line in proposal.lines]
        try:
            landed = checking.landing(selectors, fetched.target, fetched.around)
        except Failed as error:
            notes.append(str(error))
            landed = set()
        proposal = proposal.keeping(landed)
    return proposal, tuple(notes)
