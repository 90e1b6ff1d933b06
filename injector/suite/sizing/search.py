"""Search for the largest batch that fits, and the memory and rate of each size tried.

A probe is the benchmark itself, cut short. What is learnt is written into a file of observations.
"""

from __future__ import annotations

import io
import os
import re
import signal
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

from ...analysis.wording import count
from ...errors import UserError
from ...store.place import clean_name, create_unique
from ..config.model import Benchmark, Suite
from ..environments.setup import Resources
from ..plan import batch_sizes, observations, planner
from ..plan.jobs import Plan, PlanOptions
from ..plan.machine import Machine
from ..plan.observations import CPU, BatchObservations, Limit, Observation
from ..results import scores
from ..results.suite_reader import summarise
from ..results.suite_summary import ProcessSummary, SuiteSummary
from ..run import journal, suite_run, tracebacks
from ..run.policy import policy_of

MOST_PROBES = 10
CLOSE_ENOUGH = 1 / 16
"""The largest batch that fits is known well enough if one larger by this part does not fit."""


class TrialRun(NamedTuple):
    """The result of one probe."""

    batch: int
    fits: bool
    memory: float | None = None
    """Bytes of a device, at most; None if they are not known, or it did not fit."""
    rate: float | None = None
    """Items per second."""
    reason: str = ""


class TrialError(Exception):
    """A probe failed, and not for want of memory."""


class Interrupted(Exception):
    """A signal ended the measurement."""


