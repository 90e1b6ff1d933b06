"""Run folders of milabench: the same figures as its own report, and the failures that it leaves out.

Its rules, in `milabench/summary.py` and `milabench/report/__init__.py`: a run (one ``.data`` file) is a
success where it was stopped early on purpose, or ended with return code 0, gave at least one training
rate and no loss that is not a number. Rates of failed runs count as well.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from math import isfinite
from typing import Any

from ...analysis.recorded import number
from ...analysis.wording import count
from ...store.logs import Damage, read_records
from ...store.place import data_files
from ...suite.config.rules import FAILURE
from ...suite.plan.jobs import LeftOut
from ...suite.results import scores
from ...suite.results.run_record import FOREIGN, DeviceRecord, LossCollector, RunRecord
from ...suite.results.suite_summary import (
    MILABENCH,
    BenchmarkSummary,
    Finding,
    ProcessSummary,
    SuiteSummary,
)
from ...suite.run import tracebacks
from ...suite.run.journal import FINISHED, NEVER, STARTED

MIB = 1 << 20
DEEPEST = 2
"""Folders below the one that is named that may hold runs."""
APART = ("install", "prepare", ".")
"""How folders begin that hold no benchmark's runs."""
JOB = "job"
"""The place of a run that was given several devices: it is summed over none."""


def is_folder(folder: str) -> bool:
    """Whether some file below ``folder`` could be milabench's."""
    return next(_files(folder), None) is not None


def _files(folder: str) -> Iterator[str]:
    """Not those of our own runs, and none deeper than a base folder has runs: ``BASE/runs/NAME``."""
    above = os.path.abspath(folder).count(os.sep)
    for parent, folders, names in os.walk(folder):
        if "run.json" in names or "plan.json" in names or "raw" in folders:
            folders[:] = []
            continue
        deep = os.path.abspath(parent).count(os.sep) - above >= DEEPEST
        some = [] if deep else [name for name in folders if not name.startswith(APART)]
        folders[:] = sorted(some)
        for name in data_files(names):
            yield os.path.join(parent, name)


def read(folder: str) -> SuiteSummary:
    """Every run below ``folder``. Raises OSError."""
    found = [_DataFile(path) for path in _files(folder)]
    runs = [run for run in found if not run.skipped]
    by_name: dict[str, list[_DataFile]] = {}
    for run in runs:
        by_name.setdefault(run.name, []).append(run)
    there = sorted({run.device for run in runs if run.alone and run.device is not None})
    benchmarks = [_benchmark(name, mine, there) for name, mine in by_name.items()]
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
        left_out=tuple(LeftOut(run.name, run.message) for run in found if run.skipped),
        benchmarks=tuple(sorted(benchmarks, key=lambda each: (each.group, each.name))),
        notes=tuple(_notes(runs)),
    )  # fmt: skip


