"""A job whose parts are started one by one, on nodes that may have file systems of their own.

What the engines over ssh and of Ray have in common: what a part is started with, which files its node needs,
what it writes, and that the records of ranks on several nodes become one run.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress

from ...bus.clocks import ClockBounds
from ...bus.joining import join
from ...errors import UserError
from ...mpi import is_mpi
from ..environments.own_package import PACKAGE
from ..plan.jobs import Plan
from . import machine_part
from .machine_part import apart_run, folder_of
from .processes import LOCK, STDERR, STDOUT
from .remote_job import RemoteJob

OUTPUT = "output"
"""The file of a part that has what it prints."""


class ApartJob(RemoteJob):
    """One job, each of whose parts records on its own node."""

    def part(self, machine: int) -> str:
        """The folder of a machine's part."""
        return folder_of(self.folder, self.job.key, self.attempt, machine)

    def words(self, machine: int) -> list[str]:
        """What a machine's part is started with."""
        python = next(p.command[0] for p in self.job.processes if machine in p.machines)
        words = [python, "-m", machine_part.__name__, "--apart"]
        return [*words, self.folder, self.job.key, str(self.attempt), str(machine), self.handle]

    def runs(self, machine: int) -> Iterator[str]:
        """The run folders that only this machine writes to."""
        for each in self.job.processes:
            if each.machines == (machine,):
                yield os.path.join(self.folder, each.run)

    def has_all(self, machine: int) -> bool:
        """Whether all that a machine's part has written is here, once its journal says that it has ended."""
        return True

    def _read_part(self, machine: int) -> None:
        before = self._parts.get(machine)
        super()._read_part(machine)
        if self.is_over(machine) and not self.has_all(machine):
            self._parts.pop(
                machine
            )  # files come one by one: the journal may be here before a record
            self._parts |= {machine: before} if before else {}

    def clock(self, machine: int) -> ClockBounds | None:
        """How far the clock of a machine's node is ahead of ours, where that can be measured."""
        return None

    def last_line(self, machine: int) -> str:
        """What a part printed last."""
        path = os.path.join(self.part(machine), OUTPUT)
        try:
            with open(path, encoding="utf-8", errors="replace") as file:
                return file.read().strip().rpartition("\n")[2]
        except OSError:
            return ""

    def part_lost(self, machine: int, node: str) -> None:
        """A machine's part has ended without writing that down."""
        why = self.last_line(machine) or "and left no word of it"
        self.lost(f"inject on node {node} ended: {why}")

    def before_results(self) -> None:
        join_parts(self, self.clock)


def join_parts(job: RemoteJob, clock: Callable[[int], ClockBounds | None]) -> None:
    """Make one run of what the ranks of several machines recorded apart, of each process of ``job``.

    ``clock``: of a machine's node, as :meth:`ApartJob.clock`.
    """
    for process in job.job.processes:
        if len(process.machines) == 1:
            continue
        whole = os.path.join(job.folder, process.run)
        parts = []
        for machine in process.machines:
            own = folder_of(job.folder, job.job.key, job.attempt, machine)
            parts.append(os.path.join(job.folder, apart_run(own, process)))
        if os.path.exists(whole):  # by a suite that was killed
            continue
        try:
            os.makedirs(os.path.dirname(whole), exist_ok=True)
            join(parts, whole, [clock(n) for n in process.machines])
        except (UserError, OSError) as error:
            job.problems.append(f"the records of its machines are not one run: {error}")
            os.makedirs(whole, exist_ok=True)
        for name in (STDOUT, STDERR, LOCK):
            with suppress(OSError):
                shutil.copyfile(os.path.join(parts[0], name), os.path.join(whole, name))


def sources_of(plan: Plan) -> list[str]:
    """The paths that nodes need: what commands name, what they run in, and the base folder."""
    found = dict.fromkeys([plan.base])
    for process in (each for job in plan.jobs for each in job.processes):
        if environment := _environment(process.command[0]):
            found[environment] = None
        for word in process.command[1:]:
            if os.path.isabs(word) and os.path.isfile(word) and not is_mpi(word):
                found[os.path.dirname(word)] = None  # what it imports lies beside it
        if os.path.isdir(process.folder):
            found[process.folder] = None
    shipped = (PACKAGE, *(PACKAGE.parent / name for name in ("voirfiles", "benchmarks")))
    found |= {str(path): None for path in shipped if path.is_dir()}
    return [path for path in found if not any(_is_below(path, other) for other in found)]


def not_copied(plan: Plan, folder: str) -> list[str]:
    """What of the sources of a suite, whose run folder is ``folder``, no node needs."""
    return [f"{folder}/jobs", f"{plan.base}/runs", "__pycache__"]


def _environment(python: str) -> str | None:
    """The environment of a Python; None for one of the system, which each node has for itself."""
    prefix = os.path.dirname(os.path.dirname(python))
    return prefix if os.path.exists(os.path.join(prefix, "pyvenv.cfg")) else None


def _is_below(path: str, other: str) -> bool:
    return path != other and path.startswith(other.rstrip("/") + "/")
