"""What a suite's runs came to: the types that reading, judging and reporting hand on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ...analysis.runs import UNCOLLECTED
from ..config.rules import FAILURE
from ..plan.jobs import LeftOut
from ..run.journal import FINISHED
from . import score
from .records import Record

OURS, MILABENCH = "injector", "milabench"
"""Who wrote a folder of runs."""
UNFINISHED, NEVER = "unfinished", "never"
"""What can be said of a process beside what journals say: it has no end, or not even a beginning."""


class Finding(NamedTuple):
    """What one layer of validation has to say."""

    layer: str
    ok: bool
    severity: str
    """What it is where it is not ok: ``"failure"``, ``"warning"``; of a remark, ``"note"``."""
    sentence: str
    """With the number that failed, and the one that was asked for."""
    lines: tuple[str, ...] = ()
    """The last lines of a trace."""

    @property
    def fails(self) -> bool:
        """Whether it makes the run a failure."""
        return not self.ok and self.severity == FAILURE


@dataclass(frozen=True)
class ProcessResult:
    """One process of a benchmark, which is one run of it."""

    key: str
    """``"resnet50.R0.D0"``."""
    benchmark: str
    repeat: int = 0
    slot: str = "D0"
    """Its place among the processes that run side by side."""
    devices: tuple[str, ...] = ()
    state: str = FINISHED
    code: int | None = None
    signal: int | None = None
    timed_out: bool = False
    reason: str = ""
    """Why it did not run, or did not finish."""
    folder: str | None = None
    record: Record | None = None
    findings: tuple[Finding, ...] = ()

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
class BenchmarkResult:
    """A benchmark: all its processes, over all repeats."""

    name: str
    group: str = ""
    family: str = ""
    """The entry of the YAML that it came from: another name where a matrix made it."""
    values: Mapping[str, Any] = field(default_factory=dict)
    """Of the names that a matrix, a sweep or a search gave its entry several values of."""
    tags: tuple[str, ...] = ()
    weight: float = 1.0
    enabled: bool = True
    """Whether it counts in the suite's score."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    processes: tuple[ProcessResult, ...] = ()
    findings: tuple[Finding, ...] = ()
    """About all its processes together."""
    width: int | None = None
    """Devices of one process, where its processes do not say."""
    peak_memory: float | None = None
    """Bytes, where the writer of the folder has a rule of its own for it."""

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
class SuiteResult:
    """Everything that the folder of a suite's runs says."""

    folder: str
    name: str
    origin: str = OURS
    file: str | None = None
    started: float | None = None
    """Unix seconds."""
    ended: float | None = None
    """When it last said something; None where that is not known."""
    machine: Mapping[str, Any] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)
    benchmarks: tuple[BenchmarkResult, ...] = ()
    left_out: tuple[LeftOut, ...] = ()
    notes: tuple[str, ...] = ()
    """What a reader has to know before trusting the numbers."""

    damage: tuple[str, ...] = ()
    """What of the suite's own files is missing or damaged, as sentences."""

    @property
    def missing(self) -> list[str]:
        """What is missing of all its records, as sentences that name the run."""
        found = [
            f"{process.key}: {sentence}"
            for benchmark in self.benchmarks
            for process in benchmark.processes
            for sentence in process.missing
        ]
        return [*self.damage, *found]

    @property
    def ddof(self) -> int:
        """How its standard deviations are computed."""
        return score.POPULATION if self.origin == MILABENCH else score.SAMPLE
