"""The FLOP/s of a device at best, measured: the fastest matrix product that a suite ran on the same machine.

Benchmarks with the tag ``flops`` and an argument ``--dtype`` are such products; their items are 10⁹
operations (``benchmarks/flops``, which ``suites/synthetic.yaml`` has for each precision). The newest suite
that has one in the wanted precision counts.
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
"""Floating-point operations of one item."""
HOST = "cpu"
SAME = ("host", "cpu")
"""Keys of run.json that are equal on one machine: its name, and its processor with the usable cores."""


class DevicePeak(NamedTuple):
    """The most that one device has reached."""

    flops: float
    """Floating-point operations a second."""
    precision: str
    run: str
    """The folder of the suite's run."""
    started: float
    """Unix seconds."""

    @property
    def source(self) -> str:
        """What was measured, in which suite, and on which day."""
        day = time.strftime("%Y-%m-%d", time.localtime(self.started))
        return f"the fastest {self.precision} product of {os.path.basename(self.run)} ({day})"


def peak_of(base: str, info: Mapping[str, Any], counted: Mapping[str, Any]) -> dict[str, Any]:
    """``peak`` and ``peak_from`` of run.json for the FLOPs that were ``counted``, or ``no_peak`` with the
    reason.

    The peak is that of the precision in which most of the operations were; see :func:`newest_peak`.
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
    fraction = precisions[precision] / sum(precisions.values())
    note = f", in which {fraction:.0%} of the FLOPs are" if fraction < 0.995 else ""
    return {"peak": peak.flops, "peak_from": peak.source + note}


def newest_peak(
    base: str, info: Mapping[str, Any], device: str, precision: str
) -> DevicePeak | None:
    """The peak of a device of the machine whose run.json is ``info``; None if no suite in ``base`` has one.

    ``device`` is the model of the device, or ``cpu`` for the host itself.
    """
    for folder in newest_runs(os.path.join(base, RUNS)):
        try:
            plan = read_plan(folder)
            products = {
                name
                for name, planned in plan.benchmarks.items()
                if TAG in planned["tags"]
                and (planned["settings"].get("argv") or {}).get(ARGUMENT) == precision
            }
            peaks = [
                DevicePeak(best, precision, folder, started)
                for job in plan.jobs
                if job.benchmark in products
                for run in _runs_on(folder, plan, job, device)
                for best, started in _best(run, info)
            ]
        except (UserError, OSError, KeyError, TypeError, ValueError):
            continue  # of a later version, or damaged: an older suite may do
        if peaks:
            return max(peaks)
    return None


def _runs_on(folder: str, plan: Plan, job: Job, device: str) -> Iterator[str]:
    """The run folders of the processes of ``job`` that had one device only, of the model ``device``."""
    names = {described["key"]: described.get("name") for described in plan.machine["devices"]}
    for process in job.processes:
        if len(process.devices) == 1:
            name = names.get(process.devices[0])
            if (HOST if plan.machine["arch"] == HOST else name) == device:
                yield os.path.join(folder, process.run)


def _best(run: str, info: Mapping[str, Any]) -> Iterator[tuple[float, float]]:
    """The FLOP/s of the fastest product of ``run``, and when the run began.

    Yields nothing if it did not end well, or ran on another machine than that of ``info``.
    """
    if not os.path.isdir(run):
        return
    its_info = read_info(run)
    ended = its_info.get("exit") or {}
    if ended.get("code") != 0 or any(its_info.get(key) != info.get(key) for key in SAME):
        return
    record = run_record.read(run)
    if record is not None and record.rates and record.unit == "items/s":
        yield max(record.rates) * OPERATIONS, float(its_info["started"])
