"""The results of a suite: the immutable summary that one reading of its folder gives."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
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
"""States of a suite; a suite that was killed has stopped."""


class Finding(NamedTuple):
    """What one layer of validation found."""

    layer: str
    ok: bool
    severity: str
    """What it is where it is not ok: ``"failure"``, ``"warning"``; of a remark, ``"note"``."""
    sentence: str
    """With the number that failed, and the one that is required."""
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
    """That of its job in the journal."""
    code: int | None = None
    signal: int | None = None
    timed_out: bool = False
    reason: str = ""
    """Why it did not run, or did not finish; of one that finished badly, how: ``exit code 1 (…)``."""
    folder: str | None = None
    record: RunRecord | None = None
    findings: tuple[Finding, ...] = ()
    live: Snapshot | None = None
    """The state of its run, where it runs and is followed."""

    @property
    def failed(self) -> bool:
        return any(finding.fails for finding in self.findings)

    @property
    def missing(self) -> tuple[str, ...]:
        """What of its record is lost or damaged, as sentences."""
        if self.record is None:
            lost = self.state == FINISHED and self.code == 0
            return ("nothing is left of its record",) if lost else ()
        if self.record.missing or self.state != FINISHED or self.record.schema is not None:
            return self.record.missing
        return (UNCOLLECTED,) if not self.record.error else (self.record.error,)

    @property
    def rates(self) -> tuple[float, ...]:
        return self.record.rates if self.record else ()


@dataclass(frozen=True)
class BenchmarkSummary:
    """A benchmark: all its processes, over all repeats."""

    name: str
    group: str = ""
    family: str = ""
    """The entry of the YAML that it came from: another name where a matrix made it."""
    values: Mapping[str, Any] = field(default_factory=dict)
    """Of the names that a matrix, a sweep or a search gave its entry several values of."""
    parameters: Mapping[str, Any] = field(default_factory=dict)
    """Variables of the suite whose names have a dot (``exp.model``), as it had them."""
    tags: tuple[str, ...] = ()
    weight: float = 1.0
    enabled: bool = True
    """Whether it counts in the suite's score."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    processes: tuple[ProcessSummary, ...] = ()
    findings: tuple[Finding, ...] = ()
    """About all its processes together."""
    width: int | None = None
    """Devices of one process, where its processes do not say."""
    peak_memory: float | None = None
    """Bytes, where the program that wrote the folder has a rule of its own for it."""

    @property
    def runs(self) -> int:
        """How many there should have been; one for a benchmark of which there is none."""
        return max(len(self.processes), 1)

    @property
    def failures(self) -> int:
        """Processes that failed; one more where something is wrong with all of them together."""
        failed = sum(process.failed for process in self.processes)
        return min(failed + any(finding.fails for finding in self.findings), self.runs)

    @property
    def devices(self) -> int:
        """Devices that one process works on."""
        if self.width is not None:
            return self.width
        return max((len(process.devices) for process in self.processes), default=0)

    def repeats(self) -> Iterator[tuple[int, list[ProcessSummary]]]:
        """The repeats in which no process failed, with the processes of each."""
        for repeat in sorted({process.repeat for process in self.processes}):
            mine = [process for process in self.processes if process.repeat == repeat]
            if not any(process.failed for process in mine):
                yield repeat, mine

    @property
    def rates(self) -> list[float]:
        return [rate for process in self.processes for rate in process.rates]

    @property
    def by_slot(self) -> dict[str, list[float]]:
        """The rates of the processes that share a place, over all repeats."""
        found: dict[str, list[float]] = {}
        for process in self.processes:
            found.setdefault(process.slot, []).extend(process.rates)
        return found


@dataclass(frozen=True)
class JobSummary:
    """One job of a suite: a benchmark, once."""

    job: Job
    record: JobRecord
    """What the journal has of it."""
    processes: tuple[ProcessSummary, ...] = ()

    @property
    def problem(self) -> str:
        """What failed of it beside its processes: what was around them, by the journal."""
        whole = not any(process.failed for process in self.processes)
        return self.record.reason if self.record.failed and whole else ""

    @property
    def failed(self) -> bool:
        """As a report counts it: by what is wrong with its processes, and around them."""
        return self.record.over and bool(
            self.problem or any(each.failed for each in self.processes)
        )


@dataclass(frozen=True)
class SuiteSummary:
    """Everything that the folder of a suite's runs holds, read at one moment."""

    folder: str
    name: str
    origin: str = OURS
    file: str | None = None
    state: str = ENDED
    started: float | None = None
    """Unix seconds."""
    resumed: float | None = None
    """When it, or the last call that resumed it, began."""
    ended: float | None = None
    """The time of the last line of its journal; None where that is not known."""
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
        """Of all processes that have one."""
        return [process.record for process in self.processes if process.record]

    @property
    def missing(self) -> list[str]:
        """What is missing of all its records, as sentences that name the run."""
        found = [f"{each.key}: {text}" for each in self.processes for text in each.missing]
        return [*self.damage, *found]

    @property
    def ddof(self) -> int:
        """What is taken from n where squares are averaged: milabench divides by n, injector by n - 1."""
        return 0 if self.origin == MILABENCH else 1


def as_planned_by(summary: SuiteSummary, suite: Suite) -> SuiteSummary:
    """``summary`` with the weights of ``suite``; every benchmark of it that has no run has failed.

    For folders that do not say themselves what should have run.
    """
    weights = {each.name: each.weight for each in suite.benchmarks if each.enabled}
    known = {each.name for each in summary.benchmarks}
    known |= {each.benchmark for each in summary.left_out}
    why = Finding("error", False, FAILURE, "it did not run: there is no record of it")
    absent = [
        BenchmarkSummary(
            each.name, each.group, each.family, tags=each.tags, weight=each.weight, findings=(why,)
        )
        for each in suite.benchmarks
        if each.enabled and each.name not in known
    ]
    found = [
        replace(each, weight=weights.get(each.name, each.weight)) for each in summary.benchmarks
    ]
    left_out = tuple(
        replace(each, weight=weights.get(each.benchmark, each.weight)) for each in summary.left_out
    )
    return replace(summary, benchmarks=(*found, *absent), left_out=left_out)
