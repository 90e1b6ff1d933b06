"""``journal.jsonl``: every change of a job's state, one line each, which a suite is resumed from.

A line is on the disk before what it announces is done, so that after a crash nothing runs that the journal
does not know of. Besides its facts, each line holds its number (``line``, from 0) and a checksum of the
rest, by which a reader detects lines that were changed, lost or doubled::

    {"event": "begin", "time": 1760000000.1, "pid": 71, ..., "line": 0, "checksum": "..."}
    {"event": "job", "time": 1760000001.3, "key": "resnet50.R0", "state": "started", "attempt": 1, ...}
    {"event": "job", "time": 1760000093.7, "key": "resnet50.R0", "state": "finished", "ok": true, ...}
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ...store.folder import JOURNAL
from ...store.logs import Damage, read_records
from ...store.run_json import checksum_of
from ..plan.jobs import PlannedProcess

FILE = JOURNAL
LARGEST = 1 << 26
"""How many bytes of a journal are read at most; no suite writes as many."""

QUEUED, STARTED, FINISHED = "queued", "started", "finished"
NOT_STARTED, INTERRUPTED = "failed-to-start", "interrupted"
NEVER = "never"
"""The state of a job that has no line in the journal."""
WAITING = (NEVER, QUEUED)
"""The states of a job that has not begun."""


@dataclass(frozen=True)
class JobRecord:
    """What the journal's last line about a job says; the default is that of a job without a line."""

    state: str = NEVER
    attempt: int = 0
    time: float = 0.0
    """When the line was written, in Unix seconds."""
    ok: bool = False
    reason: str = ""
    seconds: float = 0.0
    """How long it took, if it has finished."""
    processes: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """By the process's key its run folder (``run``), and how it ended."""
    boot: str = ""
    """The boot id of the machine when the job started there."""
    handle: str = ""
    """The engine's name for it, such as the number of a Slurm job."""

    @property
    def over(self) -> bool:
        """Whether the job has ended for good, well or not."""
        return self.state in (FINISHED, NOT_STARTED)

    @property
    def failed(self) -> bool:
        return self.over and not (self.ok and self.state == FINISHED)

    def ended(self, process: PlannedProcess) -> Mapping[str, Any]:
        """How ``process`` ended: ``code signal timed_out run``; empty if it has not."""
        return self.processes.get(process.key) or {}

    def run_of(self, process: PlannedProcess) -> str:
        """The run folder of the latest attempt of ``process``, relative to the suite's."""
        return str(self.ended(process).get("run") or process.run)


class Journal:
    """Appends to the journal in ``folder``. Raises OSError if it cannot be opened."""

    def __init__(self, folder: str) -> None:
        self.path = os.path.join(folder, FILE)
        self._file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o666)
        self.problem: str | None = None
        """Why a line could not be written, if that happened."""
        size = os.fstat(self._file).st_size
        self._truncated = size > 0 and os.pread(self._file, 1, size - 1) != b"\n"
        """Whether the last line lacks its end."""
        self._next = read_lines(folder).next

    def write(self, event: str, **facts: Any) -> None:
        """Append a line, which is safe from a loss of power when this returns.

        If that fails, ``problem`` says why, and the suite goes on.
        """
        record = {"event": event, "time": time.time(), **facts}
        # A suite killed while it wrote leaves half a line: glued to it, this one could not be read either.
        line = ("\n" if self._truncated else "") + numbered(record, self._next)
        try:
            data = line.encode()
            self._truncated = True  # until all of it is there
            while data:
                data = data[os.write(self._file, data) :]
            self._truncated = False
            self._next += 1
            os.fsync(self._file)
        except OSError as error:
            self.problem = f"{self.path}: {error.strerror}"

    def job(self, key: str, state: str, attempt: int, **facts: Any) -> None:
        self.write("job", key=key, state=state, attempt=attempt, **facts)

    def close(self) -> None:
        os.close(self._file)


def write_all(folder: str, records: Iterable[Mapping[str, Any]]) -> None:
    """Write a whole journal at once, of jobs that were not run by :class:`.job_loop.JobLoop`.

    Each record has its ``event`` and ``time``. Raises OSError, also if there is a journal already.
    """
    with open(os.path.join(folder, FILE), "x", encoding="utf-8") as file:
        file.writelines(numbered(record, number) for number, record in enumerate(records))


def numbered(record: Mapping[str, Any], number: int) -> str:
    """The line for a record, with its number and checksum."""
    numbered = {**record, "line": number}
    return json.dumps({**numbered, "checksum": checksum_of(numbered)}) + "\n"


def read(folder: str) -> dict[str, JobRecord]:
    """The state of each job, by its key. Damaged lines are ignored."""
    return jobs_of(records(folder))


def jobs_of(lines: Iterable[Mapping[str, Any]]) -> dict[str, JobRecord]:
    """The state of each job after ``lines``, by its key."""
    jobs: dict[str, JobRecord] = {}
    for record in lines:
        if record["event"] != "job":
            continue
        before = jobs.get(record["key"])
        jobs[record["key"]] = JobRecord(
            record["state"],
            record["attempt"],
            record["time"],
            bool(record.get("ok")),
            str(record.get("reason") or ""),
            float(record.get("seconds") or 0),
            record.get("processes") or {},
            # Only the line of its start has the boot id.
            str(record.get("boot") or (before.boot if before else "")),
            str(record.get("handle") or ""),
        )
    return jobs


def records(folder: str) -> list[dict[str, Any]]:
    """All undamaged lines of the journal in ``folder``; none if there is no journal."""
    return read_lines(folder).records


class Lines(NamedTuple):
    """The content of a journal, and its damage."""

    records: list[dict[str, Any]]
    """The undamaged lines, each once."""
    changed: int
    """How many lines are not as they were written, such as the half line of a suite that was killed."""
    lost: int
    """How many numbers below the largest one are missing."""
    doubled: int
    """How many lines repeat the number of an earlier one."""

    @property
    def next(self) -> int:
        """The number of the next line to be written."""
        return max((record["line"] for record in self.records), default=-1) + 1


def read_lines(folder: str) -> Lines:
    """The journal in ``folder``; an empty one if it cannot be read."""
    damage = Damage()
    lines: list[dict[str, Any]] = []
    with suppress(OSError):
        lines.extend(read_records(os.path.join(folder, FILE), damage, LARGEST))
    undamaged = [line for line in lines if line.pop("checksum", None) == checksum_of(line)]
    once: dict[int, dict[str, Any]] = {}
    for line in undamaged:
        once.setdefault(line["line"], line)
    changed = len(lines) - len(undamaged) + damage.torn
    lost = max(once, default=-1) + 1 - len(once)
    return Lines(list(once.values()), changed, lost, len(undamaged) - len(once))
