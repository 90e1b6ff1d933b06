"""The folder of a new benchmark, and the files in it."""

from __future__ import annotations

import importlib.metadata
import tempfile
import textwrap
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml

from ...errors import UserError
from ..environments import folders
from ..environments.commands import Failed, Say, indented, staged
from . import fetching, observing, proposals, reading
from .fetching import Fetched, Target
from .proposals import Proposal


@dataclass(frozen=True)
class NewRequest:
    """The arguments of ``inject new``: the program of a new benchmark."""

    name: str
    into: Path
    """The folder in which the benchmark's folder is made."""
    base: Path
    """The base folder, which keeps repositories and archives."""
    package: str | None = None
    git: str | None = None
    commit: str | None = None
    script: Path | None = None
    run: Target | None = None
    seconds: int | None = None
    """How long it may run to show its loops; None for not to run it."""


def make(request: NewRequest, say: Say) -> Proposal:
    """Write a benchmark's folder. Returns the contents of its voirfile.

    Raises UserError if the name is none, the folder exists, the origin is not exactly one, or there is no
    such program. Raises Failed if the program cannot be fetched.
    """
    if not folders.is_name(request.name) or request.name.startswith("_"):
        raise UserError(
            f"{request.name!r} is no name of a benchmark: letters, digits and . _ + - make one, "
            "and it begins with a letter or a digit"
        )
    folder = request.into / request.name
    if folder.exists() or folder.is_symlink():
        raise UserError(f"{folder} is there already: remove it, or choose another name")
    origins = [way for way in (request.package, request.git, request.script) if way is not None]
    if len(origins) != 1:
        raise UserError("say where the program is from: one of --package, --git and --script")
    if request.commit is not None and request.git is None:
        raise UserError("--commit belongs to --git")
    with tempfile.TemporaryDirectory() as scratch:
        fetched = _fetch(request, folder, Path(scratch), say)
        reading.check(fetched.main, fetched.shown(fetched.main))
        files, imported = reading.own_files(fetched.main, fetched.roots)
        proposal = _propose(request, fetched, imported, say)
        if proposal is None:
            known = observing.shipped_libraries()
            proposal = proposals.unobserved(files, tuple(sorted(known & imported)))
    request.into.mkdir(parents=True, exist_ok=True)
    with staged(folder) as new:
        for name, text in {
            "benchmark.yaml": _benchmark_yaml(request.name, fetched, proposal),
            "voirfile.py": _voirfile(request.name, proposal),
            "requirements.txt": _requirements(fetched, imported),
            "README.md": _readme(request.name, str(folder), fetched, proposal),
        }.items():
            (new / name).write_text(text, encoding="utf-8")
    return proposal


def _fetch(request: NewRequest, folder: Path, scratch: Path, say: Say) -> Fetched:
    base, run = request.base, request.run
    if request.package is not None:
        return fetching.package(request.package, run, base, scratch, say)
    if request.git is not None:
        return fetching.repository(request.git, request.commit, run, base, scratch, say)
    assert request.script is not None
    return fetching.script(request.script, run, folder)


def _propose(
    request: NewRequest, fetched: Fetched, imported: set[str], say: Say
) -> Proposal | None:
    """What a run of the program shows, confirmed by a second run; None if it is not run, or fails."""
    if request.seconds is None:
        return None
    say(f"running {fetched.target.run} for at most {request.seconds} s, to see its training loops")
    try:
        seen = observing.observe(fetched, request.seconds)
        direct = tuple(name for name in seen.libraries if name in imported)
        if direct:  # else only its libraries import any
            seen = replace(seen, libraries=direct)
        proposal = proposals.propose(fetched, seen)
        if proposal.lines:
            say("running it again with the voirfile, to see that each line does what it should")
            text = _voirfile(request.name, proposal)
            again = observing.observe(fetched, request.seconds, text)
            proposal = proposals.confirmed(proposal, again)
        return proposal
    except Failed as error:
        say(f"its loops are not named, since the run failed:\n{indented(str(error), '  ')}")
        return None


TEXT_WIDTH = 96


