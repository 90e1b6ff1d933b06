"""One environment for each install group: everything that its benchmarks want, together.

``BASE/venv/GROUP/`` is finished when ``inject-environment.json`` lies in it, which is written last. It
records what was asked and what was installed; ``BASE/venv/GROUP.lock.txt`` has the versions, and
outlives the environment.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import json
import platform
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from ..config.model import Benchmark
from . import folders, installing, itself, locks, python, requirements
from .making import Say, call, locked, write
from .requirements import Asked

RECORD = "inject-environment.json"
SCHEMA = 1


@dataclass(frozen=True)
class Group:
    """What has to be installed together."""

    name: str
    arch: str
    """cuda, rocm, xpu, hpu or cpu."""
    asked: Mapping[str, Asked]
    """By benchmark."""

    @property
    def digests(self) -> dict[str, list[str]]:
        """Who asks for the same."""
        found: dict[str, list[str]] = {}
        for name, asked in self.asked.items():
            found.setdefault(asked.digest, []).append(name)
        return found


def python_of(benchmark: Benchmark, base: Path, use_current: bool = False) -> Path:
    """The interpreter that a benchmark runs with. It need not be there yet."""
    if use_current:
        return python.current()
    return python.of(folders.venv(base, benchmark.install_group))


def missing(benchmark: Benchmark, base: Path) -> str | None:
    """Why the environment of ``benchmark`` cannot be used; None if it can.

    Raises:
        SuiteError: its requirements name files that are not there.
    """
    environment = folders.venv(base, benchmark.install_group)
    record = _read(environment)
    if record is None:
        return f"the environment {benchmark.install_group} is not installed"
    asked = requirements.of(benchmark, record["arch"], base)
    group = Group(benchmark.install_group, record["arch"], {benchmark.name: asked})
    why = _outdated(group, environment, record)
    return f"the environment {benchmark.install_group} is not up to date: {why}" if why else None


@contextlib.contextmanager
def using(group: str, base: Path, say: Say) -> Iterator[None]:
    """Nobody changes the environment of ``group`` meanwhile; any number may use it."""
    with locked(_lock_file(group, base), f"the environment {group}", say, shared=True):
        yield


def install(
    group: Group,
    base: Path,
    say: Say,
    *,
    installer: str | None = None,
    update: bool = False,
    force: bool = False,
    own: itself.Itself | None = None,
) -> bool:
    """Have the environment of ``group``; whether anything had to be done for it.

    ``installer``: ``uv`` or ``pip``; uv where it is, unless said. ``update`` looks for newer versions
    than those of the lock; ``force`` makes the environment anew. ``own``: this package, if not as it
    runs now.

    Raises:
        Failed: something cannot be installed; nobody will take what is there for finished.
    """
    own = own or itself.find(base)
    environment = folders.venv(base, group.name)
    anew = force or update
    if not anew and not plan(group, base, own):
        return False
    with locked(_lock_file(group.name, base), f"the environment {group.name}", say):
        todo = plan(group, base, own)
        if anew:
            todo = Todo("asked for")
        if not todo:
            return False  # somebody else has made it meanwhile
        own.provide()
        if todo.whole:
            how = python.installer(installer)
            say(f"environment {group.name}: installing with {how} ({todo.why})")
            _install(group, environment, how, update, own)
        else:
            say(f"environment {group.name}: {todo.why}")
            _renew_itself(environment, own)
        return True


class Todo(NamedTuple):
    """What has to be done to an environment; false where it is nothing."""

    why: str
    whole: bool = True
    """Whether it has to be made anew; else only this package in it."""

    def __bool__(self) -> bool:
        return bool(self.why)


def plan(group: Group, base: Path, own: itself.Itself) -> Todo:
    """What has to be done so that an environment has what ``group`` wants."""
    environment = folders.venv(base, group.name)
    record = _read(environment)
    if record is None:
        return Todo("it was left unfinished" if environment.exists() else "it is not there")
    if why := _outdated(group, environment, record):
        return Todo(why)
    if record["requires"] != own.requires:
        return Todo("inject wants other packages than it did")
    if record["itself"]["digest"] != own.digest:
        return Todo(f"it is given inject {own.version} as it is now", whole=False)
    return Todo("")


def _outdated(group: Group, environment: Path, record: Mapping[str, Any]) -> str:
    """Why it does not hold what the benchmarks want."""
    if not python.of(environment).exists():
        return f"its Python, {record['interpreter']}, is gone"
    if record["arch"] != group.arch:
        return f"it is for {record['arch']}"
    if record["python"].rpartition(".")[0] != platform.python_version().rpartition(".")[0]:
        return f"it is of Python {record['python']}"
    new = [names for digest, names in group.digests.items() if digest not in record["asked"]]
    if new:
        return f"the requirements of {', '.join(name for names in new for name in names)} are new"
    return ""


def _install(group: Group, environment: Path, how: str, update: bool, own: itself.Itself) -> None:
    lock_file = installing.beside(environment, "lock.txt")
    digest = requirements.digest(
        group.asked.values(), group.arch, *sys.version.split(".")[:2], own.requires
    )
    lock = locks.read(lock_file)
    if update or lock is None or lock.digest != digest:
        lock = None
    python.make(environment, how)
    tool = installing.tool(environment, how)
    if lock is None:
        lock = tool.resolve(group.asked, own, digest)
    else:
        tool.repeat(lock, own)
    call([python.of(environment), "-m", "injector", "--version"], environ=python.environ())
    write(lock_file, lock.text())
    record = {
        "schema": SCHEMA,
        "group": group.name,
        "arch": group.arch,
        "python": platform.python_version(),
        "interpreter": str(python.of(environment).resolve()),
        "installer": how,
        "asked": group.digests,
        "files": _files(group.asked.values()),
        "digest": digest,
        "lock": str(lock_file),
        "requires": own.requires,
    }
    _finish(environment, record, own)


def _files(all_asked: Iterable[Asked]) -> list[str]:
    return sorted({str(file) for asked in all_asked for file in asked.all_files()})


def _renew_itself(environment: Path, own: itself.Itself) -> None:
    """Only this package is another one."""
    record = _read(environment)
    assert record is not None
    (environment / RECORD).unlink()
    installing.tool(environment, record["installer"]).itself(own)
    _finish(environment, record, own)


def _finish(environment: Path, record: Mapping[str, Any], own: itself.Itself) -> None:
    told = {
        **record,
        "itself": {"requirement": own.requirement, "digest": own.digest, "version": own.version},
        "packages": packages(environment),
        "finished": time.time(),
    }
    write(environment / RECORD, json.dumps(told, indent=1))


def packages(environment: Path) -> dict[str, str]:
    """Name → version of what is installed in an environment."""
    places = [str(path) for path in environment.glob("lib/python*/site-packages")]
    found = importlib.metadata.distributions(path=places)
    named = {each.metadata["Name"]: each.version for each in found if each.metadata["Name"]}
    return dict(sorted(named.items(), key=lambda each: each[0].lower()))


def _read(environment: Path) -> dict[str, Any] | None:
    """The record of a finished environment."""
    try:
        record: dict[str, Any] = json.loads((environment / RECORD).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return record if record.get("schema") == SCHEMA else None


def _lock_file(group: str, base: Path) -> Path:
    return folders.locks(base) / f"venv-{folders.checked(group, 'install group')}"
