"""One environment for each install group: everything that its benchmarks want, together.

``BASE/venv/GROUP/`` is finished when ``inject-environment.json`` lies in it, which is written last. It
records what was required and what was installed; ``BASE/venv/GROUP.lock.txt`` has the versions, and
outlives the environment.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import json
import platform
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from ..config.model import Benchmark
from . import folders, installers, own_package, requirements
from .commands import Say, call, locked, read_record, write
from .requirements import Requirements

RECORD = "inject-environment.json"
SCHEMA = 1


@dataclass(frozen=True)
class InstallGroup:
    """What has to be installed together."""

    name: str
    arch: str
    """cuda, rocm, xpu, hpu or cpu."""
    required: Mapping[str, Requirements]
    """By benchmark."""

    @property
    def digests(self) -> dict[str, list[str]]:
        """Benchmarks by the digest of their requirements."""
        found: dict[str, list[str]] = {}
        for name, required in self.required.items():
            found.setdefault(required.digest, []).append(name)
        return found


def python_of(benchmark: Benchmark, base: Path, use_current: bool = False) -> Path:
    """The interpreter that a benchmark runs with. It need not be there yet."""
    if use_current:
        return installers.current_interpreter()
    return installers.interpreter_of(folders.venv(base, benchmark.install_group))


def why_missing(benchmark: Benchmark, base: Path) -> str | None:
    """Why the environment of ``benchmark`` cannot be used; None if it can.

    Raises:
        SuiteError: its requirements name files that are not there.
    """
    environment = folders.venv(base, benchmark.install_group)
    record = read_record(environment / RECORD, SCHEMA)
    if record is None:
        return (
            f"the environment {benchmark.install_group} is not installed, and --use-current-env is "
            "not given"
        )
    required = requirements.requirements_of(benchmark, record["arch"], base)
    group = InstallGroup(benchmark.install_group, record["arch"], {benchmark.name: required})
    why = _outdated(group, environment, record)
    return f"the environment {benchmark.install_group} is not up to date: {why}" if why else None


@contextlib.contextmanager
def keeping(group: str, base: Path, say: Say) -> Iterator[None]:
    """Keep the environment of ``group`` from being changed; any number of processes may do so."""
    with locked(_lock_file(group, base), f"the environment {group}", say, shared=True):
        yield


def install(
    group: InstallGroup,
    base: Path,
    say: Say,
    *,
    installer: str | None = None,
    update: bool = False,
    force: bool = False,
    own: own_package.OwnPackage | None = None,
) -> bool:
    """Have the environment of ``group``; whether anything had to be done for it.

    ``installer``: ``uv`` or ``pip``; uv where it is, if None. ``update`` looks for newer versions
    than those of the lock; ``force`` makes the environment anew. ``own``: this package, if not as it
    runs now.

    Raises:
        Failed: something cannot be installed; what is there does not count as finished.
    """
    own = own or own_package.find_own_package(base)
    environment = folders.venv(base, group.name)
    anew = force or update
    if not anew and not work_left(group, base, own):
        return False
    with locked(_lock_file(group.name, base), f"the environment {group.name}", say):
        todo = work_left(group, base, own)
        if anew:
            todo = PendingInstall("--force" if force else "--update")
        if not todo:
            return False  # another process has made it meanwhile
        own.provide()
        if todo.whole:
            how = installers.choose_installer(installer)
            say(f"environment {group.name}: installing with {how} ({todo.why})")
            _install(group, environment, how, update, own)
        else:
            say(f"environment {group.name}: {todo.why}")
            _renew_itself(environment, own)
        return True


class PendingInstall(NamedTuple):
    """What has to be done to an environment; false where it is nothing."""

    why: str
    whole: bool = True
    """Whether it has to be made anew; else only this package in it."""

    def __bool__(self) -> bool:
        return bool(self.why)


def work_left(group: InstallGroup, base: Path, own: own_package.OwnPackage) -> PendingInstall:
    """What has to be done so that an environment has what ``group`` wants."""
    environment = folders.venv(base, group.name)
    record = read_record(environment / RECORD, SCHEMA)
    if record is None:
        return PendingInstall(
            "it was left unfinished" if environment.exists() else "it is not there"
        )
    if why := _outdated(group, environment, record):
        return PendingInstall(why)
    if record["requires"] != own.requires:
        return PendingInstall("inject wants other packages than it did")
    if record["itself"]["digest"] != own.digest:
        return PendingInstall(f"it is given inject {own.version} as it is now", whole=False)
    return PendingInstall("")


def _outdated(group: InstallGroup, environment: Path, record: Mapping[str, Any]) -> str:
    """Why it does not hold what the benchmarks want."""
    if not installers.interpreter_of(environment).exists():
        return f"its Python, {record['interpreter']}, is gone"
    if record["arch"] != group.arch:
        return f"it is for {record['arch']}"
    if record["python"].rpartition(".")[0] != platform.python_version().rpartition(".")[0]:
        return f"it is of Python {record['python']}"
    known = record.get("requirements", record.get("asked", {}))  # its key in older records
    new = [names for digest, names in group.digests.items() if digest not in known]
    if new:
        return f"the requirements of {', '.join(name for names in new for name in names)} are new"
    return ""


def _install(
    group: InstallGroup, environment: Path, how: str, update: bool, own: own_package.OwnPackage
) -> None:
    lock_file = installers.file_beside(environment, "lock.txt")
    digest = requirements.digest(
        group.required.values(), group.arch, *sys.version.split(".")[:2], own.requires
    )
    lock = requirements.read_lock(lock_file)
    if update or lock is None or lock.digest != digest:
        lock = None
    installers.make_environment(environment, how)
    tool = installers.tool_for(environment, how)
    if lock is None:
        lock = tool.resolve(group.required, own, digest)
    else:
        tool.repeat(lock, own)
    call(
        [installers.interpreter_of(environment), "-m", "injector", "--version"],
        environ=installers.installer_environ(),
    )
    write(lock_file, lock.text())
    record = {
        "schema": SCHEMA,
        "group": group.name,
        "arch": group.arch,
        "python": platform.python_version(),
        "interpreter": str(installers.interpreter_of(environment).resolve()),
        "installer": how,
        "requirements": group.digests,
        "files": sorted({str(f) for each in group.required.values() for f in each.all_files()}),
        "digest": digest,
        "lock": str(lock_file),
        "requires": own.requires,
    }
    _finish(environment, record, own)


def _renew_itself(environment: Path, own: own_package.OwnPackage) -> None:
    """Only this package is another one."""
    record = read_record(environment / RECORD, SCHEMA)
    assert record is not None
    (environment / RECORD).unlink()
    installers.tool_for(environment, record["installer"]).install_own(own)
    _finish(environment, record, own)


def _finish(environment: Path, record: Mapping[str, Any], own: own_package.OwnPackage) -> None:
    record = {
        **record,
        "itself": {"requirement": own.requirement, "digest": own.digest, "version": own.version},
        "packages": packages(environment),
        "finished": time.time(),
    }
    write(environment / RECORD, json.dumps(record, indent=1))


def packages(environment: Path) -> dict[str, str]:
    """Name → version of what is installed in an environment."""
    places = [str(path) for path in environment.glob("lib/python*/site-packages")]
    found = importlib.metadata.distributions(path=places)
    named = {each.metadata["Name"]: each.version for each in found if each.metadata["Name"]}
    return dict(sorted(named.items(), key=lambda each: each[0].lower()))


def _lock_file(group: str, base: Path) -> Path:
    return folders.locks(base) / f"venv-{folders.checked(group, 'install group')}"
