"""The results of a suite as one immutable object: what reading its folder once results in.

A :class:`SuiteSummary` has benchmarks and jobs; both have the same processes, each of which is one run.
Reports of every form, comparisons and the live view are made of it alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from ...analysis.runs import UNCOLLECTED
from ...live.snapshot import Snapshot
from ..config.model import Suite
from ..config.rules import FAILURE
from ..plan.jobs import Job, LeftOut
from ..run.journal import FINISHED, JobRecord
from .run_record import RunRecord

OURS, MILABENCH = "injector", "milabench"
"""Which program wrote a folder of runs."""
STARTING, RUNNING, ENDED = "starting", "running", "ended"
INTERRUPTED, STOPPED = "interrupted", "stopped"
"""The states of a suite's run. It was interrupted by a signal, or stopped without having written so."""


class Finding(NamedTuple):
    """What one layer of validation found in a process or a benchmark."""

    layer: str
    ok: bool
    severity: str
    """``"failure"`` or ``"warning"`` if it is not ok, or would be; ``"note"`` of a remark."""
    sentence: str
    """What was found, with the number that was measured and the one that is required."""
    lines: tuple[str, ...] = ()
    """The last lines of a traceback."""

    @property
    def fails(self) -> bool:
        """Whether it makes the run a failure."""
        return not self.ok and self.severity == FAILURE


@dataclass(frozen=True)
class ProcessSummary:
    """One process of a benchmark, which is one run of it."""

    key: str
    """``"resnet50.R0.D0"``."""
    benchmark: str
    repeat: int = 0
    slot: str = "D0"
    """Its place among the processes that run side by side."""
    devices: tuple[str, ...] = ()
    state: str = FINISHED
    """The state of its job in the journal."""
    code: int | None = None
    signal: int | None = None
    timed_out: bool = False
    reason: str = ""
    """Why it did not run or finish, or how it finished badly: ``exit code 1 (…)``."""
    folder: str | None = None
    record: RunRecord | None = None
    findings: tuple[Finding, ...] = ()
    live: Snapshot | None = None
    """The state of its run while it runs and is followed."""

    @property
    def failed(self) -> bool:
        return any(finding.fails for finding in self.findings)

    @property
    def missing(self) -> tuple[str, ...]:
        """What of its record is lost or damaged, as sentences."""
        if self.record is None:
            # One that failed may never have begun to record.
            lost = self.state == FINISHED and self.code == 0
            return ("nothing is left of its record",) if lost else ()
        if self.record.missing or self.state != FINISHED or self.record.schema is not None:
            return self.record.missing
        # Its job has finished, and yet there is no run.json.
        return (UNCOLLECTED,) if not self.record.error else (self.record.error,)

    @property
    def rates(self) -> tuple[float, ...]:
        return self.record.rates if self.record else ()