class Search:
    """Chooses batch sizes to probe: doubles from ``start`` until one does not fit, then halves the gap.

    Sizes are multiples of ``multiple``, or powers of ``power``. ``capacity`` is the bytes of a device, if it
    is known. A ``careful`` search tries nothing that, by the line through the observations, would not fit:
    where the host's own memory is used, a batch that is too large may get other programs killed. ``most``
    limits the probes.
    """

    def __init__(
        self,
        start: int,
        *,
        multiple: int | None = None,
        power: int | None = None,
        capacity: float | None = None,
        careful: bool = False,
        most: int = MOST_PROBES,
    ) -> None:
        self.multiple, self.power = multiple, power
        self.capacity, self.careful, self.most = capacity, careful, most
        self.start = max(self._rounded(start), 1)
        self.probes: list[TrialRun] = []

    def run(self, probe: Callable[[int], TrialRun]) -> None:
        """Probe until nothing more can be learnt, or ``probe`` raises."""
        while len(self.probes) < self.most:
            batch = self.next()
            if batch is None:
                return
            try:
                self.probes.append(probe(batch))
            except TrialError as error:
                # Smaller ones worked: this size is the reason.
                if any(each.fits for each in self.probes):
                    self.probes.append(TrialRun(batch, False, reason=str(error)))
                raise

    def next(self) -> int | None:
        """The batch to try next; None when the largest that fits is known well enough."""
        if not self.probes:
            return self.start
        fits = max((each.batch for each in self.probes if each.fits), default=0)
        above = min((each.batch for each in self.probes if not each.fits), default=None)
        if not fits:
            assert above is not None
            return self._untried(above // 2) if above > 1 else None
        if above is None:
            return self._untried(self._larger(fits))
        between = self._untried((fits + above) // 2)
        is_worthwhile = above - fits > CLOSE_ENOUGH * fits
        return between if between and between > fits and is_worthwhile else None

    def _larger(self, fits: int) -> int:
        """Twice the size that ``fits``; in a careful search at most what memory is expected to hold."""
        larger = fits * self.power if self.power else max(2 * fits, fits + (self.multiple or 1))
        if self.capacity is None or not self.careful:
            return larger
        known = self.known()
        # Where no line tells what a batch takes (of one observation, or of a small model, whose memory does
        # not grow with the batch), the batch is doubled if its memory, doubled, fits.
        if not batch_sizes.grows(known.observations):
            memory = max(each.memory or 0.0 for each in self.probes)
            return larger if memory * batch_sizes.REACH <= self.capacity else fits
        return min(larger, batch_sizes.largest(known, self.capacity) or fits)

    def _rounded(self, batch: int) -> int:
        return batch_sizes.rounded(batch, self.multiple, self.power)

    def _untried(self, batch: int) -> int | None:
        """``batch`` rounded, or None if that was tried."""
        batch = self._rounded(batch)
        return batch if batch >= 1 and all(batch != each.batch for each in self.probes) else None

    def known(self) -> BatchObservations:
        """The observations and limits that follow from the probes."""
        fitting = sorted(
            Observation(each.batch, each.memory, each.rate)
            for each in self.probes
            if each.fits and each.memory is not None
        )
        limits = sorted(
            Limit(each.batch, self.capacity)
            for each in self.probes
            if not each.fits and self.capacity is not None
        )
        return BatchObservations(tuple(fitting), tuple(limits))


_OUT_OF_MEMORY = re.compile(
    r"OutOfMemory|out of memory|MemoryError|[Cc]annot allocate memory|can't allocate memory"
    r"|std::bad_alloc|bad allocation|RESOURCE_EXHAUSTED|ALLOC_FAILED|[Uu]nable to allocate"
    r"|exitcode\s*:\s*-9\b|Signal 9 \(SIGKILL\)|killed by signal: Killed|oom-kill"
)
"""How CUDA, PyTorch, JAX, numpy, C++ and launchers whose rank the kernel killed report lack of memory."""


def out_of_memory_line(process: ProcessSummary) -> str | None:
    """A sentence or a line of its output that shows that a process ran out of memory; None if it did not.

    The kernel sends SIGKILL when memory is exhausted; the suite sends it only after a time limit.
    """
    record = process.record
    if process.timed_out or (record and record.timed_out):
        return None
    number = process.signal or (record and record.signal)
    if number == signal.SIGKILL:
        return "killed by SIGKILL, as the kernel does when memory is exhausted"
    code = process.code if process.code is not None else record and record.code
    if not code and not number:
        return None
    if number in (signal.SIGBUS, signal.SIGABRT) or code:
        raised = [record.error, *record.trace] if record else []
        printed = (
            tracebacks.tail_of(os.path.join(process.folder, "stderr")) if process.folder else []
        )
        for line in [*raised, *printed]:
            if _OUT_OF_MEMORY.search(line):
                return tracebacks.short(line)
    return None


STEPS, SKIP = 10, 2
INTERVAL = 0.1
"""Seconds between two samples of the monitor, since a probe is short."""


@dataclass(frozen=True)
class MeasureOptions:
    """How benchmarks are measured."""

    steps: int = STEPS
    probes: int = MOST_PROBES
    timeout: float | None = None
    """Seconds that a probe may take; those of the benchmark if None."""
    use_current: bool = False
    """Whether to run in the current environment instead of the benchmark's."""
    say: Callable[[str], None] = field(default=print)
    """Prints a line on the progress."""


@dataclass(frozen=True)
class Prober:
    """Probes one benchmark of a suite."""

    suite: Suite
    benchmark: Benchmark
    machine: Machine
    base: str
    resources: Callable[[Benchmark], Resources]
    folder: str
    """An existing folder for the runs of the probes."""
    options: MeasureOptions

    def __call__(self, batch: int) -> TrialRun:
        """Run the benchmark with ``batch``.

        Raises TrialError if it failed, and not for want of memory. Raises Interrupted if a signal ended it.
        Raises UserError if it cannot be planned.
        """
        folder = os.path.join(self.folder, f"{clean_name(self.benchmark.name)}.{batch}")
        os.makedirs(folder)
        plan = self._plan(batch, folder)
        code = suite_run.run(plan, folder, policy_of(plan), io.StringIO())
        if code == suite_run.INTERRUPTED:
            raise Interrupted
        return _trial_run_of(batch, summarise(folder))

    def _plan(self, batch: int, folder: str) -> Plan:
        suite = replace(self.suite, benchmarks=(self._cut_short(batch),))
        options = {"use_current_env": self.options.use_current}
        plan_options = PlanOptions(folder, options=options)
        plan = planner.plan_suite(
            suite,
            self.machine,
            self.base,
            batch_sizes.BatchSizer(str(batch)).resources(self.resources),
            plan_options,
        )
        if not plan.jobs:
            raise TrialError("; ".join(each.reason for each in plan.left_out) or "nothing to run")
        return plan

    def _cut_short(self, batch: int) -> Benchmark:
        """The benchmark with ``batch``, ended after a few steps."""
        sized = batch_sizes.with_batch(self.benchmark, batch)
        voir = sized.settings.get("voir") or {}
        options = {
            **(voir.get("options") or {}),
            "stop": self.options.steps,
            "skip": SKIP,
            "interval": INTERVAL,
        }
        options.pop("gpu_poll", None)
        limit = min(self.options.timeout or sized.max_duration, sized.max_duration)
        return sized.with_settings(voir={**voir, "options": options}, max_duration=limit)


def _trial_run_of(batch: int, summary: SuiteSummary) -> TrialRun:
    """The result of the only job of a suite's run. Raises TrialError."""
    [job] = summary.jobs
    if job.record.state != journal.FINISHED:
        raise TrialError(job.record.reason or "it was never started")
    reasons = [text for process in job.processes if (text := out_of_memory_line(process))]
    if reasons:
        return TrialRun(batch, False, reason=reasons[0])
    if any(each.code != 0 or each.signal or each.record is None for each in job.processes):
        raise TrialError(job.record.reason or "it left no record")
    memories = [each.record.memory for each in job.processes if each.record]
    rate = scores.perf([rate for process in job.processes for rate in process.rates])
    memory = max((each for each in memories if each is not None), default=None)
    return TrialRun(batch, True, memory, rate.mean if rate else None)


GB = 1e9


def measure(
    suite: Suite,
    machine: Machine,
    base: str,
    resources: Callable[[Benchmark], Resources],
    folder: str,
    options: MeasureOptions,
) -> int:
    """Measure every benchmark of ``suite`` whose batch can be changed. Returns the exit code.

    The observations of a benchmark are written into ``folder`` once they are known; an interruption keeps
    those so far. Raises UserError if there is no such benchmark, a plan has mistakes, or ``folder`` cannot be
    written.
    """
    chosen = [each for each in suite.benchmarks if batch_sizes.resizable(each)]
    if not chosen:
        raise UserError(
            f"{suite.file}: no benchmark declares how its batch can be changed: batch: {{arg: --batch-size}}"
        )
    place = create_unique(str(Path(base) / "sizing"), suite.name)
    well = True
    try:
        for benchmark in chosen:
            prober = Prober(suite, benchmark, machine, base, resources, place, options)
            well = _measure_one(prober, folder) and well
    except Interrupted:
        options.say("interrupted; what was measured is kept")
        return suite_run.INTERRUPTED
    options.say(f"probes: {place}")
    return suite_run.PASSED if well else suite_run.FAILED


def _measure_one(prober: Prober, folder: str) -> bool:
    """Measure one benchmark. Returns whether no probe failed, and a size is known that fits."""
    benchmark, machine, options = prober.benchmark, prober.machine, prober.options
    batch = batch_sizes.batch_of(benchmark)
    search = Search(
        batch_sizes.default_of(benchmark),
        multiple=batch.get("multiple"),
        power=batch.get("power"),
        capacity=batch_sizes.capacity_of(machine),
        careful=machine.arch == CPU,
        most=options.probes,
    )

    def probe(size: int) -> TrialRun:
        result = prober(size)
        text = f"does not fit ({result.reason})"
        if result.fits:
            memory, rate = result.memory, result.rate
            text = "memory is not known" if memory is None else f"{memory / GB:.2f} GB"
            text += "; no rate" if rate is None else f"; {rate:.4g} items/s"
        options.say(f"{benchmark.name} {size}: {text}")
        return result

    ended_well = True
    try:
        search.run(probe)
    except TrialError as error:
        ended_well = False
        options.say(f"{benchmark.name} cannot be measured any further: {error}")
    finally:
        known = search.known()
        if known.observations or known.limits:
            path = observations.add_observations(
                folder, batch_sizes.kind_of(machine), benchmark.name, known
            )
            options.say(f"{benchmark.name}: {count(len(known.observations), 'size')} known; {path}")
    return ended_well and bool(known.observations)
