"""The source of a program that somebody wants a benchmark of."""

from __future__ import annotations

import configparser
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ...errors import UserError
from ..environments import commands, git, origins, sources
from ..environments.commands import CommandFailed, Failed, Say, call
from ..environments.installers import installer_environ, pip
from ..environments.origins import Origin
from .checking import Around
from .modules import find
from .target import Target


@dataclass(frozen=True)
class Fetched:
    """A program's source, and how a benchmark.yaml says where it is from."""

    origin: dict[str, Any]
    around: Around
    main: Path
    """The file that starts it."""
    module: str
    """The module that this file is."""
    target: Target
    folder: str | None
    """Where it runs, as a benchmark.yaml says it."""
    requirements: tuple[str, ...] = field(default=())
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
    if target is not None and target.kind == "script":
        return _archive(pinned, target, base, say)
    commands = _commands(site)
    if target is None:
        raise UserError(f"what of {name} is to run? Say it with --run: {_choices(site, commands)}")
    around = Around(scratch, (site,), _stubs(scratch / "bin", commands))
    if target.kind == "command":
        if target.name not in commands:
            raise UserError(f"{name} has no command {target.name}: {_choices(site, commands)}")
        # What starts is the command; the package's modules are imported by it.
        start = scratch / "bin" / target.name
        return Fetched({"package": pinned}, around, start, "__main__", target, None)
    main, module = _started(target.name, (site,))
    if main is None:
        raise UserError(f"{name} has no module {module}: {_choices(site, commands)}")
    return Fetched({"package": pinned}, around, main, module, target, None)


def _download(pin: str, base: Path, got: Path, site: Path) -> tuple[str, str]:
    """Unpack a package into ``site``; gives its name and version."""
    words = ["download", "--quiet", "--no-deps", "--dest", str(got), pin]
    try:
        call([*pip(base), *words], environ=installer_environ())
    except CommandFailed as error:
        reached = (
            ""
            if not commands.network_missing(error.tail)
            else "\nThe package index cannot be reached."
        )
        raise Failed(f"{pin} cannot be had: {error}{reached}") from None
    (file,) = got.iterdir()
    sources.unpack(file, site)
    if file.suffix != ".whl":  # a source archive has a folder around everything
        (inner,) = (path for path in site.iterdir() if path.is_dir())
        src = inner / "src" if (inner / "src").is_dir() else inner
        for path in list(src.iterdir()):
            path.rename(site / path.name)
    parts = re.match(r"(.+?)-(\d[^-]*?)(\.tar\.gz|\.zip|-.*\.whl)$", file.name)
    return (parts.group(1), parts.group(2)) if parts else (pin, "")


def _archive(pin: str, target: Target, base: Path, say: Say) -> Fetched:
    """A script that only the source archive of a package has."""
    origin = Origin(re.split(r"[\[=]", pin)[0], archive=pin)
    sources.install_source(origin, base, say)
    told = {"package": pin, "archive": True}
    return _in_tree(told, origin.folder(base), target)


def repository(
    url: str, commit: str | None, target: Target | None, base: Path, say: Say
) -> Fetched:
    """A git repository at a commit; without one, where its HEAD is now.

    Raises:
        UserError: it has no such script or module.
        Failed: it cannot be had.
    """
    where = url if re.match(r"[a-z+]+://|[^/]+@[^/]+:", url) else str(Path(url).absolute())
    if commit is None or not git.COMMIT.fullmatch(commit):
        named = commit or "HEAD"
        commit = git.where_is(where, named)
        if commit is None:
            raise Failed(f"{url}: where {named} is cannot be told; name a commit with --commit")
        say(f"{named} of {url} is at {commit}")
    name = re.split(r"[/:]", url.rstrip("/"))[-1].removesuffix(".git") or "source"
    origin = origins.Origin(name, git=where, commit=commit)
    sources.install_source(origin, base, say)
    tree = origin.folder(base)
    told: dict[str, Any] = {"git": where, "commit": commit}
    if (tree / "pyproject.toml").is_file() or (tree / "setup.py").is_file():
        told["install"] = True  # with what it says it needs
    found = _in_tree(told, tree, target)
    lines = () if "install" in told else _requirements(tree)
    return Fetched(**{**vars(found), "requirements": lines})


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


def _in_tree(told: dict[str, Any], tree: Path, target: Target | None) -> Fetched:
    """A script or module in a folder that the program runs in."""
    roots = [tree, *([tree / "src"] if (tree / "src").is_dir() else [])]
    if target is None:
        scripts = sorted(str(p.relative_to(tree)) for p in tree.glob("*.py"))
        there = f" ({', '.join(scripts[:12])})" if scripts else ""
        raise UserError(f"which script is to run? Say it with --run{there}")
    if target.kind == "script":
        main: Path | None = tree / target.name
        module = target.name.removesuffix(".py").replace("/", ".")
    else:
        main, module = _started(target.name, roots)
    if main is None or not main.is_file():
        raise UserError(f"--run {target.run}: there is no such {target.kind} in {tree}")
    own = (main.parent, *roots) if target.kind == "script" else tuple(roots)
    around = Around(tree, tuple(dict.fromkeys(own)))
    return Fetched(told, around, main, module, target, "{source}")


def _started(module: str, roots: Sequence[Path]) -> tuple[Path | None, str]:
    """The file that ``-m MODULE`` runs, and the module that it is."""
    main = find(module, roots)
    if main is not None and main.name == "__init__.py":
        return find(f"{module}.__main__", roots), f"{module}.__main__"
    return main, module


# --- commands of packages ---------------------------------------------------------------------------


def _commands(site: Path) -> dict[str, str]:
    """The commands of a package that was unpacked, with what they call: ``pkg.cli:main``."""
    for file in site.glob("*.dist-info/entry_points.txt"):
        parser = configparser.ConfigParser(delimiters=("=",), strict=False)
        parser.optionxform = str  # type: ignore[assignment,method-assign]
        parser.read_string(file.read_text(encoding="utf-8"))
        if parser.has_section("console_scripts"):
            return dict(parser.items("console_scripts"))
    return {}


def _stubs(folder: Path, commands: dict[str, str]) -> Path:
    """The commands as an installer would write them, to be read."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, called in commands.items():
        module, _, function = called.partition("[")[0].strip().partition(":")
        text = f"#!/usr/bin/env python\nfrom {module} import {function}\n{function}()\n"
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
