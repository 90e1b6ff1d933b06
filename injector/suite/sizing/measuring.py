"""Probes that really run: each is the benchmark itself, cut short, with another batch."""

from __future__ import annotations

import io
import os
from collections.abc import Callable
from dataclasses import dataclass, replace

from ...store.place import clean_name
from ..config.model import Benchmark, Suite
from ..environments.resources import Resources
from ..plan import planner
from ..plan.batch_sizes import BatchSizer, with_batch
from ..plan.jobs import Plan
from ..plan.machine import Machine
from ..results import records, score
from ..results.outcome import ProcessResult
from ..run import journal, suite_run
from ..run.policy import policy_of_suite
from . import exhaustion
from .probing import Interrupted, Probe, ProbeError

STEPS, SKIP = 10, 2
INTERVAL = 0.1
"""Seconds between two samples: a probe is short."""


@dataclass(frozen=True)
class Prober:
    """Probes one benchmark of a suite."""

    suite: Suite
    benchmark: Benchmark
    machine: Machine
    base: str
    ground: Callable[[Benchmark], Resources]
    folder: str
    """Where the probes' runs lie; it exists."""
    steps: int = STEPS
    timeout: float | None = None
    """Seconds that a probe may take; as long as the benchmark, if not given."""
    use_current: bool = False

    def __call__(self, batch: int) -> Probe:
        """Run it with ``batch``.

        Raises:
            ProbeError: it failed, and not for want of memory.
            Interrupted: a signal came.
            UserError: it cannot be planned.
        """
        folder = os.path.join(self.folder, f"{clean_name(self.benchmark.name)}.{batch}")
        os.makedirs(folder)
        plan = self._plan(batch, folder)
        policy = policy_of_suite(self.suite, plan)
        code = suite_run.run(plan, folder, policy, io.StringIO())
        if code == suite_run.INTERRUPTED:
            raise Interrupted
        return self._probe(batch, plan, folder)

    def _plan(self, batch: int, folder: str) -> Plan:
        suite = replace(self.suite, benchmarks=(self._short(batch),))
        options = {"use_current_env": self.use_current}
        plan_options = planner.PlanOptions(folder, options=options)
        plan = planner.plan_suite(
            suite,
            self.machine,
            self.base,
            BatchSizer(str(batch)).resources(self.ground),
            plan_options,
        )
        if not plan.jobs:
            raise ProbeError("; ".join(each.reason for each in plan.left_out) or "nothing to run")
        return plan

    def _short(self, batch: int) -> Benchmark:
        """The benchmark, ended after a few steps."""
        sized = with_batch(self.benchmark, batch)
        voir = sized.settings.get("voir") or {}
        options = {
            **(voir.get("options") or {}),
            "stop": self.steps,
            "skip": SKIP,
            "interval": INTERVAL,
        }
        options.pop("gpu_poll", None)
        limit = min(self.timeout or sized.max_duration, sized.max_duration)
        return sized.with_settings(voir={**voir, "options": options}, max_duration=limit)

    def _probe(self, batch: int, plan: Plan, folder: str) -> Probe:
        [job] = plan.jobs
        past = journal.read(folder).get(job.key)
        found = []
        for each in job.processes:
            ended = (past.processes if past else {}).get(each.key) or {}
            run = os.path.join(folder, each.run)
            found.append(
                ProcessResult(
                    each.key, job.benchmark, devices=each.devices, code=ended.get("code"),
                    signal=ended.get("signal"), timed_out=bool(ended.get("timed_out")),
                    folder=run, record=records.read(run),
                )
            )  # fmt: skip
        if past is None or past.state != journal.FINISHED:
            raise ProbeError(past.reason if past else "it was never started")
        return _told(batch, found, past.reason)


def _told(batch: int, processes: list[ProcessResult], reason: str) -> Probe:
    """What the processes of a probe come to."""
    full = [text for each in processes if (text := exhaustion.why(each))]
    if full:
        return Probe(batch, False, reason=full[0])
    wrong = [each for each in processes if each.code != 0 or each.signal or each.record is None]
    if wrong:
        raise ProbeError(reason or "it left no record")
    held = [each.record.memory for each in processes if each.record]
    rate = score.perf([rate for each in processes for rate in each.rates])
    memory = max((each for each in held if each is not None), default=None)
    return Probe(batch, True, memory, rate.mean if rate else None)
