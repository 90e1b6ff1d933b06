"""Where a benchmark's program comes from: the key ``origin`` of its settings, and the folder for the source.

::

    origin: {package: NAME==VERSION}                   installed with the requirements; no folder
    origin: {package: NAME==VERSION, archive: true}    the package's source archive, unpacked
    origin: {git: URL, commit: ID, ...}                a checkout, or an archive of the commit
    origin: {path: FOLDER}                             a folder that is used where it is

:mod:`.sources` makes the folder.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from ..config.model import Benchmark
from ..config.problems import Problem, SuiteError
from . import folders, git
from .commands import Failed

PIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*(\[[A-Za-z0-9._,\s-]+\])?==[A-Za-z0-9.!+_-]+")
"""``NAME==VERSION`` or ``NAME[EXTRA]==VERSION``."""
FAR = re.compile(r"[a-z+]+://|[^/]+@[^/]+:")
"""The beginning of a URL: ``https://…`` or ``git@HOST:…``; anything else is a path."""

IGNORED = ("__pycache__", ".git", "voirfile.py", "README.md", "benchmark.yaml", "benchfile.py")
"""Files and folders of a definition that its program does not use."""


@dataclass(frozen=True)
class Origin:
    """The origin of a program; benchmarks with equal origins share a source."""

    name: str
    """The name of the folder of its files."""
    git: str = ""
    commit: str = ""
    branch: str = ""
    submodules: bool = False
    only: tuple[str, ...] = ()
    """The folders of the repository that are fetched; all of them if none is named."""
    archive: str = ""
    """``NAME==VERSION`` of a package whose source archive is used."""
    commit_archive: str = ""
    """The URL or path of an archive of ``commit``, which is used instead of ``git``."""
    path: Path | None = None
    """A folder that is used where it is."""
    patches: tuple[Path, ...] = ()
    """Patch files, in the order in which they are applied."""
    into: str = ""
    """The place of the repository in a copy of ``definition``, for scripts that expect it there."""
    definition: Path | None = None
    """The folder of the benchmark's definition; only with ``into``."""
    inside: str = ""
    """The folder of the source in which the program is; the source itself if empty."""
    install: bool = False
    """Whether the program is a package, which is installed in the environment from there."""

    def __str__(self) -> str:
        if self.git:
            return f"{self.git} at {self.commit[:12]}"
        return self.archive or str(self.path)

    @property
    def key(self) -> str:
        """The name of its folder below ``BASE/sources``; it changes with all that the files depend on."""
        content: list[Any] = [self.git, self.commit, self.branch, self.submodules, self.archive]
        content += [list(self.only)] if self.only else []
        content += [_digest(patch) for patch in self.patches]
        if self.into and self.definition is not None:
            content += [self.into, manifest(self.definition, self.into)]
        digest = hashlib.sha256(json.dumps(content).encode()).hexdigest()
        return f"{self.name}-{digest[:12]}"

    def home(self, base: Path) -> Path:
        """The folder of all its files, with ``into`` the copy of the definition. It need not exist yet."""
        return self.path or folders.sources(base) / self.key / self.name

    def folder(self, base: Path) -> Path:
        """The folder of the program, which ``{source}`` stands for. It need not exist yet."""
        return self.home(base) / self.into / self.inside


def origin_of(benchmark: Benchmark) -> Origin | None:
    """The origin of a benchmark; None if it has none, or is an installed package (:func:`package_of`).

    Raises SuiteError if there are mistakes in ``origin``, or it names files that do not exist.
    """
    declared = benchmark.settings.get("origin")
    if not declared:
        return None
    if problems := list(_problems(benchmark, declared)):
        raise SuiteError(problems)
    patches = tuple(
        benchmark.path(str(patch), "origin", "patches", number)
        for number, patch in enumerate(declared.get("patches") or ())
    )
    common: dict[str, Any] = {"patches": patches, "inside": str(declared.get("folder") or "")}
    common["install"] = bool(declared.get("install"))
    if declared.get("git"):
        return _repository(benchmark, declared, common)
    if declared.get("archive"):
        pin = str(declared["package"])
        return Origin(re.split(r"[\[=]", pin)[0], archive=pin, **common)
    if declared.get("path"):
        path = benchmark.path(str(declared["path"]), "origin", "path")
        return Origin(path.name, path=path, **common)
    return None


def repository_name(url: str) -> str:
    """The name for the folder of a repository: the last part of its URL, without ``.git``."""
    return re.split(r"[/:]", url.rstrip("/"))[-1].removesuffix(".git") or "source"


def _repository(benchmark: Benchmark, declared: dict[str, Any], common: dict[str, Any]) -> Origin:
    """The origin with ``git``; ``common`` has the fields that all kinds of origins have."""
    url = _url(benchmark, declared)
    into = str(declared.get("into") or "")
    definition = benchmark.definition if into else None
    archive = str(declared.get("archive") or "")
    if archive and not FAR.match(archive):
        archive = str(benchmark.path(archive, "origin", "archive"))
    return Origin(
        definition.name if definition else repository_name(url),
        git=url,
        commit=str(declared.get("commit") or "").lower(),
        branch=str(declared.get("branch") or ""),
        submodules=bool(declared.get("submodules")),
        only=tuple(str(Path(folder)) for folder in declared.get("only") or ()),
        commit_archive=archive,
        into=into,
        definition=definition,
        **common,
    )


