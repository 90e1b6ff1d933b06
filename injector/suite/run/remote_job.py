"""A job on other machines, followed by the journals that its parts write (:mod:`.machine_part`).

How the job stands is read from these files alone, in the same way for Slurm, ssh and Ray. The engines add
what no file says: that the job waits, how its parts are ended, and that a machine was lost::

    queued -- a part has begun --> started -- all parts have ended ----------------> over
                                           -- one has failed: 20 s, then SIGTERM --> over
                                           -- the engine gives it up (lost) -------> over

The engines over ssh and of Ray start the parts one by one, on nodes that may have file systems of their own::

    here                                                        each node
    plan, journal, environments, sources (sources_of)  -->      the same paths
                                                                machine_part (words) runs
    machines/JOB.ATTEMPT.mN/ and run folders           <--      what it writes (part, runs)
    join_parts: one run of the records of all nodes
"""

from __future__ import annotations

import math
import os
import shutil
import time
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Any

from ...bus.clocks import ClockBounds
from ...bus.joining import join
from ...errors import UserError
from ...mpi import is_mpi
from ..environments.own_package import PACKAGE
from ..plan.jobs import Job, Plan, PlannedProcess
from . import journal, machine_part
from .engine import QueuedJob, RunningJob
from .journal import JobRecord
from .machine_part import apart_run, folder_of
from .processes import LOCK, STDERR, STDOUT, ProcessEnd, end_from_record
from .tracebacks import last_printed

LOOK = 0.5
"""Seconds between two looks at the journals of a job that runs."""
GRACE = 40.0
"""Seconds between a signal to parts and their end by force: they give programs some, and write records."""
TOGETHER = 20.0
"""Seconds that the other machines of a job may go on after one of them has failed."""
STUBBORN = 60.0
"""Seconds that a part which was killed is waited for."""


