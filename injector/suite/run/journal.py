"""``journal.jsonl``: what has become of each job of a plan, line by line, on the disk at once.

Each line has its number (``line``, from 0) and a checksum over the rest of it, so that a reader can name what
was changed, lost or doubled. A journal of an earlier version has neither, and is read as it is.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ...store.folder import JOURNAL
from ...store.logs import Damage, read_records
from ...store.run_json import checksum_of
from ..plan.jobs import PlannedProcess

FILE = JOURNAL
LARGEST = 1 << 26
"""Bytes of a journal that are read: no suite writes as many."""

QUEUED, STARTED, FINISHED = "queued", "started", "finished"
NOT_STARTED, INTERRUPTED = "failed-to-start", "interrupted"
NEVER = "never"
"""The state of a job that has no line in the journal."""
WAITING = (NEVER, QUEUED)
"""States of a job that has not begun."""


@dataclass(frozen=True)
class JobRecord:
    """The last line that the journal has of one job."""

    state: str = NEVER
    attempt: int = 0
    time: float = 0.0
    """Unix seconds."""
    ok: bool = False
    reason: str = ""
    seconds: float = 0.0
    """How long it took, if it has finished."""
    processes: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    boot: str = ""
    """The boot of the machine in which it started."""
    handle: str = ""
    """What the engine calls it: the number of a Slurm job."""

    @property
    def over(self) -> bool:
        """Whether nothing more will come of it."""
        return self.state in (FINISHED, NOT_STARTED)

    @property
    def failed(self) -> bool:
        return self.over and not (self.ok and self.state == FINISHED)

    def ended(self, process: PlannedProcess) -> Mapping[str, Any]:
        """How ``process`` ended: ``code signal timed_out run``."""
        return self.processes.get(process.key) or {}

    def run_of(self, process: PlannedProcess) -> str:
        """The run folder of the latest attempt of ``process``, below the suite's."""
        return str(self.ended(process).get("run") or process.run)


class Journal:
    """Appends to the journal in ``folder``. Raises OSError where it cannot be opened."""

    def __init__(self, folder: str) -> None:
        self.path = os.path.join(folder, FILE)
        self._file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o666)
        self.problem: str | None = None
        """Why something could not be written, if it could not."""
        self._truncated = _is_truncated(self._file)
        self._next = read_lines(folder).next

    def write(self, event: str, **facts: Any) -> None:
        """Add a line; when this returns it will survive a loss of power."""
        record = {"event": event, "time": time.time(), **facts}
        line = ("\n" if self._truncated else "") + _numbered(record, self._next)
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
        """Add what has become of a job."""
        self.write("job", key=key, state=state, attempt=attempt, **facts)

    def close(self) -> None:
        """Nothing is written after this."""
        os.close(self._file)


def write_all(folder: str, records: Iterable[Mapping[str, Any]]) -> None:
    """Write the whole journal of what has happened elsewhere; each has its ``event`` and ``time``.

    Raises OSError.
    """
    with open(os.path.join(folder, FILE), "x", encoding="utf-8") as file:
        file.writelines(_numbered(record, number) for number, record in enumerate(records))


def _numbered(record: Mapping[str, Any], number: int) -> str:
    made = {**record, "line": number}
    return json.dumps({**made, "checksum": checksum_of(made)}) + "\n"


def _is_truncated(file: int) -> bool:
    """Whether the last line was not written to its end."""
    size = os.fstat(file).st_size
    return size > 0 and os.pread(file, 1, size - 1) != b"\n"


def read(folder: str) -> dict[str, JobRecord]:
    """What is known of each job, by its key. Lines that are not as they were written are left out."""
    return jobs_of(records(folder))


def jobs_of(lines: Iterable[Mapping[str, Any]]) -> dict[str, JobRecord]:
    """The last of ``lines`` of each job, by its key."""
    found: dict[str, JobRecord] = {}
    for record in lines:
        if record["event"] != "job":
            continue
        before = found.get(record["key"])
        found[record["key"]] = JobRecord(
            record["state"],
            record["attempt"],
            record["time"],
            bool(record.get("ok")),
            str(record.get("reason") or ""),
            float(record.get("seconds") or 0),
            record.get("processes") or {},
            str(record.get("boot") or (before.boot if before else "")),
            str(record.get("handle") or ""),
        )
    return found


def records(folder: str) -> list[dict[str, Any]]:
    """All whole lines of the journal; none where there is none."""
    return read_lines(folder).records


class Lines(NamedTuple):
    """A journal as it was found."""

    records: list[dict[str, Any]]
    """The lines that are as they were written, each once."""
    changed: int
    """Lines that are not: a suite that was killed leaves one, which the next writer does not count."""
    lost: int
    """Lines that were counted and are not there, or not as they were written."""
    doubled: int
    """Lines that stand there again."""

    @property
    def next(self) -> int:
        """The number of the next line."""
        return max((record["line"] for record in self.records if "line" in record), default=-1) + 1


def read_lines(folder: str) -> Lines:
    """What lies in ``journal.jsonl`` in ``folder``; nothing where it cannot be read."""
    damage = Damage()
    found: list[tuple[str | None, dict[str, Any]]] = []
    try:
        lines = read_records(os.path.join(folder, FILE), damage, LARGEST)
        found.extend((record.pop("checksum", None), record) for record in lines)
    except OSError:
        pass
    # A journal of an earlier version has no checksums at all.
    sealed = any(checksum is not None for checksum, _ in found)
    whole = [
        record
        for checksum, record in found
        if (not sealed or checksum == checksum_of(record)) and _is_line(record)
    ]
    numbers = [record["line"] for record in whole if "line" in record]
    seen: set[int] = set()
    once = [each for each in whole if "line" not in each or not _was_seen(each["line"], seen)]
    return Lines(
        once,
        len(found) - len(whole) + damage.torn,
        max(seen, default=-1) + 1 - len(seen),
        len(numbers) - len(seen),
    )


def _was_seen(number: int, seen: set[int]) -> bool:
    before = number in seen
    seen.add(number)
    return before


def _is_line(record: Mapping[str, Any]) -> bool:
    """Whether a record is one that :class:`Journal` writes: not one of another file."""
    kinds: dict[str, Any] = {"time": (int, float)}
    if record["event"] == "job":
        kinds |= {"key": str, "state": str, "attempt": int}
    return (
        all(isinstance(record.get(name), kind) for name, kind in kinds.items())
        and isinstance(record.get("line", 0), int)
        and isinstance(record.get("seconds") or 0, (int, float))
        and isinstance(record.get("processes") or {}, dict)
    )
