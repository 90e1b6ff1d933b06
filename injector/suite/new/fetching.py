"""How a program that is to be a benchmark is started, and where its source is from."""

from __future__ import annotations

import importlib.metadata
import os
import re
import shlex
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ...errors import UserError
from ..config.expressions import read_number
from ..environments import archives, commands, git, origins, sources
from ..environments.commands import CommandFailed, Failed, Say, call
from ..environments.installers import installer_environ, pip
from ..environments.origins import Origin
from .reading import find


@dataclass(frozen=True)
class Target:
    """``-m pkg.train sub --lr 0.1``."""

    kind: str
    """``module``, ``script`` or ``command``."""
    name: str
    """``pkg.train``, ``train.py`` or ``trl``."""
    words: tuple[str, ...] = ()
    """What comes before the first option: a command of the program's own, say."""
    options: tuple[str, ...] = ()

    @property
    def run(self) -> str:
        """As ``run`` in a benchmark.yaml has it."""
        start = ["-m"] if self.kind == "module" else []
        return shlex.join([*start, self.name, *self.words])

    def command(self) -> list[str]:
        """As ``inject run`` and ``inject check`` take it."""
        start = ["-m"] if self.kind == "module" else []
        return [*start, self.name, *self.words, *self.options]

    def argv(self) -> dict[str, Any]:
        """The options as ``argv`` in a benchmark.yaml has them."""
        found: dict[str, Any] = {}
        name = ""
        for word in self.options:
            if word.startswith("-") and read_number(word) is None:
                name, _, value = word.partition("=")
                found[name] = value or True
            elif name and found[name] is True:
                found[name] = word
            else:
                found.setdefault("--", []).append(word)
        return found


def parse(text: str) -> Target:
    """Take apart what ``--run`` was given.

    Raises:
        UserError: it names nothing.
    """
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise UserError(f"--run {text!r}: {error}") from None
    module = words[:1] == ["-m"]
    if module:
        words = words[1:]
    if not words or words[0].startswith("-"):
        raise UserError(f"--run {text!r}: write a script, `-m MODULE`, or a command of the package")
    first = next((n for n, word in enumerate(words) if word.startswith("-")), len(words))
    kind = "module" if module else "script" if words[0].endswith(".py") else "command"
    return Target(kind, words[0], tuple(words[1:first]), tuple(words[first:]))


@dataclass(frozen=True)
class Fetched:
    """A program's source, and how a benchmark.yaml says where it is from."""

    origin: dict[str, Any]
    target: Target
    main: Path
    """The file that starts it."""
    working_folder: Path
    roots: tuple[Path, ...]
    """Where its modules are looked for before those that are installed."""
    folder: str | None
    """Where it runs, as a benchmark.yaml says it."""
    commands: tuple[Path, ...] = ()
    """Folders with its commands, where they are not installed."""
    requirements: tuple[str, ...] = ()
    """Lines of a requirements file that came along."""


def package(pin: str, target: Target | None, base: Path, scratch: Path, say: Say) -> Fetched:
    """A package of the registry; without a version, the newest there is.

    Raises:
        UserError: it has no such module or command, or more than one and none was named.
        Failed: it cannot be had.
    """
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*(\[[^\]]*\])?(==\S+)?", pin):
        raise UserError(f"--package {pin!r}: write NAME==VERSION, or NAME for the newest")
    say(f"fetching {pin}")
    name, version = _download(pin, base, scratch / "got", scratch / "site")
    pinned = pin if "==" in pin else f"{pin}=={version}"
    site = scratch / "site"
    if target is not None and target.kind == "script":  # which only the source archive has
        origin = Origin(re.split(r"[\[=]", pinned)[0], archive=pinned)
        sources.install_source(origin, base, say)
        declared = {"package": pinned, "archive": True}
        return _in_tree(declared, _copy(origin, base, scratch), target)
    commands = _commands(site)
    if target is None:
        raise UserError(f"what of {name} is to run? Say it with --run: {_choices(site, commands)}")
    if target.kind == "command":
        if target.name not in commands:
            raise UserError(f"{name} has no command {target.name}: {_choices(site, commands)}")
        start: Path | None = _stubs(scratch / "bin", commands) / target.name
    else:
        start = _started(target.name, (site,))
    if start is None:
        raise UserError(f"{name} has no module {target.name}: {_choices(site, commands)}")
    work = scratch / "work"
    work.mkdir()
    return Fetched({"package": pinned}, target, start, work, (site,), None, (scratch / "bin",))


def _download(pin: str, base: Path, got: Path, site: Path) -> tuple[str, str]:
    """Unpack a package into ``site``; gives its name and version."""
    words = ["download", "--quiet", "--no-deps", "--dest", str(got), pin]
    try:
        call([*pip(base), *words], environ=installer_environ())
    except CommandFailed as error:
        missing = commands.network_missing(error.tail)
        why = "\nThe package index cannot be reached." if missing else ""
        raise Failed(f"{pin} cannot be had: {error}{why}") from None
    (file,) = got.iterdir()
    archives.unpack(file, site)
    if file.suffix != ".whl":  # a source archive has a folder around everything
        (inner,) = (path for path in site.iterdir() if path.is_dir())
        src = inner / "src" if (inner / "src").is_dir() else inner
        for path in list(src.iterdir()):
            path.rename(site / path.name)
    parts = re.match(r"(.+?)-(\d[^-]*?)(\.tar\.gz|\.zip|-.*\.whl)$", file.name)
    return (parts.group(1), parts.group(2)) if parts else (pin, "")


