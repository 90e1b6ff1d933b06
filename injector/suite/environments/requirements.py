"""What a benchmark wants installed."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from ..benchfile import ARCHITECTURES
from ..config.model import Benchmark, Problem, SuiteError
from ..definitions import path_of
from . import origins

DEFAULT = "default"
_INCLUDED = re.compile(r"\s*(?:-r|--requirement|-c|--constraint)[\s=]+(\S+)")
_OPTION = re.compile(
    r"\s*(?:-i|--index-url|--extra-index-url|-f|--find-links|--trusted-host|--no-index|--pre"
    r"|--no-binary|--only-binary|--prefer-binary)\b"
)
_FOLDER = re.compile(r"\s*(-f|--find-links)[\s=]+(\S+)")


class Line(NamedTuple):
    """One line of a requirements file."""

    file: Path
    number: int
    text: str

    @property
    def project(self) -> str:
        """The package's name as indexes know it; empty for a line that names none."""
        if re.match(r"\s*[A-Za-z0-9+]+://", self.text):
            return ""
        named = re.match(r"\s*([A-Za-z0-9][A-Za-z0-9._-]*)", self.text)
        return normal(named.group(1)) if named else ""

    @property
    def wanted(self) -> str:
        """What it says about the package: ``==1.0``."""
        text = re.split(r"\s#|\s--hash|;|\\$", self.text)[0].strip()
        return re.sub(r"^[A-Za-z0-9._-]+\s*(\[.*?\])?\s*", "", text)


@dataclass(frozen=True)
class Asked:
    """What a benchmark wants installed."""

    files: tuple[Path, ...]
    lines: tuple[str, ...]
    """Beside the files: the package that it is of, packages that its definition names."""

    @property
    def digest(self) -> str:
        """Changes with what is wanted, also in files that its files include."""
        files = [hashlib.sha256(file.read_bytes()).hexdigest() for file in self.all_files()]
        return hashlib.sha256(json.dumps([files, self.lines]).encode()).hexdigest()

    def all_files(self) -> list[Path]:
        """Its files and those that they include, each once."""
        found: dict[Path, None] = {}
        waiting = list(self.files)
        while waiting:
            file = waiting.pop(0)
            if file in found or not file.is_file():
                continue
            found[file] = None
            included = filter(None, (_INCLUDED.match(line.text) for line in _lines(file)))
            waiting += [(file.parent / each.group(1)).resolve() for each in included]
        return list(found)

    def each(self) -> Iterator[Line]:
        """Every line that asks for something."""
        lines = [line for file in self.all_files() for line in _lines(file)]
        lines += [Line(Path("the definition"), 0, text) for text in self.lines]
        yield from (line for line in lines if line.project)

    def options(self) -> list[str]:
        """Where its files say that packages are to be looked for, paths made absolute."""
        found = []
        for file in self.all_files():
            for line in _lines(file):
                if not _OPTION.match(line.text):
                    continue
                named = _FOLDER.match(line.text)
                if named and "://" not in named.group(2):
                    found.append(f"--find-links {(file.parent / named.group(2)).resolve()}")
                else:
                    found.append(line.text.strip())
        return found


def _lines(file: Path) -> Iterator[Line]:
    for number, text in enumerate(file.read_text(encoding="utf-8-sig").splitlines(), 1):
        if text.strip() and not text.lstrip().startswith("#"):
            yield Line(file, number, text)


def normal(name: str) -> str:
    """A package's name as indexes compare it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def of(benchmark: Benchmark, arch: str, base: Path) -> Asked:
    """What ``benchmark`` wants on an architecture (cuda, rocm, xpu, hpu, cpu).

    Raises:
        SuiteError: it names a file that is not there.
    """
    files, lines = _said(benchmark, arch)
    if problems := [
        Problem(benchmark.at("requirements"), f"there is no file {file}")
        for file in files
        if not file.is_file()
    ]:
        raise SuiteError(problems)
    if (pin := origins.package_of(benchmark)) is not None:
        lines = [pin, *lines]
    origin = origins.of(benchmark)
    if origin is not None and origin.install:
        lines = [*lines, f"-e {origin.folder(base)}"]
    return Asked(tuple(files), tuple(lines))


def _said(benchmark: Benchmark, arch: str) -> tuple[list[Path], list[str]]:
    """Files and lines that ``requirements`` comes to."""
    told = benchmark.settings.get("requirements")
    if isinstance(told, str):
        return [path_of(benchmark, told, "requirements")], []
    if not told:
        return _conventional(benchmark, arch), []
    packages = told.get("packages") or []
    lines = [packages] if isinstance(packages, str) else [str(each) for each in packages]
    for key in (arch, DEFAULT):
        if key in told:
            names = [told[key]] if isinstance(told[key], str) else told[key] or []
            return [path_of(benchmark, str(each), "requirements", key) for each in names], lines
    found = _conventional(benchmark, arch)
    known = ", ".join(key for key in ARCHITECTURES if key in told)
    if found or not known:
        return found, lines
    text = f"says nothing for {arch}, only for {known}: add `{arch}:` or `{DEFAULT}:`"
    raise SuiteError([Problem(benchmark.at("requirements"), text)])


def _conventional(benchmark: Benchmark, arch: str) -> list[Path]:
    """The file that is there by its name."""
    if benchmark.definition is None:
        return []
    names = (f"requirements.{arch}.txt", "requirements.txt", "requirements.in")
    there = (benchmark.definition / name for name in names)
    return [file for file in there if file.is_file()][:1]


def digest(all_asked: Iterable[Asked], *more: str) -> str:
    """Changes with anything that any of them wants."""
    said = sorted({asked.digest for asked in all_asked})
    return hashlib.sha256(json.dumps([said, more]).encode()).hexdigest()
