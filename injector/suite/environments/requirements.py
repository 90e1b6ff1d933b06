"""What a benchmark wants installed, and the lock of what was installed for it.

A lock is a requirements file, kept beside the environment, so that an environment made anew from the
same requirements holds the same packages.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.metadata
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from ..config.model import Benchmark
from ..config.problems import Problem, SuiteError
from ..config.scope import ARCHITECTURES
from . import origins
from .own_package import NAME

DEFAULT = "default"
CONSTRAINTS = "constraints"
"""The folder beside definitions whose files say what each architecture's packages are."""
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
    text: str

    @property
    def project(self) -> str:
        """The package's name as indexes know it; empty for a line that names none."""
        if re.match(r"\s*[A-Za-z0-9+]+://", self.text):
            return ""
        named = re.match(r"\s*([A-Za-z0-9][A-Za-z0-9._-]*)", self.text)
        return normal_name(named.group(1)) if named else ""

    @property
    def wanted(self) -> str:
        """What it says about the package: ``==1.0``."""
        text = re.split(r"\s#|\s--hash|;|\\$", self.text)[0].strip()
        return re.sub(r"^[A-Za-z0-9._-]+\s*(\[.*?\])?\s*", "", text)


@dataclass(frozen=True)
class Requirements:
    """What a benchmark wants installed."""

    files: tuple[Path, ...]
    lines: tuple[str, ...]
    """Beside the files: the package that it is of, packages that its definition names."""
    constraints: tuple[Path, ...] = ()
    """Files that say which versions are meant, and where they are, without requiring any package."""

    @property
    def digest(self) -> str:
        """Changes with what is wanted, also in files that its files include."""
        files = [hashlib.sha256(file.read_bytes()).hexdigest() for file in self.all_files()]
        return hashlib.sha256(json.dumps([files, self.lines]).encode()).hexdigest()

    def all_files(self) -> list[Path]:
        """Its files, those that they include, and its constraints, each once."""
        return [*self._requiring(_INCLUDED), *self.constraints]

    def _requiring(self, including: re.Pattern[str]) -> list[Path]:
        """Its files and those that they include by such lines, each once."""
        found: dict[Path, None] = {}
        waiting = list(self.files)
        while waiting:
            file = waiting.pop(0)
            if file in found or not file.is_file():
                continue
            found[file] = None
            included = filter(None, (including.match(line.text) for line in _lines(file)))
            waiting += [(file.parent / each.group(1)).resolve() for each in included]
        return list(found)

    def each(self) -> Iterator[RequirementLine]:
        """Every line that asks for something."""
        lines = [line for file in self._requiring(_REQUIRED) for line in _lines(file)]
        lines += [RequirementLine(Path("the definition"), 0, text) for text in self.lines]
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


def _lines(file: Path) -> Iterator[RequirementLine]:
    for number, text in enumerate(file.read_text(encoding="utf-8-sig").splitlines(), 1):
        if text.strip() and not text.lstrip().startswith("#"):
            yield RequirementLine(file, number, text)


def normal_name(name: str) -> str:
    """A package's name as indexes compare it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def requirements_of(benchmark: Benchmark, arch: str, base: Path) -> Requirements:
    """What ``benchmark`` wants on an architecture (cuda, rocm, xpu, hpu, cpu).

    Raises:
        SuiteError: it names a file that is not there.
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
    """Files and lines that ``requirements`` comes to."""
    declared = benchmark.settings.get("requirements")
    if isinstance(declared, str):
        return [benchmark.path(declared, "requirements")], []
    if not declared:
        return _conventional(benchmark, arch), []
    packages = declared.get("packages") or []
    lines = [packages] if isinstance(packages, str) else [str(each) for each in packages]
    for key in (arch, DEFAULT):
        if key in declared:
            names = [declared[key]] if isinstance(declared[key], str) else declared[key] or []
            return [benchmark.path(str(each), "requirements", key) for each in names], lines
    found = _conventional(benchmark, arch)
    known = ", ".join(key for key in ARCHITECTURES if key in declared)
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


