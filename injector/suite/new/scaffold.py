"""The folder of a new benchmark."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, replace
from pathlib import Path

from ...errors import UserError
from ..environments import folders
from ..environments.commands import Failed, Say, indented, staged
from . import fetching, observing, proposals, reading, writing
from .fetching import Fetched, Target
from .proposals import Proposal


@dataclass(frozen=True)
class Request:
    """The program that a benchmark is to be made of."""

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
    """How long it may run to show its loops; None: it is not run."""


@dataclass(frozen=True)
class NewBenchmark:
    """What was written."""

    folder: Path
    proposal: Proposal


def make(request: Request, say: Say) -> NewBenchmark:
    """Write a benchmark's folder.

    Raises:
        UserError: a bad name, a folder that is there already, a program that is not.
        Failed: the program cannot be had.
    """
    folder = request.into / _name(request.name)
    if folder.exists() or folder.is_symlink():
        raise UserError(f"{folder} is there already: remove it, or choose another name")
    origins = [way for way in (request.package, request.git, request.script) if way is not None]
    if len(origins) != 1:
        raise UserError("say where the program is from: one of --package, --git and --script")
    if request.commit is not None and request.git is None:
        raise UserError("--commit belongs to --git")
    with tempfile.TemporaryDirectory() as scratch:
        fetched = _fetch(request, folder, Path(scratch), say)
        reading.check(fetched.main)
        files, imported = reading.own_files(fetched.main, fetched.roots)
        proposal = _propose(request, fetched, imported, say)
        if proposal is None:
            known = observing.shipped_libraries()
            proposal = proposals.unobserved(files, tuple(sorted(known & imported)))
    request.into.mkdir(parents=True, exist_ok=True)
    with staged(folder) as new:
        for name, text in {
            "benchmark.yaml": writing.benchmark(request.name, fetched, proposal),
            "voirfile.py": writing.voirfile(request.name, proposal),
            "requirements.txt": writing.requirements(fetched, imported),
            "README.md": writing.readme(request.name, str(folder), fetched, proposal),
        }.items():
            (new / name).write_text(text, encoding="utf-8")
    return NewBenchmark(folder, proposal)


def _name(name: str) -> str:
    if not folders.is_name(name) or name.startswith("_"):
        raise UserError(
            f"{name!r} is no name of a benchmark: letters, digits and . _ + - make one, "
            "and it begins with a letter or a digit"
        )
    return name


def _fetch(request: Request, folder: Path, scratch: Path, say: Say) -> Fetched:
    base, run = request.base, request.run
    if request.package is not None:
        return fetching.package(request.package, run, base, scratch, say)
    if request.git is not None:
        return fetching.repository(request.git, request.commit, run, base, scratch, say)
    assert request.script is not None
    return fetching.script(request.script, run, folder)


def _propose(request: Request, fetched: Fetched, imported: set[str], say: Say) -> Proposal | None:
    """What a run of the program shows, confirmed by a second run; None if it does not run."""
    if request.seconds is None:
        return None
    say(f"running {fetched.target.run} for at most {request.seconds} s, to see its training loops")
    try:
        seen = observing.observe(fetched, request.seconds)
        direct = tuple(name for name in seen.libraries if name in imported)
        if direct:  # without those that only its libraries import
            seen = replace(seen, libraries=direct)
        proposal = proposals.propose(fetched, seen)
        if proposal.lines:
            say("running it again with the voirfile, to see that each line does what it should")
            text = writing.voirfile(request.name, proposal)
            again = observing.observe(fetched, request.seconds, text)
            proposal = proposals.confirmed(proposal, again)
        return proposal
    except Failed as error:
        say(f"its loops are not named, since the run failed:\n{indented(str(error), '  ')}")
        return None
