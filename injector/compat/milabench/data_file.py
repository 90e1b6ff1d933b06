"""One ``.data`` file of milabench, which is one run: what it holds, and whether the run succeeded.

By milabench's own rules (``milabench/summary.py`` and ``milabench/report/__init__.py``) a run succeeded if it
was stopped early on purpose, or if it ended with return code 0, has at least one training rate, and no loss
that is not a number. Rates of failed runs count as well.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from typing import Any

from ...analysis.statistics import number
from ...analysis.wording import count
from ...store.logs import Damage, read_records
from ...suite.config.rules import FAILURE
from ...suite.results.run_events import LossCollector
from ...suite.results.run_record import FOREIGN, DeviceRecord, RunRecord
from ...suite.results.suite_summary import Finding, ProcessSummary
from ...suite.run import tracebacks
from ...suite.run.journal import FINISHED, STARTED

MIB = 1 << 20
JOB = "job"
"""The slot of a run that has several devices, over which it is not summed up."""
FASTEST = 1e18
"""Items per second. A rate above is none, and sums of such rates may be no numbers."""
STDERR_LINES = 200
"""The last lines of stderr that are kept, to find a traceback in."""


CONFIG: dict[str, Any] = {"plan": {}, "tag": [], "tags": [], "devices": [], "validation": {}}
META: dict[str, Any] = {
    "accelerators": {"gpus": {}, "system": {}},
    **{key: {} for key in ("cpu", "os", "milabench", "pytorch")},
}
"""What has which form in the events ``config`` and ``meta``, as far as it is read here."""


def _sound(data: Mapping[str, Any], forms: Mapping[str, Any]) -> dict[str, Any]:
    """``data`` without what has another form than in ``forms``, as in a file that was damaged or edited."""
    return {
        key: _sound(value, form) if isinstance(form := forms.get(key), dict) else value
        for key, value in data.items()
        if key not in forms or isinstance(value, type(forms[key]))
    }


def _moment(value: object) -> float | None:
    """``value`` if it is unix time of a year that calendars have; else None."""
    seconds = number(value)
    return seconds if seconds is not None and 0 <= seconds < 250e9 else None


class DataFile:
    """The contents of one ``.data`` file."""

    def __init__(self, path: str) -> None:
        """Read the file. Raises OSError."""
        self.path = path
        self.key = os.path.basename(path)[: -len(".data")]
        self.damage = Damage()
        self.config: dict[str, Any] = {}
        self.meta: dict[str, Any] = {}
        self.began: float | None = None
        """Unix time in seconds, as is ``ended``."""
        self.ended: float | None = None
        self.code: int | None = None
        self.is_whole = self.was_stopped = False
        self.rates: list[float] = []
        """Items per second of training."""
        self.losses = LossCollector()
        self.error: tracebacks.Traceback | None = None
        self.stderr: list[str] = []
        self.message = ""
        self.samples: list[tuple[float | None, dict[str, Any]]] = []
        """The time of each sample, and the state of each device in it."""
        for record in read_records(path, self.damage):
            self._take(record["event"], record)

    def _take(self, event: str, record: dict[str, Any]) -> None:
        data = record.get("data")
        if event == "line" and record.get("pipe") == "stderr":
            self.stderr.append(str(data).rstrip())
            del self.stderr[:-STDERR_LINES]
        elif event == "stop":
            self.was_stopped = True
        elif not isinstance(data, dict):
            return
        elif event == "config":
            self.config = _sound(data, CONFIG)
        elif event == "meta":
            self.meta = _sound(data, META)
        elif event == "start":
            self.began = _moment(data.get("time"))
        elif event == "end":
            self.is_whole, self.ended = True, _moment(data.get("time"))
            code = data.get("return_code")
            self.code = code if isinstance(code, int) else None
        elif event == "error" and self.error is None:
            self.error = tracebacks.of_event(
                data.get("type"), data.get("message"), data.get("trace")
            )
        elif event == "message":
            self.message = self.message or str(data.get("message") or "")
        elif event == "data":
            self._take_values(data)

    def _take_values(self, data: dict[str, Any]) -> None:
        rate = number(data.get("rate"))
        if data.get("task") == "train" and rate is not None and abs(rate) < FASTEST:
            self.rates.append(rate)
        loss = number(data.get("loss"))
        if loss is not None:
            self.losses.add(loss)
        devices = data.get("gpudata")
        if isinstance(devices, dict):
            self.samples.append((_moment(data.get("time")), devices))

    # --- how it was planned ------------------------------------------------------------------------

    @property
    def name(self) -> str:
        """The benchmark."""
        return str(self.config.get("name") or self.key.partition(".")[0])

    @property
    def is_skipped(self) -> bool:
        """Whether milabench left the run out on purpose: then the file holds the reason and nothing else."""
        return bool(self.message) and not self.config and not self.is_whole

    @property
    def device(self) -> str | None:
        """The one device that it was given; None if it has several."""
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
        """The number of devices that its rates are of (milabench's ``ngpu``)."""
        machines = self.config.get("num_machines", 1)
        width = len(self.config.get("devices") or ()) if self.method == "njobs" else 1
        return width * machines if isinstance(machines, int) else width

    @property
    def method(self) -> str:
        """The method of its plan."""
        plan = self.config.get("plan") or {"method": "per_gpu"}
        return str(plan.get("method")).replace("-", "_")

    @property
    def is_per_device(self) -> bool:
        """Whether each device has a run of its own."""
        return self.method == "per_gpu"

    @property
    def repeat(self) -> str:
        """The tag of its repeat: ``"R1"`` for the second one."""
        tags = map(str, self.config.get("tag") or ())
        return next((tag for tag in tags if re.fullmatch(r"R\d+", tag)), "R0")

    # --- how it ended ------------------------------------------------------------------------------

    def failure(self) -> str | None:
        """Why it failed; None if it succeeded."""
        if not self.config or self.began is None or not self.is_whole:
            return "no end was recorded: it was killed, or is still running"
        if self.damage.torn:
            return self._torn()
        if self.was_stopped or "nolog" in (self.config.get("tag") or ()):
            return None
        if self.code != 0:
            exception = self._traceback().exception
            return f"exit code {self.code}" + (f": {exception}" if exception else "")
        if self.losses.nan:
            return f"{self.losses.nan} of {self.losses.count} values of loss are not a number"
        return None if self.rates else "no rate came"

    def _traceback(self) -> tracebacks.Traceback:
        """The error that was recorded, with the lines that were printed if its own are missing."""
        printed = tracebacks.find([line for each in self.stderr for line in each.splitlines()])
        if self.error is None:
            return printed
        return tracebacks.Traceback(self.error.exception, self.error.lines or printed.lines)

    def process(self) -> ProcessSummary:
        """The run as a process of a suite."""
        failure = self.failure()
        lines = self._traceback().lines if failure else ()
        finding = Finding("error", failure is None, FAILURE, failure or "it ended well", lines)
        return ProcessSummary(
            key=self.key,
            benchmark=self.name,
            slot=self.device or JOB,
            devices=self.devices,
            state=FINISHED if self.is_whole else STARTED,
            code=self.code,
            folder=self.path,
            record=self._record(),
            findings=(finding,),
        )

    def _record(self) -> RunRecord:
        is_timed = self.began is not None and self.ended is not None
        system = self.meta.get("os") or {}
        return RunRecord(
            rates=tuple(self.rates),
            code=self.code,
            duration=(self.ended or 0.0) - (self.began or 0.0) if is_timed else None,
            losses={"loss": self.losses.series()} if self.losses.count else {},
            devices=tuple(self._device_records()),
            host=str(system.get("nodename") or ""),
            platform=" ".join(str(system.get(key, "")) for key in ("sysname", "release")).strip(),
            packages=_packages(self.meta),
            missing=(self._torn(),) if self.damage.torn else (),
            schema=FOREIGN,
        )

    def _torn(self) -> str:
        return f"{count(self.damage.torn, 'line')} of its record torn, and left out"

    # --- its devices -------------------------------------------------------------------------------

    def _own(self, devices: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
        """The devices of a sample that are the run's own: the one that it was given, else all."""
        return {
            device: state
            for device, state in devices.items()
            if isinstance(state, dict) and self.device in (None, device)
        }

    def states(self) -> dict[str, list[Mapping[str, Any]]]:
        """The states of each of its devices in all samples."""
        result: dict[str, list[Mapping[str, Any]]] = {}
        for _, devices in self.samples:
            for device, state in self._own(devices).items():
                result.setdefault(device, []).append(state)
        return result

    def _device_records(self) -> Iterator[DeviceRecord]:
        joules, elapsed = self._energy()
        for device, states in self.states().items():
            loads = [load for state in states if (load := number(state.get("load"))) is not None]
            memory = [pair for state in states if (pair := memory_of(state)) is not None]
            energy = joules.get(device)
            yield DeviceRecord(
                name=device,
                load=sum(loads) / len(loads) if loads else None,
                peak_load=max(loads, default=None),
                peak_memory=max((used * MIB for used, _ in memory), default=None),
                total_memory=max((total * MIB for _, total in memory), default=None),
                energy=energy,
                power=energy / elapsed if energy is not None and elapsed > 0 else None,
            )

    def _energy(self) -> tuple[dict[str, float], float]:
        """Joules by device, and the seconds in which they were used.

        As in milabench, the watts of a sample count for the time since the sample before it.
        """
        joules: dict[str, float] = {}
        first: float | None = None
        last: float | None = None
        for time, devices in self.samples:
            first = time if first is None else first
            own = self._own(devices)
            for device, state in own.items():
                power = number(state.get("power"))
                if power is not None and time is not None and last is not None:
                    joules[device] = joules.get(device, 0.0) + power * (time - last)
            last = time if own else last
        return joules, last - first if last is not None and first is not None else 0.0


def memory_of(state: Mapping[str, Any]) -> tuple[float, float] | None:
    """The used and the total memory of a device, MiB; None if they are not known."""
    pair = state.get("memory")
    if not isinstance(pair, list) or len(pair) != 2:
        return None
    used, total = map(number, pair)
    return None if used is None or total is None else (used, total)


def _packages(meta: Mapping[str, Any]) -> dict[str, str]:
    versions = {"milabench": (meta.get("milabench") or {}).get("tag"),
                "torch": (meta.get("pytorch") or {}).get("torch")}  # fmt: skip
    return {name: str(version) for name, version in versions.items() if version}