class RemoteJob(RunningJob):
    """One job on one machine or several."""

    may_run = True
    """Whether its parts may have begun, so that there is something to read."""

    def __init__(self, queued: QueuedJob, folder: str) -> None:
        super().__init__(queued, folder)
        self.state = journal.QUEUED
        self._parts: dict[int, JobRecord] = {}
        """By machine, the last line about the job in its journal; for those that have begun."""
        self._hosts: dict[int, str] = {}
        """By machine, its name."""
        self._over = False
        self._ends_others = False
        """Whether its parts are being ended because one of them failed."""
        self._in(0.0, self._watch)

    @property
    def over(self) -> bool:
        return self._over

    @property
    def where(self) -> str:
        hosts = ", ".join(dict.fromkeys(self._hosts[machine] for machine in sorted(self._hosts)))
        return f"{hosts}: {super().where}" if hosts else super().where

    @property
    def seconds(self) -> float:
        if self.over and self._parts and all(map(_is_over, self._parts.values())):
            return max(part.seconds for part in self._parts.values())
        return max(0.0, time.time() - self.started)

    @abstractmethod
    def terminate(self) -> None:
        """Have every part end its programs and write its record; does not wait for that."""

    @abstractmethod
    def kill(self) -> None:
        """End every part at once; does not wait for that."""

    # --- watching ----------------------------------------------------------------------------------

    def _watch(self) -> None:
        if self.may_run:
            self.read_parts()
        # At multiples of LOOK, so for all jobs at once: a thousand of them wake the suite as often as one.
        self._in(LOOK - time.monotonic() % LOOK, self._watch)

    def read_parts(self) -> None:
        """Read the journals of its parts, and act on what they say."""
        for machine in range(self.job.machines):
            part = self._parts.get(machine)
            if part is not None and _is_over(part):
                continue
            self._read_part(machine)
        if self._parts and self.state == journal.QUEUED:
            # Within what we know ourselves: the clock of a machine may be wrong.
            began = min(part.time - part.seconds for part in self._parts.values())
            self.started = min(max(began, self.started), time.time())
            self.state = journal.STARTED
        over = [part for part in self._parts.values() if _is_over(part)]
        if self.got_a_signal and not (self.interrupted or self._ends_others):
            self.ended_elsewhere()
        elif len(over) == self.job.machines:
            self._finish()
        elif any(not part.ok for part in over) and not self._ends_others:
            self._due.setdefault(self._end_others, time.monotonic() + TOGETHER)

    @property
    def got_a_signal(self) -> bool:
        """Whether a part recorded that it got a signal to end."""
        return any(part.state == journal.INTERRUPTED for part in self._parts.values())

    def ended_elsewhere(self) -> None:
        """Act on a signal to its parts that this suite did not send: give the job up once all have ended.

        An engine that will learn the reason itself waits for that instead.
        """
        if all(map(self.is_over, range(self.job.machines))):
            self.lost("it got a signal to end, which this suite did not send")

    def _read_part(self, machine: int) -> None:
        records = journal.records(folder_of(self.folder, self.job.key, self.attempt, machine))
        part = journal.jobs_of(records).get(self.job.key)
        if part is not None:
            self._parts[machine] = part
            self._hosts[machine] = str(records[0].get("host"))

    def _end_others(self) -> None:
        failed = [
            self._hosts[n] for n, part in self._parts.items() if _is_over(part) and not part.ok
        ]
        self._ends_others = True
        self.problems.append(f"its part on {', '.join(failed)} failed, and the others were ended")
        self.terminate()
        self._in(GRACE, self.kill)

    # --- ending ------------------------------------------------------------------------------------

    def end(self) -> None:
        self.interrupted = True
        self.terminate()
        self._in(GRACE, self.end_now)

    def end_now(self) -> None:
        self.interrupted = True
        self.kill()
        self._in(STUBBORN, lambda: self.lost("its machines do not say that it has ended"))

    def lost(self, why: str) -> None:
        """End the job, since its parts will write nothing more; ``why`` becomes a problem of it."""
        missing = [n for n in range(self.job.machines) if not self.is_over(n)]
        hosts = [self._hosts[machine] for machine in missing if machine in self._hosts]
        self.problems.append(f"{why} (on {', '.join(hosts)})" if hosts else why)
        self._finish()

    def is_over(self, machine: int) -> bool:
        """Whether the part of a machine has recorded its end."""
        return _is_over(self._parts.get(machine))

    def before_results(self) -> None:
        """Called when all parts are over, before the ends of its processes are read."""

    def _finish(self) -> None:
        self.before_results()
        for process in self.job.processes:
            self.results[process.key] = self._end_of(process)
        for part in self._parts.values():
            # If a process failed, its end is the reason; what the part says would only repeat that.
            well = all(not end.problem(self.folder) for end in self.results.values())
            if part.reason and (part.state == journal.NOT_STARTED or well):
                self.problems.append(part.reason)
        self._over = True

    def _end_of(self, process: PlannedProcess) -> ProcessEnd:
        """How a process ended: as its record says, else as the first of its parts that saw it fail."""
        recorded = end_from_record(self.folder, process.run)
        if recorded is not None:
            return recorded
        parts = [self._parts.get(machine, JobRecord()) for machine in process.machines]
        ends = [part.ended(process) for part in parts]
        bad = ("code", "signal", "timed_out")
        worst = next((end for end in ends if any(map(end.get, bad))), ends[0])
        code, signal = worst.get("code"), worst.get("signal")
        return ProcessEnd(process.run, code, signal, bool(worst.get("timed_out")), recorded=False)


def _is_over(part: JobRecord | None) -> bool:
    return part is not None and (part.over or part.state == journal.INTERRUPTED)


def needs_of(job: Job, described: Mapping[str, Any]) -> tuple[int, int]:
    """How many GPUs and cores a job needs on each machine; ``described`` is the machine of its plan.

    A job that is planned on ``cuda:2`` needs three GPUs: a scheduler gives it some, which it sees as numbers
    from 0. Of the cores it gets the share that its devices are of the machine's.
    """
    # Those of machine 0; a key of another machine ends with @ and its number.
    keys = [key for key, _, machine in (key.partition("@") for key in job.devices) if not machine]
    gpus = 1 + max(int(key.rpartition(":")[2]) for key in keys)
    share = min(1.0, len(keys) / len(described["devices"]))
    cpus = max(1, math.floor(described["cpu_count"] * share))
    return 0 if keys[0].startswith("cpu") else gpus, cpus


def parts_are_over(folder: str, key: str, attempt: int, machines: int) -> bool:
    """Whether the parts of all ``machines`` of a job have recorded their end. ``folder`` is the suite's."""
    folders = [folder_of(folder, key, attempt, machine) for machine in range(machines)]
    return all(_is_over(journal.read(part_folder).get(key)) for part_folder in folders)


# --- parts that are started one by one ---------------------------------------------------------------

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
