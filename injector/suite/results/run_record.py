"""The figures of one run that a suite needs: read from its folder once, then kept beside it."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from math import isfinite, isnan
from statistics import fmean
from typing import Any, NamedTuple
from zlib import crc32

from ...analysis.machines import machines
from ...analysis.recorded import CONTEXT, number, sum_of_known
from ...analysis.runs import missing_of
from ...analysis.summary import RANKS, plain
from ...bus.readable import collected
from ...store.call_sites import INFERENCE
from ...store.folder import Run, is_run, open_run, read_events
from ...store.logs import LONGEST, Damage
from ...store.place import replace_file
from ...store.run_json import BrokenRunError, NotARunError
from ...store.seal import names
from ...store.spans import has_spans
from ..run import tracebacks

KEPT = "result.json"
"""The file in a run's folder that holds what was read of it."""
FORMAT = 8
"""Of that file: another one is not looked at."""
OWN = 32 << 20
"""Bytes; see run.json's ``peak_rss``."""
SERIES_VALUES = 3_000
"""Values of a loss that are kept; of more, every second, third, …"""


class DeviceRecord(NamedTuple):
    """How a run used a device. Fractions, bytes, joules, watts; None for what was not measured."""

    name: str
    load: float | None
    """Mean over the samples."""
    peak_load: float | None
    peak_memory: float | None
    total_memory: float | None
    energy: float | None
    power: float | None
    """Mean over the samples."""
    driver: str = ""


class LossSeries(NamedTuple):
    """The values of one loss, of the first process that had it."""

    n: int
    """Values of all processes."""
    odd: int
    """How many of those were not finite."""
    values: tuple[float, ...]
    """Those that were, in order, thinned to :data:`SERIES_VALUES`."""


FOREIGN = 0
"""The schema of a record that has no ``run.json`` and needs none."""


@dataclass(frozen=True)
class RunRecord:
    """One run: how fast it was, how it ended, what it used."""

    rates: tuple[float, ...] = ()
    """One a step, after those to skip."""
    unit: str = "items/s"
    step: float = 0.0
    """Seconds of a step, on average; 0 where that is not known."""
    items: float | None = None
    """Of a step, on average, of all ranks together."""
    ranks: int = 0
    """Processes that trained."""
    world: int | None = None
    """How many ranks there were, as the ranks themselves recorded."""
    code: int | None = None
    signal: int | None = None
    timed_out: bool = False
    duration: float | None = None
    """Seconds."""
    error: str = ""
    """``"ValueError: its message"``, of the exception that ended it."""
    trace: tuple[str, ...] = ()
    """The last lines of its traceback."""
    warnings: tuple[str, ...] = ()
    """What went wrong with its probes or its record, in the words of `inject report`."""
    restarts: tuple[str, ...] = ()
    """What became of ranks that their launcher started again, if that was so of all that broke."""
    losses: Mapping[str, LossSeries] = field(default_factory=dict)
    devices: tuple[DeviceRecord, ...] = ()
    rss: float | None = None
    """Most bytes that its processes held together."""
    cores: float | None = None
    host: str = ""
    platform: str = ""
    cpu: str = ""
    cpus: int | None = None
    python: str = ""
    interpreter: str = ""
    """The path that its first process was started by."""
    packages: Mapping[str, str] = field(default_factory=dict)
    schema: int | None = None
    """Of its ``run.json``; None where there is none, :data:`FOREIGN` where another program wrote it."""
    missing: tuple[str, ...] = ()
    """What of the record is lost, or is no longer what was recorded, as sentences."""
    name: str = ""
    tags: Mapping[str, str] = field(default_factory=dict)
    params: Mapping[str, Any] = field(default_factory=dict)
    """Numbers and texts; what else a program gave as text."""
    values: Mapping[str, float] = field(default_factory=dict)
    """The last of each number that a voirfile or the program recorded, by its name; and those under the
    names of lightgbm-benchmark."""
    latencies: tuple[Mapping[str, Any], ...] = ()
    """Of evaluations and predictions, as the report of the run has them (`Latency`)."""
    studies: tuple[Mapping[str, Any], ...] = ()
    """Of hyper-parameters, as the report of the run has them (`Study`), but for their trials: of these the
    best ones, and ``counts``, how many ended how."""

    @property
    def driver(self) -> str:
        """Of its devices."""
        return next((each.driver for each in self.devices if each.driver), "")

    @property
    def memory(self) -> float | None:
        """The most bytes held on any device; of the processes, where there is none."""
        known = [each.peak_memory for each in self.devices if each.peak_memory is not None]
        return max(known, default=self.rss)

    @property
    def energy(self) -> float | None:
        """Joules of all its devices; None where it is not known."""
        return sum_of_known(each.energy for each in self.devices)

    @property
    def power(self) -> float | None:
        """Watts of all its devices, on average over its time; None where it is not known."""
        return sum_of_known(each.power for each in self.devices)