def _copy(origin: Origin, base: Path, scratch: Path) -> Path:
    """A copy of an installed source: what runs in it may write there, and the source must stay as it is."""
    source = origin.folder(base)
    ignored = shutil.ignore_patterns(".git")
    return Path(shutil.copytree(source, scratch / source.name, symlinks=True, ignore=ignored))


def repository(
    url: str, commit: str | None, target: Target | None, base: Path, scratch: Path, say: Say
) -> Fetched:
    """A git repository at a commit; without one, where its HEAD is now.

    Raises:
        UserError: it has no such script or module.
        Failed: it cannot be had.
    """
    where = url if origins.FAR.match(url) else str(Path(url).absolute())
    if commit is None or not git.COMMIT.fullmatch(commit):
        named = commit or "HEAD"
        commit = git.where_is(where, named)
        if commit is None:
            raise Failed(f"{url} has no {named}; name a commit with --commit")
        say(f"{named} of {url} is at {commit}")
    origin = Origin(origins.repository_name(url), git=where, commit=commit)
    sources.install_source(origin, base, say)
    tree = _copy(origin, base, scratch)
    declared: dict[str, Any] = {"git": where, "commit": commit}
    if (tree / "pyproject.toml").is_file() or (tree / "setup.py").is_file():
        declared["install"] = True  # with what it says it needs
    found = _in_tree(declared, tree, target)
    lines = () if "install" in declared else _requirements(tree)
    return replace(found, requirements=lines)


def _requirements(tree: Path) -> tuple[str, ...]:
    """The lines of a repository's own requirements file."""
    file = tree / "requirements.txt"
    if not file.is_file():
        return ()
    lines = file.read_text(encoding="utf-8", errors="replace").splitlines()
    return tuple(line.strip() for line in lines if line.strip() and not line.startswith("#"))


def script(path: Path, target: Target | None, destination: Path) -> Fetched:
    """A script of this machine, used where it is.

    Raises:
        UserError: there is none.
    """
    if not path.is_file():
        raise UserError(f"--script {path}: there is no such file")
    folder = path.absolute().parent
    named = Target("script", path.name, *(() if target is None else (target.words, target.options)))
    try:
        shown = os.path.relpath(folder, destination)
    except ValueError:
        shown = str(folder)
    return _in_tree({"path": shown}, folder, named)


def _in_tree(declared: dict[str, Any], tree: Path, target: Target | None) -> Fetched:
    """A script or module in a folder that the program runs in."""
    roots = [tree, *([tree / "src"] if (tree / "src").is_dir() else [])]
    if target is None:
        scripts = sorted(str(p.relative_to(tree)) for p in tree.glob("*.py"))
        there = f" ({', '.join(scripts[:12])})" if scripts else ""
        raise UserError(f"which script is to run? Say it with --run{there}")
    main = tree / target.name if target.kind == "script" else _started(target.name, roots)
    if main is None or not main.is_file():
        raise UserError(f"--run {target.run}: there is no such {target.kind} in {tree}")
    own = [main.parent, *roots] if target.kind == "script" else roots
    return Fetched(declared, target, main, tree, tuple(dict.fromkeys(own)), "{source}")


def _started(module: str, roots: Sequence[Path]) -> Path | None:
    """The file that ``-m MODULE`` runs."""
    main = find(module, roots)
    if main is not None and main.name == "__init__.py":
        return find(f"{module}.__main__", roots)
    return main


# --- commands of packages ---------------------------------------------------------------------------


def _commands(site: Path) -> dict[str, str]:
    """The commands of a package that was unpacked, with what they call: ``pkg.cli:main``."""
    there = importlib.metadata.distributions(path=[str(site)])
    points = (point for each in there for point in each.entry_points)
    return {point.name: point.value for point in points if point.group == "console_scripts"}


def _stubs(folder: Path, commands: dict[str, str]) -> Path:
    """The commands as an installer would write them, to be read."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, called in commands.items():
        module, _, function = called.partition("[")[0].strip().partition(":")
        text = f"#!{sys.executable}\nfrom {module} import {function}\n{function}()\n"
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    return folder


def _choices(site: Path, commands: dict[str, str]) -> str:
    """What of a package can be run, for a message."""
    startable = [
        f"-m {'.'.join(file.parent.relative_to(site).parts)}"
        for file in sorted(site.rglob("__main__.py"))
    ]
    trainers = [
        f"-m {'.'.join(file.relative_to(site).with_suffix('').parts)}"
        for file in sorted(site.rglob("*train*.py"))
        if "__main__" in file.read_text(encoding="utf-8", errors="replace")
    ]
    found = [*commands, *startable, *trainers][:16]
    return "there is " + ", ".join(found) if found else "nothing in it looks like a program"