class _DataFile:
    """One ``.data`` file."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.key = os.path.basename(path)[: -len(".data")]
        self.damage = Damage()
        self.config: dict[str, Any] = {}
        self.meta: dict[str, Any] = {}
        self.began: float | None = None
        self.ended: float | None = None
        self.code: int | None = None
        self.whole = self.stopped = False
        self.rates: list[float] = []
        self.losses = LossCollector()
        self.error: tracebacks.Traceback | None = None
        self.stderr: list[str] = []
        self.message = ""
        self.samples: list[tuple[float | None, dict[str, Any]]] = []
        for record in read_records(path, self.damage):
            self._take(record["event"], record)

    def _take(self, event: str, record: dict[str, Any]) -> None:
        data = record.get("data")
        if event == "line" and record.get("pipe") == "stderr":
            self.stderr.append(str(data).rstrip())
            del self.stderr[:-200]
        elif event == "stop":
            self.stopped = True
        elif not isinstance(data, dict):
            return
        elif event == "config":
            self.config = data
        elif event == "meta":
            self.meta = data
        elif event == "start":
            self.began = number(data.get("time"))
        elif event == "end":
            self.whole, self.ended = True, number(data.get("time"))
            code = data.get("return_code")
            self.code = code if isinstance(code, int) else None
        elif event == "error" and self.error is None:
            self.error = tracebacks.of_event(
                data.get("type"), data.get("message"), data.get("trace")
            )
        elif event == "message":
            self.message = self.message or str(data.get("message") or "")
        elif event == "data":
            self._data(data)

    def _data(self, data: dict[str, Any]) -> None:
        rate = number(data.get("rate"))
        if data.get("task") == "train" and rate is not None and isfinite(rate):
            self.rates.append(rate)
        loss = number(data.get("loss"))
        if loss is not None:
            self.losses.add(loss)
        devices = data.get("gpudata")
        if isinstance(devices, dict):
            self.samples.append((number(data.get("time")), devices))

    # -- what it is

    @property
    def name(self) -> str:
        return str(self.config.get("name") or self.key.partition(".")[0])

    @property
    def skipped(self) -> bool:
        """Whether it was left out on purpose: all that such a file says is why."""
        return bool(self.message) and not self.config and not self.whole

    @property
    def device(self) -> str | None:
        device = self.config.get("device")
        return None if device is None else str(device)

    @property
    def devices(self) -> tuple[str, ...]:
        listed = self.config.get("devices")
        if isinstance(listed, list):
            return tuple(map(str, listed))
        return () if self.device is None else (self.device,)

    @property
    def width(self) -> int:
        """milabench's ngpu."""
        machines = self.config.get("num_machines", 1)
        width = len(self.config.get("devices") or ()) if self.method == "njobs" else 1
        return width * machines if isinstance(machines, int) else width

    @property
    def method(self) -> str:
        """Of its plan."""
        plan = self.config.get("plan") or {"method": "per_gpu"}
        return str(plan.get("method")).replace("-", "_")

    @property
    def alone(self) -> bool:
        """Whether it is one of a run for each device."""
        return self.method == "per_gpu"

    @property
    def repeat(self) -> str:
        """``"R1"`` of its second repeat, as its tags say."""
        tags = map(str, self.config.get("tag") or ())
        return next((tag for tag in tags if re.fullmatch(r"R\d+", tag)), "R0")

    # -- how it went

    def why(self) -> str | None:
        """Why it failed; None where it did not."""
        if not self.config or self.began is None or not self.whole:
            return "no end was recorded: it was killed, or is still running"
        if self.damage.torn:
            return self._torn()
        if self.stopped or "nolog" in (self.config.get("tag") or ()):
            return None
        if self.code != 0:
            exception = self._trace().exception
            return f"exit code {self.code}" + (f": {exception}" if exception else "")
        if self.losses.nan:
            return f"{self.losses.nan} of {self.losses.count} values of loss are not a number"
        return None if self.rates else "no rate came"

    def _trace(self) -> tracebacks.Traceback:
        printed = tracebacks.find([line for each in self.stderr for line in each.splitlines()])
        if self.error is None:
            return printed
        return tracebacks.Traceback(self.error.exception, self.error.lines or printed.lines)

    def result(self) -> ProcessSummary:
        """It, judged by milabench's rule."""
        why = self.why()
        lines = self._trace().lines if why else ()
        finding = Finding("error", why is None, FAILURE, why or "it ended well", lines)
        return ProcessSummary(
            key=self.key,
            benchmark=self.name,
            slot=self.device or JOB,
            devices=self.devices,
            state=FINISHED if self.whole else STARTED,
            code=self.code,
            folder=self.path,
            record=self._record(),
            findings=(finding,),
        )

    def _record(self) -> RunRecord:
        timed = self.began is not None and self.ended is not None
        system = self.meta.get("os") or {}
        return RunRecord(
            rates=tuple(self.rates),
            code=self.code,
            duration=(self.ended or 0.0) - (self.began or 0.0) if timed else None,
            losses={"loss": self.losses.series()} if self.losses.count else {},
            devices=tuple(self._used()),
            host=str(system.get("nodename") or ""),
            platform=" ".join(str(system.get(key, "")) for key in ("sysname", "release")).strip(),
            packages=_packages(self.meta),
            missing=(self._torn(),) if self.damage.torn else (),
            schema=FOREIGN,
        )

    def _torn(self) -> str:
        return f"{count(self.damage.torn, 'line')} of its record torn, and left out"

    # -- devices

    def own(self, devices: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
        """Of one sample the devices that are its own: the one it was given, else all."""
        return {
            device: state
            for device, state in devices.items()
            if isinstance(state, dict) and self.device in (None, device)
        }

    def states(self) -> dict[str, list[Mapping[str, Any]]]:
        """The samples of each of its devices."""
        found: dict[str, list[Mapping[str, Any]]] = {}
        for _, devices in self.samples:
            for device, state in self.own(devices).items():
                found.setdefault(device, []).append(state)
        return found

    def _used(self) -> Iterator[DeviceRecord]:
        joules, elapsed = self._energy()
        for device, states in self.states().items():
            load = [found for state in states if (found := number(state.get("load"))) is not None]
            memory = [held for state in states if (held := _memory(state)) is not None]
            energy = joules.get(device)
            yield DeviceRecord(
                name=device,
                load=sum(load) / len(load) if load else None,
                peak_load=max(load, default=None),
                peak_memory=max((used * MIB for used, _ in memory), default=None),
                total_memory=max((total * MIB for _, total in memory), default=None),
                energy=energy,
                power=energy / elapsed if energy is not None and elapsed > 0 else None,
            )

    def _energy(self) -> tuple[dict[str, float], float]:
        """Joules by device, and the seconds that they are divided by.

        As there: each sample's watts for the time since the sample before it.
        """
        joules: dict[str, float] = {}
        first: float | None = None
        last: float | None = None
        for time, devices in self.samples:
            first = time if first is None else first
            own = self.own(devices)
            for device, state in own.items():
                power = number(state.get("power"))
                if power is not None and time is not None and last is not None:
                    joules[device] = joules.get(device, 0.0) + power * (time - last)
            last = time if own else last
        return joules, last - first if last is not None and first is not None else 0.0


def _memory(state: Mapping[str, Any]) -> tuple[float, float] | None:
    """Used and total, MiB."""
    pair = state.get("memory")
    if not isinstance(pair, list) or len(pair) != 2:
        return None
    used, total = map(number, pair)
    return None if used is None or total is None else (used, total)


def _benchmark(name: str, runs: list[_DataFile], there: list[str]) -> BenchmarkSummary:
    config = next((run.config for run in runs if run.config), {})
    return BenchmarkSummary(
        name=name,
        group=str(config.get("group") or name),
        family=str(config.get("group") or name),
        tags=tuple(map(str, config.get("tags") or ())),
        weight=number(config.get("weight")) or 0.0,
        enabled=config.get("enabled") is not False,
        settings=config,
        processes=(*(run.result() for run in runs), *_missing(name, runs, there)),
        width=max(run.width for run in runs),
        peak_memory=_peak(runs),
    )


def _missing(name: str, runs: list[_DataFile], there: list[str]) -> Iterator[ProcessSummary]:
    """The runs that the plan of a benchmark names and that left no file, in each of its repeats.

    ``there``: the devices that any benchmark of the folder was run on one by one. milabench's layer
    ``planning`` compares with the devices of the machine that it is on.
    """
    repeats: dict[tuple[str, str], list[_DataFile]] = {}
    for run in runs:
        if run.config and "nolog" not in (run.config.get("tag") or ()):
            repeats.setdefault((os.path.dirname(run.path), run.repeat), []).append(run)
    for (_, repeat), found in repeats.items():
        planned, why = _planned(found, there)
        for at in range(len(found), planned):
            sentence = f"there is no record of it: {len(found)} of {count(planned, 'run')} are there, {why}"
            yield ProcessSummary(
                key=f"{name}.{repeat}.{at}",
                benchmark=name,
                slot=f"{JOB}.{at}",
                state=NEVER,
                findings=(Finding("planning", False, FAILURE, sentence),),
            )


def _planned(runs: list[_DataFile], there: list[str]) -> tuple[int, str]:
    """How many runs a repeat should have, and how that is known."""
    plan = runs[0].config.get("plan") or {}
    if not runs[0].alone:
        count = plan.get("n")
        return (count, "n of its plan") if isinstance(count, int) else (0, "")
    described = [(run.meta.get("accelerators") or {}).get("gpus") for run in runs]
    if gpus := next(filter(None, described), None):
        return len(gpus), "one for each device of the machine"
    if len(there) == 1 and there[0].isdecimal() and there[0] != "0":
        return 2, f"one for each device, of which {there[0]} is not the first"
    return len(there), "one for each device that another benchmark ran on"


def _peak(runs: list[_DataFile]) -> float | None:
    """Bytes: of each device the most after the usual trimming, where it was busy; the most of those."""
    by_device: dict[str, list[float]] = {}
    for run in runs:
        for device, states in run.states().items():
            held = [
                pair[0] for state in states if state.get("load") != 0 and (pair := _memory(state))
            ]
            by_device.setdefault(device, []).extend(used for used in held if used != 1)
    peaks = [kept[-1] for each in by_device.values() if (kept := scores.trimmed(each))]
    return max(peaks) * MIB if peaks else None


def _machine(meta: Mapping[str, Any]) -> dict[str, Any]:
    """The words of plan.json, as far as milabench's have a part in them."""
    cpu, accelerators = meta.get("cpu") or {}, meta.get("accelerators") or {}
    devices = [
        {
            "key": f"{accelerators.get('arch')}:{index}",
            "name": each.get("product"),
            "memory": (number((each.get("memory") or {}).get("total")) or 0.0) * MIB or None,
        }
        for index, each in (accelerators.get("gpus") or {}).items()
        if isinstance(each, dict)
    ]
    driver = (accelerators.get("system") or {}).get("DRIVER_VERSION")
    return {
        "host": (meta.get("os") or {}).get("nodename"),
        "arch": accelerators.get("arch"),
        "cpu_count": cpu.get("count"),
        "cpu": cpu.get("brand"),
        "devices": devices,
        **({"driver": driver} if driver else {}),
    }


def _packages(meta: Mapping[str, Any]) -> dict[str, str]:
    found = {"milabench": (meta.get("milabench") or {}).get("tag"),
             "torch": (meta.get("pytorch") or {}).get("torch")}  # fmt: skip
    return {name: str(version) for name, version in found.items() if version}


def _notes(runs: list[_DataFile]) -> Iterator[str]:
    yield (
        "milabench wrote this folder: standard deviations divide by n, and peak memory leaves out the "
        "largest sample of a device, as in its own report"
    )
    lost = [run.key for run in runs if not (run.config and run.began is not None and run.whole)]
    if lost:
        have = "has" if len(lost) == 1 else "have"
        names = ", ".join(lost[:3]) + (", …" if len(lost) > 3 else "")
        yield (
            f"{count(len(lost), 'run')} {have} no end ({names}): "
            "failures here, left out by milabench's own report"
        )
