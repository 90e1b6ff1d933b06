"""Filling an environment with pip or uv, and saying why it could not be done."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Protocol

from . import locks, network, python
from .itself import Itself
from .locks import Lock
from .making import CommandFailed, Failed, call, write
from .requirements import Asked, Line, normal

_CONFLICT = re.compile(r"ResolutionImpossible|conflicting dependencies|No solution found")


class Tool(Protocol):
    """What installs packages into one environment."""

    def resolve(self, asked: Mapping[str, Asked], own: Itself, digest: str) -> Lock:
        """Install what benchmarks want, with this package; gives what that came to."""

    def repeat(self, lock: Lock, own: Itself) -> None:
        """Install exactly what ``lock`` says, and this package."""

    def itself(self, own: Itself) -> None:
        """Install this package again."""


def tool(environment: Path, how: str) -> Tool:
    """pip or uv, for an environment."""
    return _Uv(environment) if how == "uv" else _Pip(environment)


def beside(environment: Path, ending: str) -> Path:
    """A file of an environment that outlives it."""
    return environment.with_name(f"{environment.name}.{ending}")


class _Common:
    """What both do in the same way."""

    def __init__(self, environment: Path) -> None:
        self.environment = environment
        self.python = python.of(environment)
        self.base = environment.parent.parent
        self.log = beside(environment, "log")

    def call(self, *words: str | Path) -> None:
        call(words, environ=python.environ(), log=self.log)

    def wanted(self, asked: Mapping[str, Asked], own: Itself) -> Path:
        """A requirements file of all that is wanted."""
        lines = [own.requirement]
        for name, each in asked.items():
            lines += [f"# {name}", *(f"-r {file}" for file in each.files), *each.lines]
        file = beside(self.environment, "requirements.txt")
        write(file, "\n".join(dict.fromkeys(lines)) + "\n")
        return file

    def lock(self, digest: str, asked: Mapping[str, Asked], pins: Iterable[str]) -> Lock:
        options = dict.fromkeys(option for each in asked.values() for option in each.options())
        return Lock(digest, tuple(options), tuple(pins))

    def part(self, lock: Lock, pins: list[str]) -> Path:
        """Some of the lines of a lock, as a file."""
        file = self.environment / "lock.txt"
        write(file, "\n".join([*lock.options, *pins]) + "\n")
        return file


class _Pip(_Common):
    def install(self, *words: str | Path) -> None:
        quiet = ("--progress-bar", "off", "--no-warn-script-location")
        pip = python.pip(self.base)
        self.call(*pip, "--python", self.python, "install", *quiet, *words)

    def resolve(self, asked: Mapping[str, Asked], own: Itself, digest: str) -> Lock:
        report = self.environment / "report.json"
        try:
            self.install("--report", report, "-r", self.wanted(asked, own))
        except CommandFailed as error:
            raise explained(error, asked, self.log) from None
        told = json.loads(report.read_text(encoding="utf-8"))
        report.unlink()
        return self.lock(digest, asked, locks.of_report(told))

    def repeat(self, lock: Lock, own: Itself) -> None:
        try:
            if lock.hashed:
                file = self.part(lock, lock.hashed)
                self.install("--no-deps", "--require-hashes", "-r", file)
            if lock.unhashed:
                self.install("--no-deps", "-r", self.part(lock, lock.unhashed))
            self.itself(own)
        except CommandFailed as error:
            raise _unrepeatable(error, self.environment) from None

    def itself(self, own: Itself) -> None:
        self.install("--no-deps", "--force-reinstall", *own.requirement.split(" ", 1))


class _Uv(_Common):
    def uv(self, *words: str | Path) -> None:
        self.call(str(python.find_uv()), "pip", *words, "--python", self.python)

    def install(self, *words: str | Path) -> None:
        self.uv("install", *python.uv_options(), *words)

    def resolve(self, asked: Mapping[str, Asked], own: Itself, digest: str) -> Lock:
        compiled = self.environment / "compiled.txt"
        how = ("--quiet", "--no-header", "--no-annotate", "--generate-hashes", "--output-file")
        wanted = self.wanted(asked, own)
        try:
            self.uv("compile", *python.uv_options(), *how, compiled, wanted)
            pins = locks.of_compiled(compiled.read_text(encoding="utf-8"))
            lock = self.lock(digest, asked, [pin for pin in pins if not _same(pin, own)])
            if lock.pins:
                self.install("--no-deps", "-r", self.part(lock, list(lock.pins)))
            self.itself(own)
        except CommandFailed as error:
            raise explained(error, asked, self.log) from None
        compiled.unlink()
        return lock

    def repeat(self, lock: Lock, own: Itself) -> None:
        try:
            if lock.pins:
                self.install("--no-deps", "-r", self.part(lock, list(lock.pins)))
            self.itself(own)
        except CommandFailed as error:
            raise _unrepeatable(error, self.environment) from None

    def itself(self, own: Itself) -> None:
        self.install("--no-deps", "--reinstall", *own.requirement.split(" ", 1))


def _same(pin: str, own: Itself) -> bool:
    """Whether a line of uv's is this package's checkout."""
    editable = re.fullmatch(r"-e (?:file://)?(.*)", pin)
    return editable is not None and own.requirement == f"-e {editable.group(1)}"


# --- why it could not be done ----------------------------------------------------------------------


def explained(error: CommandFailed, asked: Mapping[str, Asked], log: Path) -> Failed:
    """What the installer said, who asked for it, and what would help."""
    said = [_cut(error.tail) or str(error), f"(all of it: {log})", *_who(error.tail, asked)]
    if _CONFLICT.search(error.tail):
        if len({each.digest for each in asked.values()}) > 1:
            advice = (
                "Give one of them another `install_group`: it then has an environment of its own."
            )
        else:
            advice = "Its own requirements contradict each other, or those of inject."
        return Failed("\n".join([*said, advice]))
    if _unreached(error.tail, log):
        said.append(
            "The package index cannot be reached. Where it can, `pip download -r` the requirements "
            "into a folder; here, set PIP_NO_INDEX=1 and PIP_FIND_LINKS to it."
        )
    return Failed("\n".join(said))


def _unreached(tail: str, log: Path) -> bool:
    """Whether the index could not be asked: of that, pip says only above that it found nothing."""
    if "No matching distribution" in tail and log.is_file():
        tail = log.read_text(encoding="utf-8", errors="replace")
    return network.missing(tail)


def _cut(tail: str) -> str:
    """What the installer said from its first mistake on."""
    lines = tail.splitlines()
    for number, line in enumerate(lines):
        if re.match(r"\s*(ERROR|error|×|  ×)", line):
            return "\n".join(lines[number:])
    return tail


def _who(tail: str, asked: Mapping[str, Asked]) -> list[str]:
    """Who asks for the packages that the installer speaks of: those with several wishes first."""
    spoken = {normal(word) for word in re.findall(r"[A-Za-z0-9][A-Za-z0-9._-]*[A-Za-z0-9]", tail)}
    wishes: dict[str, dict[str, list[str]]] = {}
    for name, each in asked.items():
        for line in each.each():
            if line.project in spoken:
                by = wishes.setdefault(line.project, {}).setdefault(line.wanted, [])
                by.append(_place(name, line))
    several = {project: wish for project, wish in wishes.items() if len(wish) > 1} or wishes
    return [
        f"{project}: "
        + ", ".join(f"{wanted or 'any'} ({'; '.join(by[:4])})" for wanted, by in wish.items())
        for project, wish in list(several.items())[:8]
    ]


def _place(name: str, line: Line) -> str:
    return f"{name}, {line.file.name}:{line.number}" if line.number else name


def _unrepeatable(error: CommandFailed, environment: Path) -> Failed:
    text = _cut(error.tail) or str(error)
    lock = beside(environment, "lock.txt")
    advice = (
        "The package index cannot be reached."
        if network.missing(error.tail)
        else "inject suite install --update looks for versions anew."
    )
    return Failed(f"what {lock} says cannot be installed any more\n{text}\n{advice}")
