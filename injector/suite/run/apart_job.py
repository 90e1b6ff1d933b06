"""A job whose parts are started one by one, on nodes that may have file systems of their own.

This is what the engines over ssh and of Ray have in common::

    here                                                        each node
    plan, journal, environments, sources (sources_of)  -->      the same paths
                                                                machine_part (words) runs
    machines/JOB.ATTEMPT.mN/ and run folders           <--      what it writes (part, runs)
    join_parts: one run of the records of all nodes
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
from .tracebacks import last_printed

OUTPUT = "output"
"""The file, in the folder of a part, with what the part prints."""


class ApartJob(RemoteJob):
    """One job, each of whose parts records on its own node."""

    def part(self, machine: int) -> str:
        """The folder of a machine's part."""
        return folder_of(self.folder, self.job.key, self.attempt, machine)

    def words(self, machine: int) -> list[str]:
        """The command that runs a machine's part."""
        python = next(p.command[0] for p in self.job.processes if machine in p.machines)
        words = [python, "-m", machine_part.__name__, "--apart"]
        return [*words, self.folder, self.job.key, str(self.attempt), str(machine), self.handle]

    def runs(self, machine: int) -> Iterator[str]:
        """The run folders to which only this machine writes."""
        for process in self.job.processes:
            if process.machines == (machine,):
                yield os.path.join(self.folder, process.run)

    def has_all(self, machine: int) -> bool:
        """Whether all files of a machine's part are here, if its journal says that it has ended."""
        return True

    def _read_part(self, machine: int) -> None:
        before = self._parts.get(machine)
        super()._read_part(machine)
        # Files come one by one: the journal with the part's end may be here before its records are.
        if self.is_over(machine) and not self.has_all(machine):
            self._parts.pop(machine)
            self._parts |= {machine: before} if before else {}

    def clock(self, machine: int) -> ClockBounds | None:
        """How far the clock of a machine's node is ahead of ours; None if that is not known."""
        return None

    def part_lost(self, machine: int, node: str) -> None:
        """End the job: a machine's part has ended without recording that in its journal."""
        printed = last_printed(os.path.join(self.part(machine), OUTPUT))
        why = printed or "and left no word of it"
        self.lost(f"inject on node {node} ended: {why}")

    def before_results(self) -> None:
        join_parts(self, self.clock)


def join_parts(job: RemoteJob, clock: Callable[[int], ClockBounds | None]) -> None:
    """Join the runs that the machines of each process of ``job`` recorded apart into one run.

    ``clock`` is :meth:`ApartJob.clock`, or does the same. If they cannot be joined, that becomes a problem of
    the job.
    """
    for process in job.job.processes:
        if len(process.machines) == 1:
            continue
        whole = os.path.join(job.folder, process.run)
        parts = []
        for machine in process.machines:
            part_folder = folder_of(job.folder, job.job.key, job.attempt, machine)
            parts.append(os.path.join(job.folder, apart_run(part_folder, process)))
        if os.path.exists(whole):  # a suite that was killed has joined them already
            continue
        try:
            os.makedirs(os.path.dirname(whole), exist_ok=True)
            join(parts, whole, [clock(n) for n in process.machines])
        except (UserError, OSError) as error:
            job.problems.append(f"the records of its machines are not one run: {error}")
            os.makedirs(whole, exist_ok=True)
        # The output of the job is that of machine 0's part.
        for name in (STDOUT, STDERR, LOCK):
            with suppress(OSError):
                shutil.copyfile(os.path.join(parts[0], name), os.path.join(whole, name))


def sources_of(plan: Plan) -> list[str]:
    """The paths that nodes need: the base folder, what commands name, where they run, and this package.

    None of them is below another.
    """
    sources = dict.fromkeys([plan.base])
    for process in (process for job in plan.jobs for process in job.processes):
        if environment := _environment_of(process.command[0]):
            sources[environment] = None
        for word in process.command[1:]:
            # The folder of a script, since what it imports lies beside it. A node has an mpirun of its own.
            if os.path.isabs(word) and os.path.isfile(word) and not is_mpi(word):
                sources[os.path.dirname(word)] = None
        if os.path.isdir(process.folder):
            sources[process.folder] = None
    shipped = (PACKAGE, *(PACKAGE.parent / name for name in ("voirfiles", "benchmarks")))
    sources |= {str(path): None for path in shipped if path.is_dir()}
    return [
        path
        for path in sources
        if not any(path != each and path.startswith(f"{each.rstrip('/')}/") for each in sources)
    ]


def not_copied(plan: Plan, folder: str) -> list[str]:
    """What no node needs of a suite's sources: paths, and patterns of names. ``folder`` is the suite's."""
    return [f"{folder}/jobs", f"{plan.base}/runs", "__pycache__"]


def _environment_of(python: str) -> str | None:
    """The folder of a Python's virtual environment; None for the system's Python, which each node has."""
    prefix = os.path.dirname(os.path.dirname(python))
    return prefix if os.path.exists(os.path.join(prefix, "pyvenv.cfg")) else None
