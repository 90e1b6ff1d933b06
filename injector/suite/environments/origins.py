"""Where a benchmark's program comes from, as ``origin`` says, and where it lies then."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..config.model import Benchmark
from ..config.problems import Problem, SuiteError
from . import folders

PIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*(\[[A-Za-z0-9._,\s-]+\])?==[A-Za-z0-9.!+_-]+")
FAR = re.compile(r"[a-z+]+://|[^/]+@[^/]+:")
"""What begins like this is the URL of a repository, and no path."""

IGNORED = ("__pycache__", ".git", "voirfile.py", "README.md", "benchmark.yaml", "benchfile.py")
"""Of a definition's files those that a program cannot be made of."""


@dataclass(frozen=True)
class Origin:
    """Where something comes from. Its ``key`` names it: equal origins share a folder."""

    name: str
    """What its folder is called."""
    git: str = ""
    """The URL of a repository."""
    commit: str = ""
    branch: str = ""
    submodules: bool = False
    only: tuple[str, ...] = ()
    """The folders of the repository that are fetched; all of them if none is named."""
    archive: str = ""
    """``NAME==VERSION``: the source archive of a package."""
    commit_archive: str = ""
    """The URL or path of an archive of ``commit``, which is used instead of ``git``."""
    path: Path | None = None
    """A folder that is used where it is."""
    patches: tuple[Path, ...] = ()
    into: str = ""
    """Where below a copy of ``definition`` the repository lies, for scripts that expect it there."""
    definition: Path | None = None
    inside: str = ""
    """The folder of it that is meant."""
    install: bool = False
    """Whether what lies there is a package that is to be installed."""

    def __str__(self) -> str:
        if self.git:
            return f"{self.git} at {(self.commit or self.branch or 'no commit')[:12]}"
        return self.archive or str(self.path)

    @property
    def key(self) -> str:
        """The name of its folder below ``BASE/sources``."""
        content: list[Any] = [self.git, self.commit, self.branch, self.submodules, self.archive]
        content += [list(self.only)] if self.only else []
        content += [_digest(patch) for patch in self.patches]
        if self.into and self.definition is not None:
            content += [self.into, manifest(self.definition, self.into)]
        digest = hashlib.sha256(json.dumps(content).encode()).hexdigest()
        return f"{self.name}-{digest[:12]}"

    def home(self, base: Path) -> Path:
        """The folder of all that comes from there."""
        return self.path or folders.sources(base) / self.key / self.name

    def folder(self, base: Path) -> Path:
        """Where the program lies: what ``{source}`` stands for. It need not be there yet."""
        return self.home(base) / self.into / self.inside


def origin_of(benchmark: Benchmark) -> Origin | None:
    """The origin of a benchmark; None where it is a package only, or says nothing about it.

    Raises:
        SuiteError: it makes no sense, or names files that are not there.
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
    """What the folder of a repository is called: as the last part of its URL is."""
    return re.split(r"[/:]", url.rstrip("/"))[-1].removesuffix(".git") or "source"


def _repository(benchmark: Benchmark, declared: dict[str, Any], common: dict[str, Any]) -> Origin:
    url = str(declared["git"])
    if not FAR.match(url):
        url = str(benchmark.path(url, "origin", "git"))
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
        only=tuple(str(Path(each)) for each in declared.get("only") or ()),
        commit_archive=archive,
        into=into,
        definition=definition,
        **common,
    )


def package_of(benchmark: Benchmark) -> str | None:
    """The pin of the package that is installed for a benchmark, if its program is one."""
    declared = benchmark.settings.get("origin") or {}
    pin = declared.get("package")
    return str(pin) if pin and not declared.get("archive") else None


def _problems(benchmark: Benchmark, declared: Any) -> Iterator[Problem]:
    def problem(text: str, *keys: str | int) -> Problem:
        return Problem(benchmark.at("origin", *keys), text)

    if not isinstance(declared, dict):
        yield problem("is a mapping with `package`, `git` and `commit`, or `path`")
        return
    ways = [key for key in ("package", "git", "path") if declared.get(key)]
    if len(ways) > 1:
        yield problem(f"a program comes from one place: {' or '.join(ways)}")
    pin = declared.get("package")
    if pin and not PIN.fullmatch(str(pin)):
        yield problem(f"{pin!r} is no pin: write NAME==VERSION", "package")
    yield from _archive_problems(declared, problem)
    for number, each in enumerate(declared.get("only") or ()):
        if not _inside(str(each)):
            yield problem(f"{each!r} is no folder of the repository", "only", number)
    if declared.get("only") and not declared.get("git"):
        yield problem("only a repository (`git`) is fetched in part", "only")
    patches = declared.get("patches") or ()
    if patches and not (declared.get("git") or declared.get("archive")):
        yield problem("patches are for `git` and `archive`; change other folders", "patches")
    into = declared.get("into")
    for key, where in (("into", "the definition's folder"), ("folder", "what comes from there")):
        if declared.get(key) and not _inside(str(declared[key])):
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


def _archive_problems(
    declared: dict[str, Any], problem: Callable[..., Problem]
) -> Iterator[Problem]:
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


def _inside(path: str) -> bool:
    parts = Path(path).parts
    return bool(parts) and not Path(path).is_absolute() and ".." not in parts


def _digest(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest() if file.is_file() else ""


def manifest(folder: Path, without: str = "") -> list[tuple[str, str]]:
    """Each file below ``folder`` that a program may be made of, with its digest; links by target.

    ``without``: a folder below it that is left out.
    """
    found = []
    for path in sorted(folder.rglob("*")):
        below = path.relative_to(folder)
        name = str(below)
        if any(part in IGNORED for part in below.parts) or (
            without and below.is_relative_to(without)
        ):
            continue
        if path.is_symlink():
            found.append((name, f"-> {path.readlink()}"))
        elif path.is_file():
            found.append((name, _digest(path)))
    return found