def _url(benchmark: Benchmark, declared: dict[str, Any]) -> str:
    """The URL of the repository, or its absolute path."""
    url = str(declared["git"])
    return url if FAR.match(url) else str(benchmark.path(url, "origin", "git"))


def package_of(benchmark: Benchmark) -> str | None:
    """The pin of the package that is a benchmark's program; None if its program is no installed package."""
    declared = benchmark.settings.get("origin") or {}
    pin = declared.get("package")
    return str(pin) if pin and not declared.get("archive") else None


def _problems(benchmark: Benchmark, declared: Any) -> Iterator[Problem]:
    """The mistakes in ``origin``, each with its place in the suite's file."""

    def problem(text: str, *keys: str | int) -> Problem:
        return Problem(benchmark.at("origin", *keys), text)

    if not isinstance(declared, dict):
        yield problem("is a mapping with `package`, `git` and `commit`, or `path`")
        return
    ways = [key for key in ("package", "git", "path") if declared.get(key)]
    if len(ways) > 1:
        yield problem(f"a program comes from one place: {' or '.join(ways)}")
    for key in ("commit", "branch") if not ways else ():
        if declared.get(key):
            yield problem("of which repository? `git` names it", key)
    commit = str(declared.get("commit") or "")
    if declared.get("git") and not git.COMMIT.fullmatch(commit.lower()):
        url, branch = _url(benchmark, declared), str(declared.get("branch") or "")
        yield problem(_unpinned(url, commit, branch), *(["commit"] if commit else []))
    pin = declared.get("package")
    if pin and not PIN.fullmatch(str(pin)):
        yield problem(f"{pin!r} is no pin: write NAME==VERSION", "package")
    yield from _archive_problems(declared, problem)
    for number, folder in enumerate(declared.get("only") or ()):
        if not _is_below(str(folder)):
            yield problem(f"{folder!r} is no folder of the repository", "only", number)
    if declared.get("only") and not declared.get("git"):
        yield problem("only a repository (`git`) is fetched in part", "only")
    patches = declared.get("patches") or ()
    if patches and not (declared.get("git") or declared.get("archive")):
        yield problem("patches are for `git` and `archive`; change other folders", "patches")
    into = declared.get("into")
    for key, where in (("into", "the definition's folder"), ("folder", "what comes from there")):
        if declared.get(key) and not _is_below(str(declared[key])):
            yield problem(f"{declared[key]!r} does not lie in {where}", key)
    if into and benchmark.definition is None:
        yield problem("there is no definition whose files could lie beside it", "into")
    for number, patch in enumerate(patches):
        path = benchmark.path(str(patch), "origin", "patches", number)
        if not path.is_file():
            yield problem(f"there is no file {path}", "patches", number)
    if declared.get("path"):
        path = benchmark.path(str(declared["path"]), "origin", "path")
        if not path.is_dir():
            yield problem(f"there is no folder {path}", "path")


@lru_cache(folders.MANY)
def _unpinned(url: str, commit: str, branch: str) -> str:
    """What is wrong with an origin without a whole commit, and if it can be found out what to write."""
    name = commit or branch or "HEAD"
    now = None
    try:
        now = git.where_is(url, name)
        if now is None:
            name, now = "HEAD", git.where_is(url, "HEAD")
    except Failed:
        pass  # the commit to write is only a hint
    what = f"{commit!r} is no whole commit" if commit else "there is no commit"
    where = f"{name} is at {now} today: write `commit: {now}`" if now else "write `commit:`"
    return (
        f"{url}: {what}, and results of a source that moves cannot be compared; {where} "
        "under `origin`"
    )


def _archive_problems(
    declared: dict[str, Any], problem: Callable[..., Problem]
) -> Iterator[Problem]:
    """The mistakes in ``archive``: with ``git`` it is a path or URL, with ``package`` it is true."""
    archive = declared.get("archive")
    if not archive:
        return
    if declared.get("git"):
        if archive is True:
            yield problem("names an archive of the commit: a path or a URL", "archive")
        elif declared.get("submodules"):
            yield problem("an archive has no submodules: leave one of the two out", "archive")
    elif archive is not True:
        yield problem("is `true` for the source archive of a package", "archive")
    elif not declared.get("package"):
        yield problem("an archive is that of a package: write `package: NAME==VERSION`", "archive")


def _is_below(path: str) -> bool:
    """Whether a relative path stays below the folder that it is relative to."""
    parts = Path(path).parts
    return bool(parts) and not Path(path).is_absolute() and ".." not in parts


def _digest(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest() if file.is_file() else ""


def manifest(folder: Path, without: str = "") -> list[tuple[str, str]]:
    """The relative path and the digest of each file below ``folder``, but for :data:`IGNORED` ones.

    A link has its target instead. The folder ``without`` below ``folder`` is left out.
    """
    entries = []
    for path in sorted(folder.rglob("*")):
        relative = path.relative_to(folder)
        name = str(relative)
        if any(part in IGNORED for part in relative.parts) or (
            without and relative.is_relative_to(without)
        ):
            continue
        if path.is_symlink():
            entries.append((name, f"-> {path.readlink()}"))
        elif path.is_file():
            entries.append((name, _digest(path)))
    return entries
