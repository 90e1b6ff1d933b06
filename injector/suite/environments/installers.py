"""Interpreters, and what installs packages into their environments: uv where it is, else pip."""

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
_ABLE = (22, 3)
"""The pip from which on it fills environments of others, and reports what it has done."""
_ELSEWHERE = (
    *("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "CONDA_PREFIX", "__PYVENV_LAUNCHER__"),
    *("PIP_USER", "PIP_TARGET", "PIP_PREFIX", "PIP_REQUIRE_VIRTUALENV", "PIP_REQUIREMENT"),
)


@functools.lru_cache(folders.MANY)
def interpreter_of(environment: Path) -> Path:
    """The interpreter of an environment."""
    return environment / "bin" / "python"


@functools.cache
def current_interpreter() -> Path:
    """The interpreter that runs this."""
    return Path(sys.executable)


def find_uv() -> str | None:
    """The uv of this machine, or the one that was installed beside this package."""
    return shutil.which("uv") or shutil.which("uv", path=str(Path(sys.executable).parent))


def choose_installer(wanted: str | None = None) -> str:
    """``uv`` or ``pip``.

    Raises:
        Failed: ``wanted`` is uv, which is not there.
    """
    if wanted == "uv" and find_uv() is None:
        raise Failed("there is no uv on this machine: install it, or leave --installer out")
    return wanted or ("uv" if find_uv() else "pip")


def pip(base: Path) -> list[str]:
    """The words that start a pip: that of this interpreter, else one that is made for it.

    Raises:
        Failed: there is none, and none could be made.
    """
    if _pip_version() >= _ABLE:
        return [sys.executable, "-m", "pip"]
    own = folders.cache(base) / "pip"
    if not interpreter_of(own).exists():
        with staged(own) as new:  # commands in it are not used, so that it can be moved
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
    try:
        return tuple(map(int, re.findall(r"\d+", importlib.metadata.version("pip"))[:2]))
    except importlib.metadata.PackageNotFoundError:
        return (0, 0)


def make_environment(environment: Path, how: str) -> None:
    """Make an empty environment, in the place of what is there.

    Raises:
        Failed: that is not possible.
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
    """Where uv is to look for packages, so that it finds what pip would.

    uv does not read pip's settings. It is given them unless it has settings of its own.
    """
    words = ["--index-strategy", "unsafe-best-match"]  # as pip: the best of all indexes
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
            words += [word for each in value.split() for word in ("--" + name, each)]
        elif name == "no-index" and value.lower() in ("1", "true", "yes", "on"):
            words.append("--no-index")
    return tuple(words)


def installer_environ() -> dict[str, str]:
    """The environment for what installs: nothing of it says that packages lie elsewhere."""
    kept = {name: value for name, value in os.environ.items() if name not in _ELSEWHERE}
    return kept | {
        "PYTHONNOUSERSITE": "1",
        "PIP_NO_INPUT": "1",
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    }


_CONFLICT = re.compile(r"ResolutionImpossible|conflicting dependencies|No solution found")


def tool_for(environment: Path, how: str) -> Installer:
    """pip or uv, for an environment."""
    return _Uv(environment) if how == "uv" else _Pip(environment)


def file_beside(environment: Path, ending: str) -> Path:
    """A file of an environment that outlives it."""
    return environment.with_name(f"{environment.name}.{ending}")


class Installer(ABC):
    """What installs packages into one environment."""

    again: str
    """The option by which a package is installed that is there already."""

    def __init__(self, environment: Path) -> None:
        self.environment = environment
        self.python = interpreter_of(environment)
        self.base = environment.parent.parent
        self.log = file_beside(environment, "log")

    @abstractmethod
    def install(self, *words: str | Path) -> None: ...

    @abstractmethod
    def resolved(self, wanted: Path, own: OwnPackage, options: Sequence[str]) -> list[str]:
        """Install what a requirements file says; the lines that pin it."""

    @abstractmethod
    def locked(self, lock: Lock) -> None: ...

    def resolve(self, required: Mapping[str, Requirements], own: OwnPackage, digest: str) -> Lock:
        """Install what benchmarks want, with this package; gives what that came to."""
        options = dict.fromkeys(option for each in required.values() for option in each.options())
        try:
            pins = self.resolved(self.wanted(required, own), own, list(options))
        except CommandFailed as error:
            raise _explained(error, required, self.log) from None
        return Lock(digest, tuple(options), tuple(pins))

    def repeat(self, lock: Lock, own: OwnPackage) -> None:
        """Install exactly what ``lock`` says, and this package."""
        try:
            self.locked(lock)
            self.itself(own)
        except CommandFailed as error:
            raise _unrepeatable(error, self.environment) from None

    def itself(self, own: OwnPackage) -> None:
        """Install this package again."""
        self.install("--no-deps", self.again, *own.requirement.split(" ", 1))

    def exactly(self, options: Sequence[str], pins: Sequence[str], *how: str) -> None:
        """Install some lines of a lock, and nothing that they need."""
        if pins:
            file = self.environment / "lock.txt"
            write(file, "\n".join([*options, *pins]) + "\n")
            self.install("--no-deps", *how, "-r", file)

    def call(self, *words: str | Path) -> None:
        call(words, environ=installer_environ(), log=self.log)

    def wanted(self, required: Mapping[str, Requirements], own: OwnPackage) -> Path:
        """A requirements file of all that is wanted."""
        lines = [own.requirement]
        for name, each in required.items():
            lines += [f"# {name}", *(f"-r {file}" for file in each.files), *each.lines]
            if each.constraints:  # uv does not look for packages where they say
                lines += [*each.options(), *(f"-c {file}" for file in each.constraints)]
        file = file_beside(self.environment, "requirements.txt")
        write(file, "\n".join(dict.fromkeys(lines)) + "\n")
        return file


class _Pip(Installer):
    again = "--force-reinstall"

    def install(self, *words: str | Path) -> None:
        quiet = ("--progress-bar", "off", "--no-warn-script-location")
        start = pip(self.base)
        self.call(*start, "--python", self.python, "install", *quiet, *words)

    def resolved(self, wanted: Path, own: OwnPackage, options: Sequence[str]) -> list[str]:
        report = self.environment / "report.json"
        self.install("--report", report, "-r", wanted)
        installed = json.loads(report.read_text(encoding="utf-8"))
        report.unlink()
        return list(requirements.pins_of_report(installed))

    def locked(self, lock: Lock) -> None:
        self.exactly(lock.options, lock.hashed, "--require-hashes")
        self.exactly(lock.options, lock.unhashed)


class _Uv(Installer):
    again = "--reinstall"

    def uv(self, *words: str | Path) -> None:
        self.call(str(find_uv()), "pip", *words, "--python", self.python)

    def install(self, *words: str | Path) -> None:
        self.uv("install", *uv_options(), *words)

    def resolved(self, wanted: Path, own: OwnPackage, options: Sequence[str]) -> list[str]:
        compiled = self.environment / "compiled.txt"
        how = ("--quiet", "--no-header", "--no-annotate", "--generate-hashes", "--output-file")
        self.uv("compile", *uv_options(), *how, compiled, wanted)
        found = requirements.pins_of_compiled(compiled.read_text(encoding="utf-8"))
        pins = [pin for pin in found if not _is_checkout(pin, own)]
        self.exactly(options, pins)
        self.itself(own)
        compiled.unlink()
        return pins

    def locked(self, lock: Lock) -> None:
        self.exactly(lock.options, lock.pins)


def _is_checkout(pin: str, own: OwnPackage) -> bool:
    """Whether a line of uv's is this package's checkout."""
    editable = re.fullmatch(r"-e (?:file://)?(.*)", pin)
    return editable is not None and own.requirement == f"-e {editable.group(1)}"


# --- why it could not be done ----------------------------------------------------------------------


def _explained(error: CommandFailed, required: Mapping[str, Requirements], log: Path) -> Failed:
    """The installer's message, which benchmarks require what, and what would help."""
    lines = [
        _cut(error.tail) or str(error),
        f"(all of it: {log})",
        *_requesters(error.tail, required),
    ]
    if _CONFLICT.search(error.tail):
        if len({each.digest for each in required.values()}) > 1:
            advice = (
                "Give one of them another `install_group`: it then has an environment of its own."
            )
        else:
            advice = "Its own requirements contradict each other, or those of inject."
        return Failed("\n".join([*lines, advice]))
    if _index_missing(error.tail, log):
        lines.append(
            "The package index cannot be reached. Where it can, `pip download -r` the requirements "
            "into a folder; here, set PIP_NO_INDEX=1 and PIP_FIND_LINKS to it."
        )
    return Failed("\n".join(lines))


def _index_missing(tail: str, log: Path) -> bool:
    """Whether the index was not reached: of that, pip's last lines say only that it found nothing."""
    if "No matching distribution" in tail and log.is_file():
        tail = log.read_text(encoding="utf-8", errors="replace")
    return commands.network_missing(tail)


def _cut(tail: str) -> str:
    """The installer's message from its first error on."""
    lines = tail.splitlines()
    for number, line in enumerate(lines):
        if re.match(r"\s*(ERROR|error|×|  ×)", line):
            return "\n".join(lines[number:])
    return tail


def _requesters(tail: str, required: Mapping[str, Requirements]) -> list[str]:
    """Which benchmarks require the packages that the message names: those of several versions first."""
    spoken = {
        normal_name(word) for word in re.findall(r"[A-Za-z0-9][A-Za-z0-9._-]*[A-Za-z0-9]", tail)
    }
    versions: dict[str, dict[str, list[str]]] = {}
    for name, each in required.items():
        for line in each.each():
            if line.project in spoken:
                by = versions.setdefault(line.project, {}).setdefault(line.wanted, [])
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
    text = _cut(error.tail) or str(error)
    lock = file_beside(environment, "lock.txt")
    advice = (
        "The package index cannot be reached."
        if commands.network_missing(error.tail)
        else "inject suite install --update looks for versions anew."
    )
    return Failed(f"what {lock} says cannot be installed any more\n{text}\n{advice}")
