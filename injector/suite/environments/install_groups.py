"""One environment for each install group, with all that its benchmarks require.

::

    BASE/venv/GROUP/                           the environment
    BASE/venv/GROUP/inject-environment.json    what was required and installed; written last, so an
                                               environment without it is incomplete
    BASE/venv/GROUP.lock.txt                   the versions (requirements.Lock); outlives the environment

An environment is made anew if something in its record has changed: what a benchmark requires, the Python, the
architecture. If only this package has changed, it alone is installed again.
"""

from __future__ import annotations

import importlib.metadata
import json
import platform
import sys
import time
from collections.abc import Mapping
from contextlib import AbstractContextManager
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
    """Benchmarks that share an environment, and what they require."""

    name: str
    arch: str
    """cuda, rocm, xpu, hpu or cpu."""
    required: Mapping[str, Requirements]
    """The requirements of each benchmark, by its name."""

    @property
    def digests(self) -> dict[str, list[str]]:
        """The names of benchmarks by the digest of their requirements."""
        names_by_digest: dict[str, list[str]] = {}
        for name, required in self.required.items():
            names_by_digest.setdefault(required.digest, []).append(name)
        return names_by_digest


def python_of(benchmark: Benchmark, base: Path, use_current: bool = False) -> Path:
    """The interpreter that a benchmark runs with, which need not exist yet."""
    if use_current:
        return Path(sys.executable)
    return installers.interpreter_of(folders.venv(base, benchmark.install_group))


def why_missing(benchmark: Benchmark, base: Path) -> str | None:
    """Why the environment of ``benchmark`` cannot be used, as a sentence; None if it can.

    Raises SuiteError if its requirements name files that do not exist.
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


def keeping(group: str, base: Path, say: Say) -> AbstractContextManager[None]:
    """Keep the environment of ``group`` from being changed; several processes may do so at once."""
    return locked(_lock_file(group, base), f"the environment {group}", say, shared=True)


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
    """Make or update the environment of ``group``, if need be; returns whether anything was done.

    ``installer`` is ``uv`` or ``pip``, None for uv if the machine has it, else pip. With ``update`` it looks
    for newer versions than those in the lock, with ``force`` it makes the environment anew in any case.
    ``own`` is this package as it is to be installed, by default as it runs now. Raises Failed if something
    cannot be installed; the environment then counts as incomplete.
    """
    own = own or own_package.find_own_package(base)
    environment = folders.venv(base, group.name)
    anew = force or update
    if not anew and not work_left(group, base, own):
        return False
    with locked(_lock_file(group.name, base), f"the environment {group.name}", say):
        # Once more: another process may have done it while this one waited for the lock.
        pending = work_left(group, base, own)
        if anew:
            pending = PendingInstall("--force" if force else "--update")
        if not pending:
            return False
        own.provide()
        if pending.whole:
            installer = installers.choose_installer(installer)
            say(f"environment {group.name}: installing with {installer} ({pending.why})")
            _install(group, environment, installer, update, own)
        else:
            say(f"environment {group.name}: {pending.why}")
            record = read_record(environment / RECORD, SCHEMA)
            assert record is not None
            (environment / RECORD).unlink()
            installers.tool_for(environment, record["installer"]).install_own(own)
            _finish(environment, record, own)
        return True


class PendingInstall(NamedTuple):
    """What has to be done to an environment; false if nothing has."""

    why: str
    whole: bool = True
    """Whether the environment has to be made anew, and not only this package in it installed again."""

    def __bool__(self) -> bool:
        return bool(self.why)


def work_left(group: InstallGroup, base: Path, own: own_package.OwnPackage) -> PendingInstall:
    """What has to be done so that the environment of ``group`` has all that it requires."""
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
    """Why a complete environment does not have what the benchmarks require; empty if it has."""
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
    group: InstallGroup,
    environment: Path,
    installer: str,
    update: bool,
    own: own_package.OwnPackage,
) -> None:
    """Make an environment: from its lock if that answers the same requirements, else with a new lock."""
    lock_file = installers.file_beside(environment, "lock.txt")
    digest = requirements.digest(
        group.required.values(), group.arch, *sys.version.split(".")[:2], own.requires
    )
    lock = requirements.read_lock(lock_file)
    if update or lock is None or lock.digest != digest:
        lock = None
    installers.make_environment(environment, installer)
    tool = installers.tool_for(environment, installer)
    if lock is None:
        lock = tool.resolve(group.required, own, digest)
    else:
        tool.repeat(lock, own)
    # It must be able to run this package.
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
        "installer": installer,
        "requirements": group.digests,
        "files": sorted(
            {str(file) for required in group.required.values() for file in required.all_files()}
        ),
        "digest": digest,
        "lock": str(lock_file),
        "requires": own.requires,
    }
    _finish(environment, record, own)


def _finish(environment: Path, record: Mapping[str, Any], own: own_package.OwnPackage) -> None:
    """Write the record, with which the environment is complete."""
    record = {
        **record,
        "itself": {"requirement": own.requirement, "digest": own.digest, "version": own.version},
        "packages": packages(environment),
        "finished": time.time(),
    }
    write(environment / RECORD, json.dumps(record, indent=1))


def packages(environment: Path) -> dict[str, str]:
    """The versions of the packages that are installed in an environment, by name, in order of names."""
    folder = [str(path) for path in environment.glob("lib/python*/site-packages")]
    installed = importlib.metadata.distributions(path=folder)
    versions = {each.metadata["Name"]: each.version for each in installed if each.metadata["Name"]}
    return dict(sorted(versions.items(), key=lambda item: item[0].lower()))


def _lock_file(group: str, base: Path) -> Path:
    return folders.locks(base) / f"venv-{group}"
