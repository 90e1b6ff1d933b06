"""How the program of a new benchmark is started, and where its source is from."""

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
from ..config.functions import read_number
from ..config.templates import render_args
from ..environments import commands, git, origins, sources
from ..environments.commands import CommandFailed, Failed, Say, call
from ..environments.installers import installer_environ, pip
from ..environments.origins import Origin
from .reading import find


@dataclass(frozen=True)
class Target:
    """The command that starts a program: ``-m pkg.train sub --lr 0.1``."""

    kind: str
    """``module``, ``script`` or ``command``."""
    name: str
    """``pkg.train``, ``train.py`` or ``trl``."""
    words: tuple[str, ...] = ()
    """Arguments before the first option, such as a subcommand."""
    options: tuple[str, ...] = ()
    """The first option or setting (``size=3``), and all arguments after it."""

    @property
    def run(self) -> str:
        """The start of the command, as ``run`` in a benchmark.yaml has it."""
        return shlex.join(self._start())

    def command(self) -> list[str]:
        """The whole command, as ``inject run`` and ``inject check`` take it."""
        return [*self._start(), *self.options]

    def _start(self) -> list[str]:
        return [*(["-m"] if self.kind == "module" else []), self.name, *self.words]

    def argv(self) -> dict[str, Any] | list[str]:
        """The options, as ``argv`` in a benchmark.yaml has them: {"--lr": "0.1", "--amp": True, "a=": "3"}.

        A list of words where a map would make other words of them: an option that stands twice, several
        values of one.
        """
        argv: dict[str, Any] = {}
        name = ""
        for word in self.options:
            key, is_assigned, value = word.partition("=")
            if is_assigned and key and (key.startswith("-") or _ASSIGNED.match(word)):
                argv[f"{key}="] = value
                name = ""
            elif word.startswith("-") and read_number(word) is None:
                name = word
                argv[name] = True
            elif name and argv[name] is True:
                argv[name] = word
            else:
                argv.setdefault("--", []).append(word)
        words = render_args({"argv": argv}, lambda path, text: None)
        return argv if words == list(self.options) else list(self.options)


_ASSIGNED = re.compile(r"[+~]*[A-Za-z_][\w.@/-]*=")
"""How a setting begins that is a word by itself, as Hydra has them: ``+model.size=3``."""


def parse(text: str) -> Target:
    """Parse the argument of ``--run``. Raises UserError if it names no program."""
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise UserError(f"--run {text!r}: {error}") from None
    is_module = words[:1] == ["-m"]
    if is_module:
        words = words[1:]
    if not words or words[0].startswith("-"):
        raise UserError(f"--run {text!r}: write a script, `-m MODULE`, or a command of the package")
    first = next(
        (
            n
            for n, word in enumerate(words)
            if word.startswith("-") or (n and _ASSIGNED.match(word))
        ),
        len(words),
    )
    kind = "module" if is_module else "script" if words[0].endswith(".py") else "command"
    return Target(kind, words[0], tuple(words[1:first]), tuple(words[first:]))


@dataclass(frozen=True)
class Fetched:
    """The source of a program, ready to run."""

    origin: dict[str, Any]
    """``origin`` of its benchmark.yaml."""
    target: Target
    main: Path
    """The file that starts it."""
    working_folder: Path
    roots: tuple[Path, ...]
    """Where its modules are looked for before those that are installed."""
    folder: str | None
    """``folder`` of its benchmark.yaml: where it runs."""
    commands: tuple[Path, ...] = ()
    """Folders with its commands, if they are not installed."""
    requirements: tuple[str, ...] = ()
    """The lines of its own requirements file."""

    def shown(self, file: Path) -> str:
        """``file`` for messages: what is copied or unpacked for the run is gone after it."""
        if "path" in self.origin:
            return str(file)
        roots = [root for root in self.roots if file.is_relative_to(root)]
        return str(file.relative_to(roots[-1])) if roots else file.name


def package(pin: str, target: Target | None, base: Path, scratch: Path, say: Say) -> Fetched:
    """Fetch a package from the registry; without a version, the newest.

    ``base`` is the base folder, which keeps archives; what is written into ``scratch`` is not kept. Raises
    UserError if ``pin`` is no package, ``target`` is None, or the package has no such module or command.
    Raises Failed if it cannot be downloaded.
    """
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*(\[[^\]]*\])?(==\S+)?", pin):
        raise UserError(f"--package {pin!r}: write NAME==VERSION, or NAME for the newest")
    say(f"fetching {pin}")
    site, metadata = scratch / "site", scratch / "metadata"
    name, version = _download(pin, base, scratch / "got", site)
    pinned = pin if "==" in pin else f"{pin}=={version}"
    if target is not None and target.kind == "script":  # only the source archive has scripts
        origin = Origin(re.split(r"[\[=]", pinned)[0], archive=pinned)
        sources.install_source(origin, base, say)
        declared = {"package": pinned, "archive": True}
        return _from_folder(declared, _copy(origin, base, scratch), target)
    # A folder with such metadata is taken for installed packages, whose lines are not those of the program.
    metadata.mkdir()
    for path in site.glob("*.dist-info"):
        path.rename(metadata / path.name)
    distributions = importlib.metadata.distributions(path=[str(site), str(metadata)])
    points = [point for each in distributions for point in each.entry_points]
    # By the command's name the function that it calls: ``pkg.cli:main``.
    commands = {each.name: each.value for each in points if each.group == "console_scripts"}
    if target is None:
        raise UserError(f"what of {name} is to run? Say it with --run: {_choices(site, commands)}")
    if target.kind == "command":
        if target.name not in commands:
            raise UserError(f"{name} has no command {target.name}: {_choices(site, commands)}")
        start: Path | None = _write_commands(scratch / "bin", commands) / target.name
    else:
        start = _started_file(target.name, (site,))
    if start is None:
        raise UserError(f"{name} has no module {target.name}: {_choices(site, commands)}")
    work = scratch / "work"
    work.mkdir()
    roots = (site, metadata)
    return Fetched({"package": pinned}, target, start, work, roots, None, (scratch / "bin",))


