"""The interface of an engine, which starts jobs somewhere, looks after them, and reports how each ended.

The loop that uses it (:mod:`.job_loop`) is the same for all engines, and so are plan, journal and policy::

    JobEngine                       RunningJob
      LocalEngine                     ActiveJob           processes of this machine
      SlurmEngine                     RemoteJob           journals of the job's parts, on its machines
      SshEngine, RayEngine              SlurmJob
                                        ApartJob          ... whose files may have to be fetched
                                          SshJob, RayJob

An engine of other machines starts :mod:`.machine_part` on each machine of a job, which runs that machine's
processes with a :class:`LocalEngine` of its own.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import NamedTuple

from ..plan.jobs import Job
from . import journal
from .journal import JobRecord
from .processes import ProcessEnd


class QueuedJob(NamedTuple):
    """A job to be started, or to be adopted: one that an earlier call started and that runs still."""

    job: Job
    """The job as this attempt starts it."""
    attempt: int
    """Counted from 1."""
    adopted: float | None = None
    """When the job that is adopted was started, in Unix seconds; None for one to be started."""
    handle: str = ""
    """The engine's name for the job that is adopted."""


class RunningJob(ABC):
    """One job from its start until nothing of it is left. ``folder`` is the suite's."""

    def __init__(self, queued: QueuedJob, folder: str) -> None:
        self.job = queued.job
        self.attempt = queued.attempt
        """Counted from 1."""
        self.adopted = queued.adopted is not None
        """Whether an earlier call of ``inject suite`` started it."""
        self.folder = folder
        self.started = time.time() if queued.adopted is None else queued.adopted
        """Unix seconds."""
        self.state = journal.STARTED
        """``started``, or ``queued`` while it waits for its machines."""
        self.results: dict[str, ProcessEnd] = {}
        self.interrupted = False
        """Whether this suite ended it before it had finished."""
        self.problems: list[str] = []
        """What went wrong besides how its processes ended, as sentences."""
        self._due: dict[Callable[[], None], float] = {}
        """The actions that are to be taken, each with its monotonic time."""

    @property
    @abstractmethod
    def over(self) -> bool:
        """Whether all its processes have ended."""

    @property
    def where(self) -> str:
        """What it runs on, for people."""
        return ", ".join(self.job.devices)

    @property
    def handle(self) -> str:
        """The engine's name for it, which the journal records; empty if the engine needs none."""
        return ""

    @property
    def queue(self) -> str:
        """Where it is queued, for people."""
        return self.handle

    @property
    def seconds(self) -> float:
        """How many seconds it has been running, or took."""
        ends = [end.ended for end in self.results.values() if end.ended is not None]
        # One that is adopted may have ended hours ago, while no suite ran: only its record says when.
        known = self.adopted and self.over and ends
        return max(0.0, (max(ends) if known else time.time()) - self.started)

    def until(self) -> float:
        """The monotonic time at which :meth:`act` has something to do next."""
        return min(self._due.values())

    def act(self) -> None:
        """Take the actions that are due."""
        now = time.monotonic()
        for action in [action for action, moment in self._due.items() if moment <= now]:
            # An earlier action may have cancelled this one, or ended the job.
            if self._due.pop(action, None) is not None and not self.over:
                action()

    def _in(self, seconds: float, action: Callable[[], None]) -> None:
        """Have ``action`` taken in so many seconds, in place of an earlier time for the same action."""
        self._due[action] = time.monotonic() + seconds

    @abstractmethod
    def end(self) -> None:
        """End its programs politely, by force if they do not end, so that their records are still written."""

    @abstractmethod
    def end_now(self) -> None:
        """Kill everything at once, even if records are lost."""


Opened = Callable[..., None]
"""``opened(queued, state, **facts)`` records the start of a job in the journal."""


class JobEngine(ABC):
    """Runs the jobs of a suite somewhere."""

    at_once = 1
    """How many jobs run at the same time, unless the command line says so."""

    @abstractmethod
    def open(self) -> None:
        """Get ready; called once, before the first job. Raises UserError."""

    def limited(self, max_parallel: int | None) -> int:
        """How many jobs may have been started and not be over, if ``max_parallel`` may run at a time.

        The two differ for an engine that queues jobs. With None the engine decides.
        """
        return max_parallel or self.at_once

    def close(self) -> None:  # noqa: B027 - most have nothing to do
        """Clean up; called once, after the last job, if :meth:`open` was called."""

    def obstacles(self, queued: QueuedJob) -> list[str]:
        """Why a job cannot start at present, as sentences; if it can, its devices are now locked for it."""
        return []

    def has_room(self, job: Job) -> bool:
        """False if a job has to wait for one of those that run; true if it can start now, or never."""
        return True

    def together(self, first: QueuedJob, others: Sequence[QueuedJob]) -> list[QueuedJob]:
        """Those of ``others`` that can be started in one go with ``first``."""
        return []

    @abstractmethod
    def start(self, batch: Sequence[QueuedJob], opened: Opened) -> Sequence[RunningJob]:
        """Start the first job of ``batch`` and, in one go with it, as many of the next ones as possible.

        It calls ``opened`` for each before that really begins. The result is empty if nothing can be started
        before one of the running jobs has ended. Raises CannotStartError, OSError.
        """

    @abstractmethod
    def adopt(self, queued: QueuedJob) -> RunningJob:
        """Take over a job that an earlier call started, and for which :meth:`goes_on` was true."""

    @abstractmethod
    def look(self, active: Sequence[RunningJob]) -> None:
        """Update ``active`` with what has happened; called whenever something may have happened."""

    def clear_up(self, active: RunningJob) -> list[str]:
        """End whatever still runs of a job that is over; what that was, as sentences."""
        return []

    @abstractmethod
    def goes_on(self, job: Job, before: JobRecord, dry: bool) -> bool:
        """Whether a job whose end is not in the journal runs still, or has left a record of its end.

        If neither, it was lost, and what is left of it is ended unless ``dry``.
        """