def _benchmark_yaml(name: str, fetched: Fetched, proposal: Proposal) -> str:
    """``benchmark.yaml``."""
    origin = next(iter(fetched.origin.values()))
    settings: dict[str, Any] = {"description": f"{fetched.target.run} of {origin}"}
    settings |= {"origin": fetched.origin, "run": fetched.target.run}
    # Benchmarks of one definition, as those of a matrix are, need one environment.
    settings["install_group"] = name
    if fetched.folder:
        settings["folder"] = fetched.folder
    settings["argv"] = fetched.target.argv()
    skip = min(observing.SKIP, proposal.steps // 4)
    settings["voir"] = {"options": {"skip": skip, "stop": proposal.steps - skip}}
    settings |= {"plan": {"method": "per_gpu"}, "weight": 1.0, "max_duration": 600}
    settings["tags"] = []
    text = yaml.safe_dump(settings, sort_keys=False, allow_unicode=True, width=TEXT_WIDTH)
    return f"# {name}: every key is explained in docs/suites.md and docs/new-benchmark.md\n{text}"


def _voirfile(name: str, proposal: Proposal) -> str:
    """``voirfile.py``."""
    what = "Steps and losses" if proposal.lines else "What is to be known"
    how = "its loop was seen in a run of it" if proposal.places else "see below"
    body: list[str] = []
    place = ""
    for line in proposal.lines:
        if line.place and line.place != place:
            place = line.place
            body += _comment(place)
        body.append(line.text())
    for remark in proposal.remarks:
        text = [*_comment(remark.place), *_comment(remark.text)]
        body += ["", *text] if body else text
    if not proposal.lines:
        body.append("yield ov.phases.load_script")
    indented = textwrap.indent("\n".join(body), "    ", lambda text: bool(text.strip()))
    return f'"""{what} of {name}: {how}."""\n\n\ndef instrument_training(ov):\n{indented}\n'


def _comment(text: str) -> list[str]:
    return textwrap.wrap(text, TEXT_WIDTH, initial_indent="# ", subsequent_indent="# ")


def _requirements(fetched: Fetched, modules: Iterable[str]) -> str:
    """``requirements.txt``; ``modules`` are those that the program imports and are not its own."""
    if fetched.requirements:
        head = "# What the repository's own requirements.txt says at that commit."
        return "\n".join([head, *fetched.requirements]) + "\n"
    if "package" in fetched.origin or "install" in fetched.origin:
        return (
            "# It is installed with what it needs, and locked (BASE/venv/GROUP.lock.txt).\n"
            "# Here belongs what it needs besides, or in certain versions: torch first, whose\n"
            "# default build brings gigabytes along.\n"
        )
    return "\n".join(["# What its source imports.", *_packages(modules)]) + "\n"


def _packages(names: Iterable[str]) -> list[str]:
    """Lines of requirements for imported modules: the packages that have them here, in their versions."""
    packages_of = importlib.metadata.packages_distributions()
    lines: dict[str, None] = {}
    for name in sorted(names):
        packages = packages_of.get(name) or []
        if packages:
            version = importlib.metadata.version(packages[0]).partition("+")[0]
            lines[f"{packages[0]}=={version}"] = None
        else:
            lines[f"# {name}: which package brings it?"] = None
    return list(lines)


def _readme(name: str, written: str, fetched: Fetched, proposal: Proposal) -> str:
    """``README.md``; ``written`` is the benchmark's folder, relative to the current one."""
    from_where = "\n".join(f"- {key}: `{value}`" for key, value in fetched.origin.items())
    loops = "\n".join(f"- `{place}`" for place in proposal.places)
    if not loops:
        loops = "\n".join(f"- {remark.place or remark.text}" for remark in proposal.remarks)
    return f"""\
# {name}

`{fetched.target.run}`, unmodified, from

{from_where}

Its loop:

{loops}

A step is one update of the weights; what counts as an item is the leading dimension of what the
model is called with, unless `voirfile.py` says otherwise.

```yaml
# suite.yaml
{name}:
  definition: {written}
```

```
inject suite install suite.yaml
inject suite prepare suite.yaml
inject suite run suite.yaml
```
"""