@dataclass(frozen=True)
class BenchmarkSummary:
    """A benchmark with all of its processes, over all repeats."""

    name: str
    group: str = ""
    family: str = ""
    """The entry of the YAML that it came from: another name if a matrix made it."""
    values: Mapping[str, Any] = field(default_factory=dict)
    """Its values of the names that a matrix, a sweep or a search gives several values."""
    parameters: Mapping[str, Any] = field(default_factory=dict)
    """Its values of the suite's variables whose names have a dot (``exp.model``)."""
    tags: tuple[str, ...] = ()
    weight: float = 1.0
    enabled: bool = True
    """Whether it counts in the suite's score."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    processes: tuple[ProcessSummary, ...] = ()
    findings: tuple[Finding, ...] = ()
    """Findings about all of its processes together."""
    width: int | None = None
    """How many devices one process has, if its processes do not have that themselves."""
    peak_memory: float | None = None
    """Bytes of device memory, if the program that wrote the folder has a rule of its own for them."""

    @property
    def runs(self) -> int:
        """How many runs there should have been; 1 for a benchmark that has none."""
        return max(len(self.processes), 1)

    @property
    def failures(self) -> int:
        """How many processes failed; one more if something is wrong with all of them together."""
        failed = sum(process.failed for process in self.processes)
        return min(failed + any(finding.fails for finding in self.findings), self.runs)

    @property
    def devices(self) -> int:
        """How many devices one process works on."""
        if self.width is not None:
            return self.width
        return max((len(process.devices) for process in self.processes), default=0)

    def repeats(self) -> Iterator[tuple[int, list[ProcessSummary]]]:
        """The repeats in which no process failed, with the processes of each."""
        for repeat in sorted({process.repeat for process in self.processes}):
            processes = [process for process in self.processes if process.repeat == repeat]
            if not any(process.failed for process in processes):
                yield repeat, processes

    @property
    def rates(self) -> list[float]:
        return [rate for process in self.processes for rate in process.rates]

    @property
    def by_slot(self) -> dict[str, list[float]]:
        """The rates of the processes that share a place, over all repeats."""
        rates: dict[str, list[float]] = {}
        for process in self.processes:
            rates.setdefault(process.slot, []).extend(process.rates)
        return rates


@dataclass(frozen=True)
class JobSummary:
    """One job of a suite: a benchmark, run once."""

    job: Job
    record: JobRecord
    processes: tuple[ProcessSummary, ...] = ()

    @property
    def problem(self) -> str:
        """Why the job failed though no process of it did, by the journal; empty if that is not so."""
        no_process_failed = not any(process.failed for process in self.processes)
        return self.record.reason if self.record.failed and no_process_failed else ""

    @property
    def failed(self) -> bool:
        """Whether the job is over and failed, in a process or around its processes, as reports count it."""
        return self.record.over and bool(
            self.problem or any(process.failed for process in self.processes)
        )


@dataclass(frozen=True)
class SuiteSummary:
    """Everything that the folder of a suite's runs holds, read at one moment. Times are unix seconds."""

    folder: str
    name: str
    origin: str = OURS
    """Which program wrote the folder."""
    file: str | None = None
    """The path of the suite's YAML file."""
    state: str = ENDED
    started: float | None = None
    ended: float | None = None
    """The time of the last line of its journal; None if that is not known."""
    pauses: tuple[tuple[float, float], ...] = ()
    """The times in which no call ran it: each from the last line before a resume until that."""
    machine: Mapping[str, Any] = field(default_factory=dict)
    jobs: tuple[JobSummary, ...] = ()
    benchmarks: tuple[BenchmarkSummary, ...] = ()
    left_out: tuple[LeftOut, ...] = ()
    notes: tuple[str, ...] = ()
    """What a reader has to know before trusting the numbers."""
    damage: tuple[str, ...] = ()
    """What of the suite's own files is missing or damaged, as sentences."""

    @property
    def processes(self) -> list[ProcessSummary]:
        return [process for benchmark in self.benchmarks for process in benchmark.processes]

    @property
    def records(self) -> list[RunRecord]:
        """The records of all processes that have one."""
        return [process.record for process in self.processes if process.record]

    @property
    def missing(self) -> list[str]:
        """What is missing of the suite's files and of all records, as sentences that name the run."""
        of_records = [
            f"{process.key}: {text}" for process in self.processes for text in process.missing
        ]
        return [*self.damage, *of_records]

    @property
    def ddof(self) -> int:
        """Degrees of freedom that standard deviations lack: milabench divides by n, injector by n - 1."""
        return 0 if self.origin == MILABENCH else 1


def seconds_run(started: float, pauses: Iterable[tuple[float, float]], until: float) -> float:
    """For how many seconds a suite that ``started`` then has run ``until`` then, without its ``pauses``."""
    paused = sum(max(min(end, until) - begin, 0.0) for begin, end in pauses)
    return until - started - paused


def as_planned_by(summary: SuiteSummary, suite: Suite) -> SuiteSummary:
    """``summary`` with the weights of ``suite``, and with its benchmarks that have no run, as failures.

    Folders of milabench hold no plan: what did not run at all would be absent from the score.
    """
    weights = {planned.name: planned.weight for planned in suite.benchmarks if planned.enabled}
    known = {benchmark.name for benchmark in summary.benchmarks}
    known |= {skipped.benchmark for skipped in summary.left_out}
    why = Finding("error", False, FAILURE, "it did not run: there is no record of it")
    absent = [
        BenchmarkSummary(
            planned.name,
            planned.group,
            planned.family,
            tags=planned.tags,
            weight=planned.weight,
            findings=(why,),
        )
        for planned in suite.benchmarks
        if planned.enabled and planned.name not in known
    ]
    weighted = [
        replace(benchmark, weight=weights.get(benchmark.name, benchmark.weight))
        for benchmark in summary.benchmarks
    ]
    left_out = tuple(
        replace(skipped, weight=weights.get(skipped.benchmark, skipped.weight))
        for skipped in summary.left_out
    )
    return replace(summary, benchmarks=(*weighted, *absent), left_out=left_out)
