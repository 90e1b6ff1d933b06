"""Environments, and the installers that fill them: uv if the machine has it, else pip.

The first installation of a group resolves what its benchmarks require (:meth:`Installer.resolve`) and pins
every package in a :class:`.Lock`. All later ones, on this machine or another, install exactly that
(:meth:`Installer.repeat`), so that two results differ in nothing but the machine.
"""

from __future__ import annotations

import ast
import functools
import importlib.metadata
import json
import os
import re
import shutil
import sys
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path

from . import commands, folders, requirements
from .commands import CommandFailed, Failed, call, staged, write
from .own_package import OwnPackage
from .requirements import Lock, Requirements, normal_name

INSTALLERS = ("uv", "pip")
_FIRST_PIP = (22, 3)
"""The first version of pip with ``--python`` (install into another environment) and ``--report``."""
_ELSEWHERE = (
    *("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "CONDA_PREFIX", "__PYVENV_LAUNCHER__"),
    *("PIP_USER", "PIP_TARGET", "PIP_PREFIX", "PIP_REQUIRE_VIRTUALENV", "PIP_REQUIREMENT"),
)
"""Variables that make an installer read or write packages elsewhere than in its environment."""


@functools.lru_cache(folders.MANY)
def interpreter_of(environment: Path) -> Path:
    return environment / "bin" / "python"


def find_uv() -> str | None:
    """The path of uv: the one on PATH, or the one that was installed beside this package; None without."""
    return shutil.which("uv") or shutil.which("uv", path=str(Path(sys.executable).parent))


def choose_installer(wanted: str | None = None) -> str:
    """The installer to use, ``uv`` or ``pip``: the one that is ``wanted``, else the one that there is.

    Raises Failed if ``wanted`` is uv, and the machine has none.
    """
    if wanted == "uv" and find_uv() is None:
        raise Failed("there is no uv on this machine: install it, or leave --installer out")
    return wanted or ("uv" if find_uv() else "pip")


def pip(base: Path) -> list[str]:
    """The words that start a pip which is new enough: this interpreter's, else one made below ``base``.

    Raises Failed if there is none, and none could be made.
    """
    if _pip_version() >= _FIRST_PIP:
        return [sys.executable, "-m", "pip"]
    own = folders.cache(base) / "pip"
    if not interpreter_of(own).exists():
        # An environment can be moved as long as only its Python is used: its scripts have the old path.
        with staged(own) as new:
            try:
                call([sys.executable, "-m", "venv", new], environ=installer_environ())
                call(
                    [interpreter_of(new), "-m", "pip", "install", "--upgrade", "pip"],
                    environ=installer_environ(),
                )
            except CommandFailed as error:
                raise Failed(f"a newer pip is needed and cannot be had: {error}") from None
    return [str(interpreter_of(own)), "-m", "pip"]


def _pip_version() -> tuple[int, ...]:
    """Major and minor version of this interpreter's pip; zeros if it has none."""
    try:
        return tuple(map(int, re.findall(r"\d+", importlib.metadata.version("pip"))[:2]))
    except importlib.metadata.PackageNotFoundError:
        return (0, 0)


def make_environment(environment: Path, how: str) -> None:
    """Make an empty environment, and remove what is there in its place; ``how`` is ``uv`` or ``pip``.

    Raises Failed if it cannot be made.
    """
    folders.remove(environment)
    environment.parent.mkdir(parents=True, exist_ok=True)
    try:
        if how == "uv":
            call([str(find_uv()), "venv", "--quiet", "--python", sys.executable, environment])
        else:
            call(
                [sys.executable, "-m", "venv", "--without-pip", environment],
                environ=installer_environ(),
            )
    except CommandFailed as error:
        raise Failed(f"{environment} cannot be made: {error}") from None


@functools.cache
def uv_options() -> tuple[str, ...]:
    """The options that say where uv looks for packages, so that it finds what pip would find.

    uv does not read pip's settings. They are passed to it, unless it has settings of its own.
    """
    # pip takes the best version of all indexes, uv by default that of the first index with any. With an
    # index of CPU builds beside the main one, the two would install different packages.
    words = ["--index-strategy", "unsafe-best-match"]
    if any(name in os.environ for name in ("UV_INDEX_URL", "UV_DEFAULT_INDEX", "UV_INDEX")):
        return tuple(words)
    try:
        settings = call([sys.executable, "-m", "pip", "config", "list"])
    except CommandFailed:
        return tuple(words)
    for name, text in re.findall(
        r"^(?:global|install|:env:)\.(\S+?)=('.*'|\".*\")$", settings, re.M
    ):
        value = str(ast.literal_eval(text))
        if name in ("index-url", "extra-index-url", "find-links"):
            words += [word for place in value.split() for word in ("--" + name, place)]
        elif name == "no-index" and value.lower() in ("1", "true", "yes", "on"):
            words.append("--no-index")
    return tuple(words)


def installer_environ() -> dict[str, str]:
    """The environment variables for an installer: none of them points to packages elsewhere."""
    kept = {name: value for name, value in os.environ.items() if name not in _ELSEWHERE}
    return kept | {
        "PYTHONNOUSERSITE": "1",
        "PIP_NO_INPUT": "1",
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    }


_CONFLICT = re.compile(r"ResolutionImpossible|conflicting dependencies|No solution found")


def tool_for(environment: Path, how: str) -> Installer:
    """The installer ``how``, ``uv`` or ``pip``, for an environment."""
    return _Uv(environment) if how == "uv" else _Pip(environment)


def file_beside(environment: Path, ending: str) -> Path:
    """The path of a file about an environment, which stays when that is removed or made anew."""
    return environment.with_name(f"{environment.name}.{ending}")


class Installer(ABC):
    """Installs packages into one environment, and logs what pip or uv prints beside it."""

    reinstall: str
    """The option that installs a package even if it is installed already."""

    def __init__(self, environment: Path) -> None:
        self.environment = environment
        self.python = interpreter_of(environment)
        self.base = environment.parent.parent
        self.log = file_beside(environment, "log")

    @abstractmethod
    def install(self, *words: str | Path) -> None:
        """Run the installer's ``install`` with these words. Raises CommandFailed."""

    @abstractmethod
    def install_resolved(
        self, requirements_file: Path, own: OwnPackage, options: Sequence[str]
    ) -> list[str]:
        """Install what a requirements file lists, and return the lines that pin it. Raises CommandFailed."""

    @abstractmethod
    def install_locked(self, lock: Lock) -> None:
        """Install exactly the pins of ``lock``. Raises CommandFailed."""

    def resolve(self, required: Mapping[str, Requirements], own: OwnPackage, digest: str) -> Lock:
        """Install what benchmarks require, together with this package, and return the pins as a lock.

        ``required`` is by benchmark; ``digest`` identifies it in the lock. Raises Failed, which explains
        which benchmarks require what the installer complains about.
        """
        options = dict.fromkeys(
            option for requirement in required.values() for option in requirement.options()
        )
        try:
            pins = self.install_resolved(self.write_requirements(required, own), own, list(options))
        except CommandFailed as error:
            raise _explained(error, required, self.log) from None
        return Lock(digest, tuple(options), tuple(pins))

    def repeat(self, lock: Lock, own: OwnPackage) -> None:
        """Install exactly the pins of ``lock``, and this package.

        Raises Failed if a pinned package cannot be installed any more.
        """
        try:
            self.install_locked(lock)
            self.install_own(own)
        except CommandFailed as error:
            raise _unrepeatable(error, self.environment) from None

    def install_own(self, own: OwnPackage) -> None:
        """Install this package, even if it is installed: its version may not have changed with its files."""
        self.install("--no-deps", self.reinstall, *own.requirement.split(" ", 1))

    def install_pins(self, options: Sequence[str], pins: Sequence[str], *how: str) -> None:
        """Install some lines of a lock, without their dependencies: a lock has these as lines of its own."""
        if pins:
            file = self.environment / "lock.txt"
            write(file, "\n".join([*options, *pins]) + "\n")
            self.install("--no-deps", *how, "-r", file)

    def call(self, *words: str | Path) -> None:
        call(words, environ=installer_environ(), log=self.log)

    def write_requirements(self, required: Mapping[str, Requirements], own: OwnPackage) -> Path:
        """Write a requirements file of all that benchmarks require, and return its path."""
        lines = [own.requirement]
        for name, requirement in required.items():
            files = (f"-r {file}" for file in requirement.files)
            lines += [f"# {name}", *files, *requirement.lines]
            if requirement.constraints:
                # uv ignores the indexes that a file of constraints names, so that they are written here.
                constraints = (f"-c {file}" for file in requirement.constraints)
                lines += [*requirement.options(), *constraints]
        file = file_beside(self.environment, "requirements.txt")
        write(file, "\n".join(dict.fromkeys(lines)) + "\n")
        return file


class _Pip(Installer):
    reinstall = "--force-reinstall"

    def install(self, *words: str | Path) -> None:
        quiet = ("--progress-bar", "off", "--no-warn-script-location")
        start = pip(self.base)
        self.call(*start, "--python", self.python, "install", *quiet, *words)

    def install_resolved(
        self, requirements_file: Path, own: OwnPackage, options: Sequence[str]
    ) -> list[str]:
        # pip resolves while it installs; its report has the version and the hash of each package.
        report = self.environment / "report.json"
        self.install("--report", report, "-r", requirements_file)
        installed = json.loads(report.read_text(encoding="utf-8"))
        report.unlink()
        return list(requirements.pins_of_report(installed))

    def install_locked(self, lock: Lock) -> None:
        # pip takes hashes for all lines of a file or for none. A repository or a folder has none.
        hashed = [pin for pin in lock.pins if "--hash=" in pin]
        self.install_pins(lock.options, hashed, "--require-hashes")
        self.install_pins(lock.options, [pin for pin in lock.pins if pin not in hashed])


class _Uv(Installer):
    reinstall = "--reinstall"

    def uv(self, *words: str | Path) -> None:
        self.call(str(find_uv()), "pip", *words, "--python", self.python)

    def install(self, *words: str | Path) -> None:
        self.uv("install", *uv_options(), *words)

    def install_resolved(
        self, requirements_file: Path, own: OwnPackage, options: Sequence[str]
    ) -> list[str]:
        # uv writes no report of an installation, but resolves without installing, with hashes.
        compiled = self.environment / "compiled.txt"
        how = ("--quiet", "--no-header", "--no-annotate", "--generate-hashes", "--output-file")
        self.uv("compile", *uv_options(), *how, compiled, requirements_file)
        lines = requirements.pins_of_compiled(compiled.read_text(encoding="utf-8"))
        # A checkout of this package lies elsewhere on each machine: no lock has it.
        pins = [pin for pin in lines if re.sub("^-e file://", "-e ", pin) != own.requirement]
        self.install_pins(options, pins)
        self.install_own(own)
        compiled.unlink()
        return pins

    def install_locked(self, lock: Lock) -> None:
        self.install_pins(lock.options, lock.pins)


# --- why packages could not be installed -----------------------------------------------------------


def _explained(error: CommandFailed, required: Mapping[str, Requirements], log: Path) -> Failed:
    """The installer's message, with the benchmarks that require what it names, and with advice."""
    lines = [
        _cut(error.tail) or str(error),
        f"(all of it: {log})",
        *_requesters(error.tail, required),
    ]
    if _CONFLICT.search(error.tail):
        advice = "Its own requirements contradict each other, or those of inject."
        if len({requirement.digest for requirement in required.values()}) > 1:
            advice = (
                "Give one of them another `install_group`: it then has an environment of its own."
            )
        return Failed("\n".join([*lines, advice]))
    # pip warns of each try to reach the index first, and ends with a message that it found nothing.
    tail = error.tail
    if "No matching distribution" in tail and log.is_file():
        tail = log.read_text(encoding="utf-8", errors="replace")
    if commands.network_missing(tail):
        lines.append(
            "The package index cannot be reached. Where it can, `pip download -r` the requirements "
            "into a folder; here, set PIP_NO_INDEX=1 and PIP_FIND_LINKS to it."
        )
    return Failed("\n".join(lines))


def _cut(tail: str) -> str:
    """The installer's message from its first error on."""
    lines = tail.splitlines()
    for number, line in enumerate(lines):
        if re.match(r"\s*(ERROR|error|×|  ×)", line):
            return "\n".join(lines[number:])
    return tail


def _requesters(tail: str, required: Mapping[str, Requirements]) -> list[str]:
    """A line for each package that the message names: which benchmarks require which version of it.

    If some packages are required in several versions, the conflict is among these, and only they are listed.
    """
    named = {
        normal_name(word) for word in re.findall(r"[A-Za-z0-9][A-Za-z0-9._-]*[A-Za-z0-9]", tail)
    }
    versions: dict[str, dict[str, list[str]]] = {}
    for name, requirement in required.items():
        for line in requirement.packages():
            if line.project in named:
                by = versions.setdefault(line.project, {}).setdefault(line.specifier, [])
                by.append(f"{name}, {line.file.name}:{line.number}" if line.number else name)
    several = {
        project: version for project, version in versions.items() if len(version) > 1
    } or versions
    return [
        f"{project}: "
        + ", ".join(f"{wanted or 'any'} ({'; '.join(by[:4])})" for wanted, by in version.items())
        for project, version in list(several.items())[:8]
    ]


def _unrepeatable(error: CommandFailed, environment: Path) -> Failed:
    """Why a lock cannot be installed, with advice."""
    text = _cut(error.tail) or str(error)
    lock = file_beside(environment, "lock.txt")
    advice = (
        "The package index cannot be reached."
        if commands.network_missing(error.tail)
        else "inject suite install --update looks for versions anew."
    )
    return Failed(f"what {lock} says cannot be installed any more\n{text}\n{advice}")
