"""What a benchmark requires to be installed, and the lock of what was installed for it.

A lock is a requirements file with one pin for each package, kept beside the environment, so that an
environment which is made anew from the same requirements has the same packages.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.metadata
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from ..config.model import Benchmark
from ..config.problems import Problem, SuiteError
from ..config.scope import ARCHITECTURES
from . import origins
from .own_package import NAME

DEFAULT = "default"
"""The key of ``requirements`` for all architectures that have none of their own."""
CONSTRAINTS = "constraints"
"""The folder beside definitions with a file of constraints for each architecture."""
_REQUIRED = re.compile(r"\s*(?:-r|--requirement)[\s=]+(\S+)")
_INCLUDED = re.compile(r"\s*(?:-r|--requirement|-c|--constraint)[\s=]+(\S+)")
_OPTION = re.compile(
    r"\s*(?:-i|--index-url|--extra-index-url|-f|--find-links|--trusted-host|--no-index|--pre"
    r"|--no-binary|--only-binary|--prefer-binary)\b"
)
_FOLDER = re.compile(r"\s*(-f|--find-links)[\s=]+(\S+)")


class RequirementLine(NamedTuple):
    """One line of a requirements file."""

    file: Path
    number: int
    """Counted from 1."""
    text: str

    @property
    def project(self) -> str:
        """The normalised name of the package; empty for a URL, a path or an option."""
        if re.match(r"\s*[A-Za-z0-9+]+://", self.text):
            return ""
        match = re.match(r"\s*([A-Za-z0-9][A-Za-z0-9._-]*)", self.text)
        return normal_name(match.group(1)) if match else ""

    @property
    def specifier(self) -> str:
        """What follows the package's name, such as ``==1.0``, without extras, markers and hashes."""
        text = re.split(r"\s#|\s--hash|;|\\$", self.text)[0].strip()
        return re.sub(r"^[A-Za-z0-9._-]+\s*(\[.*?\])?\s*", "", text)


@dataclass(frozen=True)
class Requirements:
    """What a benchmark requires to be installed."""

    files: tuple[Path, ...]
    lines: tuple[str, ...]
    """Further lines: the package of the program, packages that the definition names."""
    constraints: tuple[Path, ...] = ()
    """Files that restrict versions, and name indexes, without requiring any package."""

    @property
    def digest(self) -> str:
        """A digest of the lines and of the content of all files."""
        files = [hashlib.sha256(file.read_bytes()).hexdigest() for file in self.all_files()]
        return hashlib.sha256(json.dumps([files, self.lines]).encode()).hexdigest()

    def all_files(self) -> list[Path]:
        """Its files, those that they include, and its constraints, each once."""
        return [*self._files_and(_INCLUDED), *self.constraints]

    def _files_and(self, included: re.Pattern[str]) -> list[Path]:
        """Its files and those that they include by lines which match ``included``, each once."""
        files: dict[Path, None] = {}
        waiting = list(self.files)
        while waiting:
            file = waiting.pop(0)
            if file in files or not file.is_file():
                continue
            files[file] = None
            matches = filter(None, (included.match(line.text) for line in _lines(file)))
            waiting += [(file.parent / match.group(1)).resolve() for match in matches]
        return list(files)

    def packages(self) -> Iterator[RequirementLine]:
        """Every line that requires a package by name."""
        lines = [line for file in self._files_and(_REQUIRED) for line in _lines(file)]
        lines += [RequirementLine(Path("the definition"), 0, text) for text in self.lines]
        yield from (line for line in lines if line.project)

    def options(self) -> list[str]:
        """The options in its files that say where to look for packages, with absolute paths."""
        options = []
        for file in self.all_files():
            for line in _lines(file):
                if not _OPTION.match(line.text):
                    continue
                folder = _FOLDER.match(line.text)
                if folder and "://" not in folder.group(2):
                    options.append(f"--find-links {(file.parent / folder.group(2)).resolve()}")
                else:
                    options.append(line.text.strip())
        return options


def _lines(file: Path) -> Iterator[RequirementLine]:
    """The lines of a requirements file that are neither empty nor comments."""
    for number, text in enumerate(file.read_text(encoding="utf-8-sig").splitlines(), 1):
        if text.strip() and not text.lstrip().startswith("#"):
            yield RequirementLine(file, number, text)


def normal_name(name: str) -> str:
    """A package's name as indexes compare it (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()


def requirements_of(benchmark: Benchmark, arch: str, base: Path) -> Requirements:
    """What ``benchmark`` requires on an architecture (cuda, rocm, xpu, hpu, cpu).

    Raises SuiteError if it names a file that does not exist, or says nothing for this architecture.
    """
    files, lines = _declared(benchmark, arch)
    if problems := [
        Problem(benchmark.at("requirements"), f"there is no file {file}")
        for file in files
        if not file.is_file()
    ]:
        raise SuiteError(problems)
    if (pin := origins.package_of(benchmark)) is not None:
        lines = [pin, *lines]
    origin = origins.origin_of(benchmark)
    if origin is not None and origin.install:
        lines = [*lines, f"-e {origin.folder(base)}"]
    beside = [benchmark.definition.parent] if benchmark.definition is not None else []
    constraints = (folder / CONSTRAINTS / f"{arch}.txt" for folder in beside)
    return Requirements(tuple(files), tuple(lines), tuple(filter(Path.is_file, constraints)))


def _declared(benchmark: Benchmark, arch: str) -> tuple[list[Path], list[str]]:
    """The files and the further lines that the key ``requirements`` means. Raises SuiteError."""
    declared = benchmark.settings.get("requirements")
    if not declared:
        return _conventional(benchmark, arch), []
    if not isinstance(declared, Mapping):  # the name of a file, which may be a number
        return [benchmark.path(declared, "requirements")], []
    lines = _texts(declared.get("packages"))
    for key in (arch, DEFAULT):
        if key in declared:
            names = _texts(declared[key])
            return [benchmark.path(name, "requirements", key) for name in names], lines
    files = _conventional(benchmark, arch)
    known = ", ".join(key for key in ARCHITECTURES if key in declared)
    if files or not known:
        return files, lines
    text = f"says nothing for {arch}, only for {known}: add `{arch}:` or `{DEFAULT}:`"
    raise SuiteError([Problem(benchmark.at("requirements"), text)])


def _texts(value: Any) -> list[str]:
    """One value or several as texts; none of null."""
    return [
        str(each) for each in (value if isinstance(value, list) else [value]) if each is not None
    ]


def _conventional(benchmark: Benchmark, arch: str) -> list[Path]:
    """The file in the definition's folder that has a conventional name, if there is one."""
    if benchmark.definition is None:
        return []
    names = (f"requirements.{arch}.txt", "requirements.txt", "requirements.in")
    files = (benchmark.definition / name for name in names)
    return [file for file in files if file.is_file()][:1]


