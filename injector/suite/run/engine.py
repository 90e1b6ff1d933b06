"""What an engine is: it starts jobs somewhere, looks after them, and says how each has ended.

The loop that asks it (:mod:`.job_loop`) is the same for all engines, and so are plan, journal and policy.
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
    """A job that is to run, or that runs already."""

    job: Job
    """As this attempt starts it."""
    attempt: int
    adopted: float | None = None
    """When it was started (unix seconds), if that was done before us."""
    handle: str = ""
    """What the engine calls one that was started before us."""


class RunningJob(ABC):
    """One job from its start until nothing is left of it. ``folder`` is the suite's."""

    def __init__(self, queued: QueuedJob, folder: str) -> None:
        self.job = queued.job
        self.attempt = queued.attempt
        """Counted from 1."""
        self.adopted = queued.adopted is not None
        """Whether it was running when we came."""
        self.folder = folder
        self.started = time.time() if queued.adopted is None else queued.adopted
        """Unix seconds."""
        self.state = journal.STARTED
        """``started``, or ``queued`` while it waits for its machines."""
        self.results: dict[str, ProcessEnd] = {}
        self.interrupted = False
        """Whether it was ended before it had finished."""
        self.problems: list[str] = []
        """What went wrong besides how its processes ended, as sentences."""
        self._due: dict[Callable[[], None], float] = {}

    @property
    @abstractmethod
    def over(self) -> bool:
        """Whether all its processes have ended."""

    @property
    def where(self) -> str:
        """What it runs on."""
        return ", ".join(self.job.devices)

    @property
    def handle(self) -> str:
        """What the engine knows it by, for the journal; nothing where it needs no name."""
        return ""

    @property
    def queue(self) -> str:
        """Where it is queued, for people."""
        return self.handle

    @property
    def seconds(self) -> float:
        """How long it has been running, or took."""
        ends = [each.ended for each in self.results.values() if each.ended is not None]
        known = self.adopted and self.over and ends
        return max(0.0, (max(ends) if known else time.time()) - self.started)

    def until(self) -> float:
        """The monotonic time at which :meth:`act` has something to do."""
        return min(self._due.values())

    def act(self) -> None:
        """Do what is due."""
        now = time.monotonic()
        for action in [each for each, moment in self._due.items() if moment <= now]:
            if self._due.pop(action, None) is not None and not self.over:
                action()

    def _in(self, seconds: float, action: Callable[[], None]) -> None:
        self._due[action] = time.monotonic() + seconds

    @abstractmethod
    def end(self) -> None:
        """Ask its programs to end; by force if they do not, so that their records are still written."""

    @abstractmethod
    def end_now(self) -> None:
        """End everything at once, whatever that leaves."""


Opened = Callable[..., None]
"""``opened(state, **facts)`` writes the beginning of a job into the journal."""


class JobEngine(ABC):
    """Where the jobs of a suite run."""

    at_once = 1
    """Jobs at the same time, unless the command line says how many."""

    @abstractmethod
    def open(self) -> None:
        """Called once, before the first job. Raises UserError."""

    def limited(self, max_parallel: int | None) -> int:
        """How many jobs may be started and not over, where ``max_parallel`` of them may run at a time.

        None: as the engine is made for.
        """
        return max_parallel or self.at_once

    def close(self) -> None:  # noqa: B027 - most have nothing to do
        """Called once, after the last job, when :meth:`open` was called."""

    def obstacles(self, queued: QueuedJob) -> list[str]:
        """Why a job cannot begin at present, as sentences; where it can, its devices are held for it."""
        return []

    def has_room(self, job: Job) -> bool:
        """Whether a job can be started now, or never: else it waits for one of those that run."""
        return True

    @abstractmethod
    def start(self, queued: QueuedJob, opened: Opened) -> RunningJob:
        """Start a job, which ``opened`` writes down before it begins.

        Raises CannotStartError, OSError.
        """

    def together(self, first: QueuedJob, others: Sequence[QueuedJob]) -> list[QueuedJob]:
        """Those of ``others``, which wait, that are started in one go with ``first``."""
        return []

    def start_all(
        self, batch: Sequence[QueuedJob], opened: Callable[[Job, int], Opened]
    ) -> list[RunningJob]:
        """Start the first job of ``batch``, and as many of the next ones as can be in one go.

        ``opened``: of a job and its attempt. Nothing is started, and nothing returned, where there is room
        again when one of those that run has ended. Raises CannotStartError, OSError.
        """
        job, attempt, *_ = batch[0]
        return [self.start(batch[0], opened(job, attempt))]

    @abstractmethod
    def adopt(self, queued: QueuedJob) -> RunningJob:
        """A job that was started before us."""

    @abstractmethod
    def look(self, active: Sequence[RunningJob]) -> None:
        """Take note of what has become of ``active``; called whenever something may have."""

    def clear_up(self, active: RunningJob) -> list[str]:
        """Leave nothing running of a job that is over; what had to be ended, as sentences."""
        return []

    @abstractmethod
    def goes_on(self, job: Job, before: JobRecord, dry: bool) -> bool:
        """Whether ``job``, whose end is not in the journal, runs or has ended; false: it was lost.

        What is left of one that was lost is ended, unless ``dry``.
        """
