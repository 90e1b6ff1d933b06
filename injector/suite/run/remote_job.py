"""A job on machines that an engine reaches: what becomes of it is read in the journals of its parts.

See :mod:`.machine_part` for what runs there. Engines only know how to end it, and when a machine is gone.
"""

from __future__ import annotations

import math
import time
from abc import abstractmethod
from collections.abc import Mapping
from typing import Any

from ..plan.jobs import Job, PlannedProcess
from . import journal
from .engine import QueuedJob, RunningJob
from .journal import JobRecord
from .machine_part import folder_of
from .processes import ProcessEnd, end_from_record

LOOK = 0.5
"""Seconds between two looks at the journals of a job that runs."""
GRACE = 40.0
"""Seconds in which parts end after a signal to do so: theirs for programs, and time to write records."""
TOGETHER = 20.0
"""Seconds that the other machines of a job go on after one of them failed."""
STUBBORN = 60.0
"""Seconds after which a part that was killed is no longer waited for."""


class RemoteJob(RunningJob):
    """One job on one machine or several."""

    may_run = True
    """Whether there can be something to read."""

    def __init__(self, queued: QueuedJob, folder: str) -> None:
        super().__init__(queued, folder)
        self.state = journal.QUEUED
        self._parts: dict[int, JobRecord] = {}
        """By machine, what its journal has last of the job."""
        self._hosts: dict[int, str] = {}
        self._over = False
        self._ends_others = False
        self._in(0.0, self._watch)

    @property
    def over(self) -> bool:
        return self._over

    @property
    def where(self) -> str:
        hosts = ", ".join(dict.fromkeys(self._hosts[each] for each in sorted(self._hosts)))
        return f"{hosts}: {super().where}" if hosts else super().where

    @property
    def seconds(self) -> float:
        if self.over and self._parts and all(map(_is_over, self._parts.values())):
            return max(each.seconds for each in self._parts.values())
        return max(0.0, time.time() - self.started)

    @abstractmethod
    def terminate(self) -> None:
        """Ask every part to end its programs and write its record."""

    @abstractmethod
    def kill(self) -> None:
        """End every part at once."""

    # --- watching ----------------------------------------------------------------------------------

    def _watch(self) -> None:
        if self.may_run:
            self.read_parts()
        # All jobs at the same moments: a thousand of them wake the suite as often as one does.
        self._in(LOOK - time.monotonic() % LOOK, self._watch)

    def read_parts(self) -> None:
        """Read how far its parts are."""
        for machine in range(self.job.machines):
            known = self._parts.get(machine)
            if known is not None and _is_over(known):
                continue
            self._read_part(machine)
        if self._parts and self.state == journal.QUEUED:
            began = min(each.time - each.seconds for each in self._parts.values())
            self.started = min(max(began, self.started), time.time())  # their clocks may be wrong
            self.state = journal.STARTED
        over = [each for each in self._parts.values() if _is_over(each)]
        if self.got_a_signal and not (self.interrupted or self._ends_others):
            self.ended_elsewhere()
        elif len(over) == self.job.machines:
            self._finished()
        elif any(not each.ok for each in over) and not self._ends_others:
            self._due.setdefault(self._end_others, time.monotonic() + TOGETHER)

    @property
    def got_a_signal(self) -> bool:
        """Whether a part was sent a signal to end."""
        return any(each.state == journal.INTERRUPTED for each in self._parts.values())

    def ended_elsewhere(self) -> None:
        """Something other than this suite ended it. Where the engine will say why, it is waited for."""
        if all(map(self.is_over, range(self.job.machines))):
            self.lost("it got a signal to end, which this suite did not send")

    def _read_part(self, machine: int) -> None:
        records = journal.records(folder_of(self.folder, self.job.key, self.attempt, machine))
        found = journal.jobs_of(records).get(self.job.key)
        if found is not None:
            self._parts[machine] = found
            self._hosts[machine] = str(records[0].get("host"))

    def _end_others(self) -> None:
        failed = [
            self._hosts[n] for n, each in self._parts.items() if _is_over(each) and not each.ok
        ]
        self._ends_others = True
        self.problems.append(f"its part on {', '.join(failed)} failed, and the others were ended")
        self.terminate()
        self._in(GRACE, self.kill)

    def began_anew(self, queued: QueuedJob) -> None:
        """It was put back into a queue, and will run once more."""
        self.job, self.attempt = queued.job, queued.attempt
        self.state = journal.QUEUED
        self._parts.clear()
        self._hosts.clear()

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
        """Nothing more will come of its parts."""
        missing = [n for n in range(self.job.machines) if not self.is_over(n)]
        hosts = [self._hosts[each] for each in missing if each in self._hosts]
        self.problems.append(f"{why} (on {', '.join(hosts)})" if hosts else why)
        self._finished()

    def is_over(self, machine: int) -> bool:
        """Whether the part of a machine has written down its end."""
        return _is_over(self._parts.get(machine))

    def before_results(self) -> None:
        """Called when all parts are over, before it is read how its processes ended."""

    def _finished(self) -> None:
        self.before_results()
        for process in self.job.processes:
            self.results[process.key] = self._end_of(process)
        for each in self._parts.values():
            well = all(not end.problem(self.folder) for end in self.results.values())
            if each.reason and (each.state == journal.NOT_STARTED or well):
                self.problems.append(each.reason)
        self._over = True

    def _end_of(self, process: PlannedProcess) -> ProcessEnd:
        found = end_from_record(self.folder, process.run)
        if found is not None:
            return found
        parts = [self._parts.get(machine, JobRecord()) for machine in process.machines]
        ends = [each.ended(process) for each in parts]
        worst = next((each for each in ends if _is_bad(each)), ends[0])
        code, signal = worst.get("code"), worst.get("signal")
        return ProcessEnd(process.run, code, signal, bool(worst.get("timed_out")), recorded=False)


def _is_over(part: JobRecord | None) -> bool:
    return part is not None and (part.over or part.state == journal.INTERRUPTED)


def _is_bad(end: Mapping[str, object]) -> bool:
    return bool(end.get("code") or end.get("signal") or end.get("timed_out"))


def needs_of(job: Job, described: Mapping[str, Any]) -> tuple[int, int]:
    """GPUs and cores that a job needs of each machine; ``described``: the machine of its plan.

    Numbers of devices count those that a job is given: ``cuda:2`` needs three.
    """
    keys = [key for key, _, machine in (each.partition("@") for each in job.devices) if not machine]
    most = 1 + max(int(key.rpartition(":")[2]) for key in keys)
    share = min(1.0, len(keys) / len(described["devices"]))
    cpus = max(1, math.floor(described["cpu_count"] * share))
    return 0 if keys[0].startswith("cpu") else most, cpus


def parts_are_over(folder: str, key: str, attempt: int, machines: int) -> bool:
    """Whether every machine of a job has written down its end. ``folder`` is the suite's."""
    folders = [folder_of(folder, key, attempt, number) for number in range(machines)]
    return all(_is_over(journal.read(each).get(key)) for each in folders)
