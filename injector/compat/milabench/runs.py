"""Run folders of milabench as suites: the figures of its own report, and the failures that it leaves out."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Any

from ...analysis.statistics import number
from ...analysis.wording import count, leading
from ...store.place import data_files
from ...suite.config.rules import FAILURE
from ...suite.plan.jobs import LeftOut
from ...suite.results import scores
from ...suite.results.suite_summary import (
    MILABENCH,
    BenchmarkSummary,
    Finding,
    ProcessSummary,
    SuiteSummary,
)
from ...suite.run.journal import NEVER
from .data_file import JOB, MIB, DataFile, memory_of

DEPTH = 2
"""How deep below the folder that is named runs may lie: ``BASE/runs/NAME``."""
MOST = 10_000
"""The most runs of a repeat that a plan is believed to name."""
NO_RUNS = ("install", "prepare", ".")
"""The beginnings of the names of folders without runs of benchmarks."""


def is_folder(folder: str) -> bool:
    """Whether ``folder`` holds files that could be milabench's."""
    return next(_files(folder), None) is not None


def _files(folder: str) -> Iterator[str]:
    """The ``.data`` files in ``folder``, down to :data:`DEPTH`, but for those of our own runs."""
    above = os.path.abspath(folder).count(os.sep)
    for parent, folders, names in os.walk(folder):
        if "run.json" in names or "plan.json" in names or "raw" in folders:
            folders[:] = []
            continue
        is_deepest = os.path.abspath(parent).count(os.sep) - above >= DEPTH
        folders[:] = sorted(
            name for name in folders if not (is_deepest or name.startswith(NO_RUNS))
        )
        for name in data_files(names):
            yield os.path.join(parent, name)


def read(folder: str) -> SuiteSummary:
    """The summary of all runs in ``folder``. Raises OSError."""
    files = [DataFile(path) for path in _files(folder)]
    runs = [run for run in files if not run.is_skipped]
    by_name: dict[str, list[DataFile]] = {}
    for run in runs:
        by_name.setdefault(run.name, []).append(run)
    devices = sorted({run.device for run in runs if run.is_per_device and run.device is not None})
    benchmarks = [_benchmark(name, own, devices) for name, own in by_name.items()]
    times = [time for run in runs for time in (run.began, run.ended) if time is not None]
    meta = next((run.meta for run in runs if run.meta), {})
    return SuiteSummary(
        folder=folder,
        name=next((str(run.config["run_name"]) for run in runs if run.config.get("run_name")),
                  os.path.basename(os.path.abspath(folder))),
        origin=MILABENCH,
        file=next((run.config.get("config_file") for run in runs), None),
        started=min(times, default=None),
        ended=max(times, default=None),
        machine=_machine(meta),
        left_out=tuple(LeftOut(run.name, run.message) for run in files if run.is_skipped),
        benchmarks=tuple(sorted(benchmarks, key=lambda each: (each.group, each.name))),
        notes=tuple(_notes(runs)),
    )  # fmt: skip


def _benchmark(name: str, runs: list[DataFile], devices: list[str]) -> BenchmarkSummary:
    """The benchmark ``name`` with its ``runs``. ``devices``: as for :func:`_missing`."""
    config = next((run.config for run in runs if run.config), {})
    return BenchmarkSummary(
        name=name,
        group=str(config.get("group") or name),
        family=str(config.get("group") or name),
        tags=tuple(map(str, config.get("tags") or ())),
        weight=number(config.get("weight")) or 0.0,
        enabled=config.get("enabled") is not False,
        settings=config,
        processes=(*(run.process() for run in runs), *_missing(name, runs, devices)),
        width=max(run.width for run in runs),
        peak_memory=_peak_memory(runs),
    )