def _download(pin: str, base: Path, got: Path, site: Path) -> tuple[str, str]:
    """Download a package to ``got``, and unpack it into ``site``; returns its name and version."""
    words = ["download", "--quiet", "--no-deps", "--dest", str(got), pin]
    try:
        call([*pip(base), *words], environ=installer_environ())
    except CommandFailed as error:
        missing = commands.network_missing(error.tail)
        why = "\nThe package index cannot be reached." if missing else ""
        raise Failed(f"{pin} cannot be had: {error}{why}") from None
    (file,) = got.iterdir()
    sources.unpack(file, site)
    if file.suffix != ".whl":  # a source archive has a folder around everything
        (inner,) = (path for path in site.iterdir() if path.is_dir())
        src = inner / "src" if (inner / "src").is_dir() else inner
        for path in list(src.iterdir()):
            path.rename(site / path.name)
    parts = re.match(r"(.+?)-(\d[^-]*?)(\.tar\.gz|\.zip|-.*\.whl)$", file.name)
    return (parts.group(1), parts.group(2)) if parts else (pin, "")


def _copy(origin: Origin, base: Path, scratch: Path) -> Path:
    """A copy of an installed source in ``scratch``: the program may write to its folder."""
    source = origin.folder(base)
    ignored = shutil.ignore_patterns(".git")
    return Path(shutil.copytree(source, scratch / source.name, symlinks=True, ignore=ignored))


def repository(
    url: str, commit: str | None, target: Target | None, base: Path, scratch: Path, say: Say
) -> Fetched:
    """Fetch a git repository at a commit; without one, at its present HEAD.

    Raises UserError if ``target`` is None, or the repository has no such script or module. Raises Failed if
    it cannot be cloned, or has no such commit.
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
        declared["install"] = True  # with the requirements that it declares
    fetched = _from_folder(declared, tree, target)
    lines = () if "install" in declared else _requirements(tree)
    return replace(fetched, requirements=lines)


def _requirements(tree: Path) -> tuple[str, ...]:
    """The lines of ``requirements.txt`` in a repository, without comments; () if it has none."""
    file = tree / "requirements.txt"
    if not file.is_file():
        return ()
    lines = file.read_text(encoding="utf-8", errors="replace").splitlines()
    return tuple(line.strip() for line in lines if line.strip() and not line.startswith("#"))


def script(path: Path, target: Target | None, destination: Path) -> Fetched:
    """Take a script of this machine, which is used where it is.

    ``destination`` is the folder of the benchmark, from which its path is written. Raises UserError if there
    is no such file.
    """
    if not path.is_file():
        raise UserError(f"--script {path}: there is no such file")
    folder = path.absolute().parent
    named = Target("script", path.name, *(() if target is None else (target.words, target.options)))
    try:
        shown = os.path.relpath(folder, destination)
    except ValueError:
        shown = str(folder)
    return _from_folder({"path": shown}, folder, named)


def _from_folder(declared: dict[str, Any], tree: Path, target: Target | None) -> Fetched:
    """The script or module ``target`` in the folder ``tree``, in which it runs. Raises UserError."""
    roots = [tree, *([tree / "src"] if (tree / "src").is_dir() else [])]
    if target is None:
        scripts = sorted(str(path.relative_to(tree)) for path in tree.glob("*.py"))
        choices = f" ({', '.join(scripts[:12])})" if scripts else ""
        raise UserError(f"which script is to run? Say it with --run{choices}")
    main = tree / target.name if target.kind == "script" else _started_file(target.name, roots)
    if main is None or not main.is_file():
        where = next(iter(declared.values()))
        raise UserError(f"--run {target.run}: there is no such {target.kind} in {where}")
    own = [main.parent, *roots] if target.kind == "script" else roots
    return Fetched(declared, target, main, tree, tuple(dict.fromkeys(own)), "{source}")


def _started_file(module: str, roots: Sequence[Path]) -> Path | None:
    """The file that ``-m MODULE`` runs, or None."""
    main = find(module, roots)
    if main is not None and main.name == "__init__.py":
        return find(f"{module}.__main__", roots)
    return main


# --- commands of packages ---------------------------------------------------------------------------


def _write_commands(folder: Path, commands: dict[str, str]) -> Path:
    """Write ``commands`` into ``folder`` as an installer would; returns the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, called in commands.items():
        module, _, function = called.partition("[")[0].strip().partition(":")
        text = f"#!{sys.executable}\nfrom {module} import {function}\n{function}()\n"
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    return folder


def _choices(site: Path, commands: dict[str, str]) -> str:
    """The commands and modules of a package that can be run, for a message."""
    startable = [
        f"-m {'.'.join(file.parent.relative_to(site).parts)}"
        for file in sorted(site.rglob("__main__.py"))
    ]
    trainers = [
        f"-m {'.'.join(file.relative_to(site).with_suffix('').parts)}"
        for file in sorted(site.rglob("*train*.py"))
        if "__main__" in file.read_text(encoding="utf-8", errors="replace")
    ]
    choices = [*commands, *startable, *trainers][:16]
    return "there is " + ", ".join(choices) if choices else "nothing in it looks like a program"
