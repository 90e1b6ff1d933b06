"""What a device does at best: the newest products of matrices that a suite has run on the same machine.

They are benchmarks with the tag ``flops`` and an argument ``--dtype``, whose items are 10⁹ operations
(``benchmarks/flops``, of which ``suites/synthetic.yaml`` has one for each precision).
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from ...errors import UserError
from ...store.run_json import read_info
from ..plan.jobs import Job, Plan, read_plan
from ..run.suite_folder import RUNS, newest_runs
from . import run_record

TAG, ARGUMENT = "flops", "--dtype"
OPERATIONS = 1e9
"""Of one item."""
HOST = "cpu"
SAME = ("host", "cpu")
"""What run.json says of a machine: another name, processor or number of usable cores is another one."""


class DevicePeak(NamedTuple):
    """FLOP/s of one device, of the fastest of its products."""

    flops: float
    precision: str
    run: str
    """The folder of the suite's run."""
    started: float
    """Unix seconds."""

    @property
    def source(self) -> str:
        """Where it comes from, in words."""
        day = time.strftime("%Y-%m-%d", time.localtime(self.started))
        return f"the fastest {self.precision} product of {os.path.basename(self.run)} ({day})"


def peak_of(base: str, info: Mapping[str, Any], counted: Mapping[str, Any]) -> dict[str, Any]:
    """``peak`` and ``peak_from`` of run.json for what was ``counted``, or ``no_peak``: why there is none.

    It is of the precision in which most of the operations were; see :func:`newest_peak`.
    """
    precisions: dict[str, int] = counted["precisions"]
    precision = max(precisions, key=lambda name: precisions[name])
    peak = newest_peak(base, info, counted["device"], precision)
    if peak is None:
        return {
            "no_peak": f"no suite below {base} has multiplied matrices in {precision} on this machine: "
            f"`inject suite run synthetic --select {precision} --use-current-env` does, or --peak-flops "
            "names the FLOP/s of one device at best"
        }
    part = precisions[precision] / sum(precisions.values())
    note = f", in which {part:.0%} of the FLOPs are" if part < 0.995 else ""
    return {"peak": peak.flops, "peak_from": peak.source + note}


def newest_peak(
    base: str, info: Mapping[str, Any], device: str, precision: str
) -> DevicePeak | None:
    """Of the machine of a run, whose run.json is ``info``; None where no suite below ``base`` has one.

    ``device`` is the model of the device, ``cpu`` for the host itself.
    """
    for folder in newest_runs(os.path.join(base, RUNS)):
        try:
            plan = read_plan(folder)
            found = [
                DevicePeak(best, precision, folder, started)
                for job in plan.jobs
                if _is_product(plan, job, precision)
                for run in _runs_on(folder, plan, job, device)
                for best, started in _best(run, info)
            ]
        except (UserError, OSError, KeyError, TypeError, ValueError):
            continue  # of a later version, or damaged: an older one may do
        if found:
            return max(found)
    return None


def _is_product(plan: Plan, job: Job, precision: str) -> bool:
    benchmark = plan.benchmarks[job.benchmark]
    given = benchmark["settings"].get("argv") or {}
    return TAG in benchmark["tags"] and given.get(ARGUMENT) == precision


def _runs_on(folder: str, plan: Plan, job: Job, device: str) -> Iterator[str]:
    """The run folders of processes of ``job`` that had one device of this model."""
    names = {each["key"]: each.get("name") for each in plan.machine["devices"]}
    for process in job.processes:
        if len(process.devices) == 1:
            name = names.get(process.devices[0])
            if (HOST if plan.machine["arch"] == HOST else name) == device:
                yield os.path.join(folder, process.run)


def _best(run: str, info: Mapping[str, Any]) -> Iterator[tuple[float, float]]:
    """FLOP/s of its fastest product, and when it began; nothing of a run that did not end well."""
    if not os.path.isdir(run):
        return
    mine = read_info(run)
    ended = mine.get("exit") or {}
    if ended.get("code") != 0 or any(mine.get(key) != info.get(key) for key in SAME):
        return
    record = run_record.read(run)
    if record is not None and record.rates and record.unit == "items/s":
        yield max(record.rates) * OPERATIONS, float(mine["started"])