def _missing(name: str, runs: list[DataFile], devices: list[str]) -> Iterator[ProcessSummary]:
    """A failed process for each run that a benchmark's plan names and that left no file, by repeat.

    ``devices``: those on which any benchmark of the folder ran one by one. milabench's own check, the layer
    ``planning``, takes the devices of the machine on which the report is made.
    """
    repeats: dict[tuple[str, str], list[DataFile]] = {}
    for run in runs:
        if run.config and "nolog" not in (run.config.get("tag") or ()):
            repeats.setdefault((os.path.dirname(run.path), run.repeat), []).append(run)
    for (_, repeat), found in repeats.items():
        planned, why = _planned(found, devices)
        for at in range(len(found), planned):
            sentence = f"there is no record of it: {len(found)} of {count(planned, 'run')} are there, {why}"
            yield ProcessSummary(
                key=f"{name}.{repeat}.{at}",
                benchmark=name,
                slot=f"{JOB}.{at}",
                state=NEVER,
                findings=(Finding("planning", False, FAILURE, sentence),),
            )


def _planned(runs: list[DataFile], devices: list[str]) -> tuple[int, str]:
    """The number of runs that a repeat should have, and how it is known."""
    plan = runs[0].config.get("plan") or {}
    if not runs[0].is_per_device:
        n = plan.get("n")
        return (n, "n of its plan") if isinstance(n, int) and n <= MOST else (0, "")
    recorded = [(run.meta.get("accelerators") or {}).get("gpus") for run in runs]
    if gpus := next(filter(None, recorded), None):
        return len(gpus), "one for each device of the machine"
    if len(devices) == 1 and devices[0].isdecimal() and devices[0] != "0":
        return 2, f"one for each device, of which {devices[0]} is not the first"
    return len(devices), "one for each device that another benchmark ran on"


def _peak_memory(runs: list[DataFile]) -> float | None:
    """Bytes: the largest peak of all devices, where a peak is the largest value after trimming.

    As in milabench, samples of an idle device are left out, and those of 1 MiB.
    """
    by_device: dict[str, list[float]] = {}
    for run in runs:
        for device, states in run.states().items():
            pairs = [
                pair for state in states if state.get("load") != 0 and (pair := memory_of(state))
            ]
            by_device.setdefault(device, []).extend(used for used, _ in pairs if used != 1)
    peaks = [kept[-1] for each in by_device.values() if (kept := scores.trimmed(each))]
    return max(peaks) * MIB if peaks else None


def _machine(meta: Mapping[str, Any]) -> dict[str, Any]:
    """The machine in the form of plan.json, as far as milabench records it."""
    cpu, accelerators = meta.get("cpu") or {}, meta.get("accelerators") or {}
    arch = _text(accelerators.get("arch"))
    devices = [
        {
            "key": f"{arch}:{index}",
            "name": _text(each.get("product")),
            "memory": _total_memory(each.get("memory")),
        }
        for index, each in (accelerators.get("gpus") or {}).items()
        if isinstance(each, dict)
    ]
    driver = _text((accelerators.get("system") or {}).get("DRIVER_VERSION"))
    return {
        "host": _text((meta.get("os") or {}).get("nodename")),
        "arch": arch,
        "cpu_count": None if number(cpu.get("count")) is None else cpu["count"],
        "cpu": _text(cpu.get("brand")),
        "devices": devices,
        **({"driver": driver} if driver else {}),
    }


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _total_memory(memory: Any) -> float | None:
    """Bytes of a device's memory; None if they are not known."""
    total = number(memory.get("total")) if isinstance(memory, dict) else None
    return total * MIB if total else None


def _notes(runs: list[DataFile]) -> Iterator[str]:
    """Sentences on how the figures differ from those of a suite of ours, and from milabench's report."""
    yield (
        "milabench wrote this folder: standard deviations divide by n, and peak memory leaves out the "
        "largest sample of a device, as in its own report"
    )
    unended = [
        run.key for run in runs if not (run.config and run.began is not None and run.is_whole)
    ]
    if unended:
        have = "has" if len(unended) == 1 else "have"
        yield (
            f"{count(len(unended), 'run')} {have} no end ({leading(unended, 3)}): "
            "failures here, left out by milabench's own report"
        )