def read(folder: str, skip: int = 0) -> RunRecord | None:
    """The figures of the run in ``folder``; None where it holds no record of a run.

    ``skip``: steps to leave out where the run does not record it. The figures are written beside
    ``run.json`` where that can be done, and read from there as long as no file of the run has changed.
    Figures of a damaged run are those of what is left.
    """
    if not is_run(folder):
        return None
    state = _state(folder)
    kept = _kept(folder, state)
    if kept is not None:
        return kept
    try:
        with collected(open_run(folder)) as run:
            record = _read(run, skip)
    except BrokenRunError as error:
        return RunRecord(missing=(str(error).replace(os.path.join(folder, ""), "", 1),))
    except (NotARunError, OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        return RunRecord(error=f"its record cannot be read: {error}")
    if state is None:  # no run.json says what the run was: it was not collected, or that is lost
        return replace(record, schema=None)
    _keep(folder, state, record)
    return record


def _read(run: Run, skip: int) -> RunRecord:
    # numpy: not for listing suites, nor for running one
    from ...analysis.benchmark_metrics import benchmark_metrics, benchmark_properties, of_job
    from ...analysis.latencies import latencies_of
    from ...analysis.timeseries import stepping

    info, seen = run.info, machines(run)
    limits = info.get("limits") or {}
    events = _Events(run)
    steps = stepping(run, int(limits.get("skip") or skip))
    given = events.rates() if steps is None or steps.paced_by != "step" else ()
    ended = info.get("exit") or {}
    warnings, restarts = _warnings(info)
    processes = info.get("processes")
    first = processes[0] if isinstance(processes, list) and processes else {}
    return RunRecord(
        rates=given or (steps.rates if steps else ()),
        unit=events.unit if given else steps.unit if steps else "items/s",
        step=steps.seconds if steps else events.step(),
        items=steps.items if steps else events.items(),
        ranks=steps.ranks if steps else len(events.given),
        world=steps.world if steps else None,
        code=ended.get("code"),
        signal=ended.get("signal"),
        timed_out=bool(info.get("timed_out")),
        duration=number(info.get("duration")),
        error=_cause(events.error, info.get("broken")) if ended.get("code") else events.error,
        trace=events.trace,
        warnings=warnings,
        restarts=restarts,
        losses=events.losses(),
        devices=tuple(
            DeviceRecord(*(getattr(device, name) for name in DeviceRecord._fields))
            for machine in seen
            for device in machine.devices
        ),
        rss=_held(sum(machine.peak_rss for machine in seen), number(info.get("peak_rss"))),
        cores=sum_of_known(machine.cores for machine in seen),
        host=str(info.get("host") or ""),
        platform=str(info.get("platform") or ""),
        cpu=str((info.get("cpu") or {}).get("brand") or ""),
        cpus=(info.get("cpu") or {}).get("count"),
        python=str(info.get("python") or ""),
        interpreter=str((first.get("argv") or [""])[0]),
        packages=info.get("packages") or {},
        schema=info.get("schema"),
        missing=missing_of(run),
        name=str(info.get("name") or ""),
        tags={
            **benchmark_properties(run),
            **{str(key): str(value) for key, value in (info.get("tags") or {}).items()},
        },
        params={
            str(key): value if value is None or isinstance(value, (int, float)) else str(value)
            for key, value in (info.get("params") or {}).items()
        },
        values={**of_job(benchmark_metrics(run)), **events.last},
        latencies=tuple(map(plain, latencies_of(run))) if steps or has_spans(run.content) else (),
        studies=_studies(run) if events.studies and has_spans(run.content) else (),
    )


def _studies(run: Run) -> tuple[Mapping[str, Any], ...]:
    from ...analysis.studies import studies_in_run

    return tuple(
        {
            **plain(study),
            "trials": [plain(trial) for trial in study.trials if trial.number in study.best],
            "counts": study.counts(),
        }
        for study in studies_in_run(run)
    )


def _cause(error: str, broken: Any) -> str:
    """The exception that ended it; if that is only a launcher's and no rank raised one, how a rank died."""
    if error and not tracebacks.is_launchers(error):
        return error
    died = [each for each in broken or () if each.get("kind") == "died"]
    return next((f"rank {each['rank']} died: {each['how']}" for each in died), error)


def _held(sampled: float, counted: float | None) -> float | None:
    """Bytes that the processes held together: as sampled, but no less than the kernel counted of one.

    What it counts of a small one may be what it had from us.
    """
    if counted is None or (sampled and counted < OWN):
        return sampled or None
    return max(sampled, counted)


_NOT_REACHED = ("never-fired", "unattached")


def _warnings(info: Mapping[str, Any]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Those that say that something of ours, of a voirfile or of a rank went wrong, and stayed so; those
    about ranks where each that broke was started again.

    What a program does after its last step was not reached where it was stopped on purpose: probes
    there had nothing to fire at.
    """
    harmless = ("auto-missed", "remark", *(_NOT_REACHED if info.get("stopped") else ()))
    broken = info.get("broken") or ()
    restarted = bool(broken) and all(each.get("restarted") is not None for each in broken)
    wrong: list[str] = []
    restarts: list[str] = []
    warnings = info.get("warnings")
    for each in warnings if isinstance(warnings, list) else ():
        of_ranks = restarted and each.get("kind") == RANKS
        if of_ranks or each.get("kind") not in harmless:
            text = tracebacks.short(str(each.get("text")))
            (restarts if of_ranks else wrong).append(text)
    return tuple(wrong), tuple(restarts)


class LossCollector:
    """Collects the values of one loss."""

    def __init__(self) -> None:
        self.first: object = None
        self.count = self.odd = self.nan = 0
        self._values: list[float] = []

    def add(self, value: float, process: object = None) -> None:
        """One more, of ``process``."""
        if not self.count:
            self.first = process
        self.count += 1
        if not isfinite(value):
            self.odd += 1
            self.nan += isnan(value)
        elif process == self.first:
            self._values.append(value)

    def found(self) -> LossSeries:
        """The series of what was added."""
        every = max(1, -(-len(self._values) // SERIES_VALUES))
        return LossSeries(self.count, self.odd, tuple(self._values[::every]))


class _Events:
    """What the events of a run hold: rates that a voirfile gave, losses, the first error."""

    def __init__(self, run: Run) -> None:
        self.given: dict[object, list[float]] = {}
        self.unit = "items/s"
        self.error = ""
        self.trace: tuple[str, ...] = ()
        self.last: dict[str, float] = {}
        self.studies = False
        """Whether any tells of a hyper-parameter study."""
        self._losses: dict[str, LossCollector] = {}
        self._steps: list[tuple[float, float | None]] = []
        for _, event, data in read_events(run, Damage()):
            if not isinstance(data, dict):
                continue
            if event == "data":
                self._last(data)
                if data.get("task") in (None, "train", INFERENCE):
                    self._data(data)
            elif event == "study":
                self.studies = True
            elif event == "error" and not self.error:
                self.error, self.trace = tracebacks.of_event(
                    data.get("type"), data.get("message"), data.get("trace")
                )

    def _last(self, data: dict[str, Any]) -> None:
        for name, value in data.items():
            if name in CONTEXT or isinstance(value, (dict, list)):
                continue
            found = number(value)
            if found is not None and isfinite(found):
                self.last[name] = found

    def _data(self, data: dict[str, Any]) -> None:
        # A step that ov.step or ov.loader saw is among the spans as well, and exact there.
        rate = number(data.get("rate")) if "of" not in data else None
        process = data.get("process")
        elapsed, items = (number(data.get(key)) for key in ("elapsed", "items"))
        if rate is not None and elapsed and isfinite(elapsed):
            self._steps.append((elapsed, items))
        if rate is not None and isfinite(rate):
            self.given.setdefault(process, []).append(rate)
            self.unit = str(data.get("units") or self.unit)
        for name, value in data.items():
            if "loss" in name.lower() and (found := number(value)) is not None:
                self._losses.setdefault(name, LossCollector()).add(found, process)

    def rates(self) -> tuple[float, ...]:
        """Of all processes that gave some, added up step by step."""
        return tuple(map(sum, zip(*self.given.values(), strict=False)))

    def step(self) -> float:
        """Seconds of a step on average, as events say; 0 where none does."""
        return fmean(seconds for seconds, _ in self._steps) if self._steps else 0.0

    def items(self) -> float | None:
        """Of a step, on average; None unless each says so."""
        known = [items for _, items in self._steps if items is not None]
        return fmean(known) if known and len(known) == len(self._steps) else None

    def losses(self) -> dict[str, LossSeries]:
        return {name: series.found() for name, series in self._losses.items()}


# --- kept beside the run --------------------------------------------------------------------------


def _state(folder: str) -> list[Any] | None:
    """What tells one state of a run from another; None where it is not finished."""
    try:
        known = [
            (name, os.stat(os.path.join(folder, name))) for name in ("run.json", *names(folder))
        ]
    except OSError:
        return None
    return [[name, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns] for name, stat in known]


def _kept(folder: str, state: list[Any] | None) -> RunRecord | None:
    if state is None:
        return None
    try:
        with open(os.path.join(folder, KEPT), "rb") as file:
            kept = json.loads(file.read(LONGEST))
        if kept["format"] != FORMAT or kept["of"] != state:
            return None
        if kept["crc32"] != _checksum(kept["record"]):
            return None
        return _loaded(kept["record"])
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return None


def _loaded(record: dict[str, Any]) -> RunRecord:
    lists = {name: tuple(value) for name, value in record.items() if isinstance(value, list)}
    return RunRecord(
        **{
            **record,
            **lists,
            "losses": {
                name: LossSeries(n, odd, tuple(values))
                for name, (n, odd, values) in record["losses"].items()
            },
            "devices": tuple(DeviceRecord(*each) for each in record["devices"]),
        }
    )


def _checksum(figures: dict[str, Any]) -> int:
    return crc32(json.dumps(figures).encode())


def _keep(folder: str, state: list[Any], record: RunRecord) -> None:
    figures = vars(record)
    kept = {"format": FORMAT, "of": state, "crc32": _checksum(figures), "record": figures}
    text = json.dumps(kept)
    try:
        replace_file(os.path.join(folder, KEPT), [text.encode(), b"\n"])
    except OSError:
        pass  # a folder that is only read is read again