def digest(all_required: Iterable[Requirements], *more: str) -> str:
    """Changes with anything that any of them wants."""
    digests = sorted({required.digest for required in all_required})
    return hashlib.sha256(json.dumps([digests, more]).encode()).hexdigest()


_HEAD = "# Made by inject suite install; do not edit. Requirements: "


@dataclass(frozen=True)
class Lock:
    """The packages of an environment."""

    digest: str
    """Of the requirements that it answers."""
    options: tuple[str, ...]
    """Where its packages are to be looked for, as lines of a requirements file."""
    pins: tuple[str, ...]
    """A line for each package; this package itself is not among them."""

    @property
    def hashed(self) -> list[str]:
        """Lines whose files can be checked."""
        return [pin for pin in self.pins if "--hash=" in pin]

    @property
    def unhashed(self) -> list[str]:
        """Repositories and folders, which have no digest."""
        return [pin for pin in self.pins if "--hash=" not in pin]

    def text(self) -> str:
        """As a file."""
        return "\n".join([_HEAD + self.digest, *self.options, *self.pins]) + "\n"


def read_lock(file: Path) -> Lock | None:
    """The lock in ``file``; None if there is none that could be read."""
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
    """The pins of what pip's ``--report`` says was installed."""
    for item in report["install"]:
        name, version = item["metadata"]["name"], item["metadata"]["version"]
        if normal_name(name) != NAME:
            yield _pin(name, version, item["download_info"], bool(item.get("is_direct")))


def _pin(name: str, version: str, info: Mapping[str, Any], direct: bool) -> str:
    url = str(info["url"])
    if (vcs := info.get("vcs_info")) is not None:
        return f"{name} @ {vcs['vcs']}+{url}@{vcs['commit_id']}"
    if (folder := info.get("dir_info")) is not None:
        return f"-e {url}" if folder.get("editable") else f"{name} @ {url}"
    what = f"{name} @ {url}" if direct else f"{name}=={version}"
    hashes = (info.get("archive_info") or {}).get("hashes") or {}
    return what + "".join(f" --hash={kind}:{value}" for kind, value in sorted(hashes.items()))


def pins_of_compiled(text: str) -> Iterator[str]:
    """The pins of what ``uv pip compile`` wrote."""
    joined = re.sub(r"\s*\\\n\s*", " ", text)
    for line in joined.splitlines():
        kept = line.partition(" #")[0].strip()
        name = normal_name(re.split(r"[\s=@]", kept)[0])
        if kept and not kept.startswith(("#", "--")) and name != NAME:
            yield kept


def missing_packages(required: Mapping[str, Requirements]) -> list[str]:
    """What benchmarks want and this environment does not have, or has in another version.

    ``required``: by benchmark. A line with a condition is looked at where the condition holds.
    """
    missing: dict[str, list[str]] = {}
    for name, each in required.items():
        for line in each.each():
            if (lack := _missing_package(line)) is not None:
                missing.setdefault(lack, []).append(name)
    return [f"{lack} (for {', '.join(dict.fromkeys(names))})" for lack, names in missing.items()]


def _missing_package(line: RequirementLine) -> str | None:
    """What is wrong with one line's package, in words."""
    reader = _parser()
    text = line.text.partition(" #")[0].partition(" --hash")[0].rstrip("\\ ")
    specifier: Any = None
    if reader is not None:
        try:
            read = reader.Requirement(text)
        except ValueError:  # a form that is pip's own
            read = None
        if read is not None:
            if read.marker is not None and not read.marker.evaluate():
                return None
            specifier = read.specifier
    try:
        there = importlib.metadata.version(line.project)
    except importlib.metadata.PackageNotFoundError:
        return f"{line.project}{line.wanted} is not installed"
    if specifier is not None and not specifier.contains(there, prereleases=True):
        return f"{line.project} is {there}, not {specifier}"
    return None


def _parser() -> Any:
    """What reads requirements: a package of its own, or pip's copy of it; None without either."""
    for name in ("packaging.requirements", "pip._vendor.packaging.requirements"):
        try:
            return importlib.import_module(name)
        except ImportError:
            continue
    return None