def digest(all_required: Iterable[Requirements], *more: str) -> str:
    """A digest of several requirements, in any order, and of ``more`` texts."""
    digests = sorted({required.digest for required in all_required})
    return hashlib.sha256(json.dumps([digests, more]).encode()).hexdigest()


_HEAD = "# Made by inject suite install; do not edit. Requirements: "


@dataclass(frozen=True)
class Lock:
    """The packages of an environment, as lines of a requirements file."""

    digest: str
    """The digest of the requirements that were resolved to these packages."""
    options: tuple[str, ...]
    """Options that say where to look for packages."""
    pins: tuple[str, ...]
    """A line for each package, but for this package itself."""

    def text(self) -> str:
        """The content of its file."""
        return "\n".join([_HEAD + self.digest, *self.options, *self.pins]) + "\n"


def read_lock(file: Path) -> Lock | None:
    """The lock in ``file``; None if there is none, or it cannot be read."""
    try:
        first, *rest = file.read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError):
        return None
    if not first.startswith(_HEAD):
        return None
    options = tuple(line for line in rest if line.startswith("-") and not line.startswith("-e "))
    pins = tuple(line for line in rest if line not in options)
    return Lock(first[len(_HEAD) :], options, pins)


def pins_of_report(report: Mapping[str, Any]) -> Iterator[str]:
    """The pins of what was installed according to pip's ``--report``."""
    for item in report["install"]:
        name, version = item["metadata"]["name"], item["metadata"]["version"]
        if normal_name(name) != NAME:
            yield _pin(name, version, item["download_info"], bool(item.get("is_direct")))


def _pin(name: str, version: str, info: Mapping[str, Any], direct: bool) -> str:
    """The pin of a package; ``info`` is its ``download_info`` (PEP 610). ``direct``: a URL was given."""
    url = str(info["url"])
    if (vcs := info.get("vcs_info")) is not None:
        return f"{name} @ {vcs['vcs']}+{url}@{vcs['commit_id']}"
    if (folder := info.get("dir_info")) is not None:
        return f"-e {url}" if folder.get("editable") else f"{name} @ {url}"
    pin = f"{name} @ {url}" if direct else f"{name}=={version}"
    hashes = (info.get("archive_info") or {}).get("hashes") or {}
    return pin + "".join(f" --hash={kind}:{value}" for kind, value in sorted(hashes.items()))


def pins_of_compiled(text: str) -> Iterator[str]:
    """The pins in the output of ``uv pip compile``."""
    joined = re.sub(r"\s*\\\n\s*", " ", text)
    for line in joined.splitlines():
        pin = line.partition(" #")[0].strip()
        name = normal_name(re.split(r"[\s=@]", pin)[0])
        if pin and not pin.startswith(("#", "--")) and name != NAME:
            yield pin


def missing_packages(required: Mapping[str, Requirements]) -> list[str]:
    """What the current environment lacks of what benchmarks require, as sentences.

    ``required`` has the requirements of each benchmark, by its name. A line with a marker counts only if its
    marker holds here.
    """
    benchmarks_by_lack: dict[str, list[str]] = {}
    for benchmark, requirements in required.items():
        for line in requirements.packages():
            if (lack := _missing_package(line)) is not None:
                benchmarks_by_lack.setdefault(lack, []).append(benchmark)
    return [
        f"{lack} (for {', '.join(dict.fromkeys(benchmarks))})"
        for lack, benchmarks in benchmarks_by_lack.items()
    ]


def _missing_package(line: RequirementLine) -> str | None:
    """That the package of a line is missing or has another version, as a sentence; None if all is well."""
    text = line.text.partition(" #")[0].partition(" --hash")[0].rstrip("\\ ")
    specifier: Any = None
    if (parser := _parser()) is not None:
        with suppress(ValueError):  # a form that only pip knows
            requirement = parser.Requirement(text)
            specifier = requirement.specifier
            if requirement.marker is not None and not requirement.marker.evaluate():
                return None
    try:
        version = importlib.metadata.version(line.project)
    except importlib.metadata.PackageNotFoundError:
        return f"{line.project}{line.specifier} is not installed"
    if specifier is not None and not specifier.contains(version, prereleases=True):
        return f"{line.project} is {version}, not {specifier}"
    return None


def _parser() -> Any:
    """The module that parses requirements, of ``packaging`` or pip's copy of it; None without either."""
    for name in ("packaging.requirements", "pip._vendor.packaging.requirements"):
        try:
            return importlib.import_module(name)
        except ImportError:
            continue
    return None
