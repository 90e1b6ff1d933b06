"""The figures of one run that a suite needs: read from its folder once, then cached beside it.

:func:`read` reduces a run folder, which may hold millions of spans, to a :class:`RunRecord` of a few
kilobytes, and writes that to ``result.json`` in the folder. The next report of the suite reads this file
alone, for as long as sizes and times of the run's own files are those it was made from. A suite of a hundred
runs is analysed once, not each time that a user looks at it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple
from zlib import crc32

from ...analysis.machines import machines
from ...analysis.outcome_words import RANKS
from ...analysis.runs import missing_of
from ...analysis.statistics import number, sum_of_known
from ...bus.readable import collected
from ...json_types import plain
from ...store.folder import Run, is_run, open_run
from ...store.logs import LONGEST
from ...store.place import replace_file
from ...store.run_json import BrokenRunError, NotARunError
from ...store.seal import names
from ...store.spans import has_spans
from ..run import tracebacks
from ..run.processes import dead_rank
from .run_events import LossSeries, RunEvents

if TYPE_CHECKING:
    from ...analysis.timeseries import Stepping

KEPT = "result.json"
"""The file in a run's folder that caches its figures."""
FORMAT = 9
"""The version of that file. A file of any other version is ignored, and written anew."""
OWN = 32 << 20
"""Bytes of memory that may be those of `inject` itself: see ``peak_rss`` in docs/run-folder.md."""


class DeviceRecord(NamedTuple):
    """How a run used a device, in fractions, bytes, joules and watts; None for what was not measured."""

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


FOREIGN = 0
"""The schema of a record that another program wrote: it has no ``run.json`` and needs none."""


@dataclass(frozen=True)
class RunRecord:
    """One run: how fast it was, how it ended, what it used."""

    rates: tuple[float, ...] = ()
    """The rate of each step, without the steps to skip."""
    unit: str = "items/s"
    step: float = 0.0
    """The mean seconds of a step; 0 where that is not known."""
    items: float | None = None
    """The mean items of a step, of all ranks together."""
    ranks: int = 0
    world: int | None = None
    """How many ranks there were, as the ranks themselves recorded."""
    code: int | None = None
    """The exit code; None where a signal ended the run, or where that is not known."""
    signal: int | None = None
    timed_out: bool = False
    duration: float | None = None
    """The wall time of the run, in seconds."""
    error: str = ""
    """``"ValueError: its message"``, of the exception that ended it."""
    trace: tuple[str, ...] = ()
    """The last lines of its traceback."""
    warnings: tuple[str, ...] = ()
    """What went wrong with its probes or its record, in the words of `inject report`."""
    restarts: tuple[str, ...] = ()
    """What became of ranks that broke, if their launcher started each of them again; else empty."""
    losses: Mapping[str, LossSeries] = field(default_factory=dict)
    devices: tuple[DeviceRecord, ...] = ()
    rss: float | None = None
    """The most bytes of main memory that its processes held together."""
    cores: float | None = None
    """How many cores the processes kept busy, on average."""
    host: str = ""
    platform: str = ""
    cpu: str = ""
    cpus: int | None = None
    python: str = ""
    interpreter: str = ""
    """The path of the Python that its first process was started by."""
    packages: Mapping[str, str] = field(default_factory=dict)
    schema: int | None = None
    """The schema of its ``run.json``; None where there is none, :data:`FOREIGN` where another program
    wrote the record."""
    missing: tuple[str, ...] = ()
    """What of the record is lost, or is no longer what was recorded, as sentences."""
    name: str = ""
    tags: Mapping[str, str] = field(default_factory=dict)
    params: Mapping[str, Any] = field(default_factory=dict)
    """Parameters that the program recorded: numbers and None as they are, all else as text."""
    values: Mapping[str, float] = field(default_factory=dict)
    """The last value of each number that a voirfile or the program recorded, by its name; beside them the
    figures that lightgbm-benchmark reports, under its names."""
    latencies: tuple[Mapping[str, Any], ...] = ()
    """Latencies of evaluations and predictions, as the report of the run has them (`Latency`)."""
    studies: tuple[Mapping[str, Any], ...] = ()
    """The studies of hyper-parameters, as the report of the run has them (`Study`). Of their trials only the
    best ones are kept; ``counts`` says how many trials ended in each state."""

    @property
    def driver(self) -> str:
        """The version of the devices' driver; empty where it is not known."""
        return next((device.driver for device in self.devices if device.driver), "")

    @property
    def memory(self) -> float | None:
        """The most bytes held on any one device; without a device, by the processes in main memory."""
        known = [device.peak_memory for device in self.devices if device.peak_memory is not None]
        return max(known, default=self.rss)

    @property
    def energy(self) -> float | None:
        """Joules of all its devices; None where it is not known."""
        return sum_of_known(device.energy for device in self.devices)

    @property
    def power(self) -> float | None:
        """Watts of all its devices, on average over its time; None where it is not known."""
        return sum_of_known(device.power for device in self.devices)


def read(folder: str, skip: int = 0) -> RunRecord | None:
    """The figures of the run in ``folder``; None where it holds no record of a run.

    ``skip`` is the number of first steps to leave out where the run does not record it. Of a damaged run,
    the figures are those of what is left, and the record's ``missing`` or ``error`` says so: no error is
    raised for it. The figures are cached in the folder unless it cannot be written to.
    """
    if not is_run(folder):
        return None
    # Taken before the run is read: what a program writes meanwhile makes the cached figures outdated.
    fingerprint = _fingerprint(folder)
    cached = _cached(folder, fingerprint)
    if cached is not None:
        return cached
    try:
        with collected(open_run(folder)) as run:
            record = _read(run, skip)
    except BrokenRunError as error:
        # The report names the run itself, so the path of its folder would be given twice.
        return RunRecord(missing=(str(error).replace(os.path.join(folder, ""), "", 1),))
    except (NotARunError, OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        return RunRecord(error=f"its record cannot be read: {error}")
    if fingerprint is None:  # run.json is missing: the run was not collected, or the file is lost
        return replace(record, schema=None)
    _write_cache(folder, fingerprint, record)
    return record


def _read(run: Run, skip: int) -> RunRecord:
    """The figures of ``run``. Raises what reading damaged files raises: see :func:`read`."""
    # These need numpy, which takes long to import: listing suites and running one do without.
    from ...analysis.benchmark_metrics import benchmark_metrics, benchmark_properties, of_job
    from ...analysis.latencies import latencies_of
    from ...analysis.timeseries import stepping

    info, seen = run.info, machines(run)
    events = RunEvents(run)
    steps = stepping(run, int((info.get("limits") or {}).get("skip") or skip))
    facts = _of_run_json(info)
    warnings, restarts = _warnings(info)
    error = events.error
    return RunRecord(
        **facts,
        **_speed(steps, events),
        error=_cause_of_exit(error, info) if facts["code"] else error,
        trace=events.trace,
        warnings=warnings,
        restarts=restarts,
        losses=events.losses(),
        devices=tuple(
            DeviceRecord(*(getattr(device, name) for name in DeviceRecord._fields))
            for machine in seen
            for device in machine.devices
        ),
        rss=_peak_memory(sum(machine.peak_rss for machine in seen), number(info.get("peak_rss"))),
        cores=sum_of_known(machine.cores for machine in seen),
        missing=missing_of(run),
        tags={
            **benchmark_properties(run),
            **{str(key): str(value) for key, value in (info.get("tags") or {}).items()},
        },
        values={**of_job(benchmark_metrics(run)), **events.last},
        latencies=tuple(map(plain, latencies_of(run))) if steps or has_spans(run.content) else (),
        studies=_studies(run) if events.studies and has_spans(run.content) else (),
    )


def _speed(steps: Stepping | None, events: RunEvents) -> dict[str, Any]:
    """How fast the run was: by its spans, or by the rates that a voirfile computed."""
    # Rates that a voirfile of voir's computes count as milabench counts them. Where the voirfile marks its
    # steps itself, these are the same steps, and the spans measure them exactly.
    given = events.rates() if steps is None or steps.paced_by != "step" else ()
    if steps is None:
        return {
            "rates": given,
            "unit": events.unit if given else "items/s",
            "step": events.step(),
            "items": events.items(),
            "ranks": len(events.given),
        }
    return {
        "rates": given or steps.rates,
        "unit": events.unit if given else steps.unit,
        "step": steps.seconds,
        "items": steps.items,
        "ranks": steps.ranks,
        "world": steps.world,
    }


def _of_run_json(info: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a record that are copied from ``run.json``."""
    ended, cpu, processes = info.get("exit") or {}, info.get("cpu") or {}, info.get("processes")
    first = processes[0] if isinstance(processes, list) and processes else {}
    return {
        "code": ended.get("code"),
        "signal": ended.get("signal"),
        "timed_out": bool(info.get("timed_out")),
        "duration": number(info.get("duration")),
        **{key: str(info.get(key) or "") for key in ("host", "platform", "python", "name")},
        "cpu": str(cpu.get("brand") or ""),
        "cpus": cpu.get("count"),
        "interpreter": str((first.get("argv") or [""])[0]),
        "packages": info.get("packages") or {},
        "schema": info.get("schema"),
        "params": {
            str(key): value if value is None or isinstance(value, (int, float)) else str(value)
            for key, value in (info.get("params") or {}).items()
        },
    }


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


def _cause_of_exit(error: str, info: Mapping[str, Any]) -> str:
    """Why the program exited with an error code: ``error``, the exception that it recorded, or a dead rank.

    A launcher such as torchrun raises an exception of its own when a rank dies, and so may a rank that waited
    for it. These say nothing about the cause, so that what killed the rank is given instead.
    """
    broken = info.get("broken") or ()
    followed = [tracebacks.short(rank["how"]) for rank in broken if rank["kind"] == "followed"]
    if error and not tracebacks.is_launchers(error) and error not in followed:
        return error
    return dead_rank(info) or error


def _peak_memory(sampled: float, counted: float | None) -> float | None:
    """The most bytes that the processes of a run held together; None where that is not known.

    ``sampled`` is the monitor's figure of all of them, ``counted`` what the kernel counted of the largest
    one. Sampling misses peaks between samples, and short runs altogether; the kernel misses none, but counts
    one process only. A small count may be memory that the process inherited from `inject` at its fork.
    """
    if counted is None or (sampled and counted < OWN):
        return sampled or None
    return max(sampled, counted)


_NOT_REACHED = ("never-fired", "unattached")
"""Kinds of warnings about probes whose place in the program was never reached."""


def _warnings(info: Mapping[str, Any]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The warnings of a run that matter to a suite, and apart from them those about restarted ranks.

    The first are what went wrong with the record, a voirfile or a rank, and stayed so. The second are those
    about ranks of a run in which each rank that broke was started again.
    """
    # In a run that was stopped on purpose, the program never got to what follows its last step, so that
    # probes there had nothing to fire at. Records that were lost are among what is missing.
    harmless = ("auto-missed", "remark", "lost", *(_NOT_REACHED if info.get("stopped") else ()))
    broken = info.get("broken") or ()
    restarted = bool(broken) and all(rank.get("restarted") is not None for rank in broken)
    wrong: list[str] = []
    restarts: list[str] = []
    warnings = info.get("warnings")
    for warning in warnings if isinstance(warnings, list) else ():
        of_ranks = restarted and warning.get("kind") == RANKS
        if of_ranks or warning.get("kind") not in harmless:
            text = tracebacks.short(str(warning.get("text")))
            (restarts if of_ranks else wrong).append(text)
    return tuple(wrong), tuple(restarts)


# --- the cache beside the run ---------------------------------------------------------------------


def _fingerprint(folder: str) -> list[Any] | None:
    """Sizes and times of the run's files, which change with them; None where the run is not finished.

    The time of the inode's last change is among them: a copy may keep a file's time of modification, and
    a program can set it.
    """
    try:
        stats = [
            (name, os.stat(os.path.join(folder, name))) for name in ("run.json", *names(folder))
        ]
    except OSError:
        return None
    return [[name, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns] for name, stat in stats]


def _cached(folder: str, fingerprint: list[Any] | None) -> RunRecord | None:
    """The cached figures of the run whose files have this fingerprint; None where there are none."""
    if fingerprint is None:
        return None
    try:
        with open(os.path.join(folder, KEPT), "rb") as file:
            cache = json.loads(file.read(LONGEST))
        if cache["format"] != FORMAT or cache["of"] != fingerprint:
            return None
        # A damaged disk or an editor may leave JSON that can be read, with other numbers in it.
        if cache["crc32"] != _checksum(cache["record"]):
            return None
        return _record_from_json(cache["record"])
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return None


def _record_from_json(record: dict[str, Any]) -> RunRecord:
    # JSON knows neither tuples nor classes. A record that is read must equal the one that was written.
    tuples = {name: tuple(value) for name, value in record.items() if isinstance(value, list)}
    return RunRecord(
        **{
            **record,
            **tuples,
            "losses": {
                name: LossSeries(n, odd, tuple(values))
                for name, (n, odd, values) in record["losses"].items()
            },
            "devices": tuple(DeviceRecord(*device) for device in record["devices"]),
        }
    )


def _checksum(figures: dict[str, Any]) -> int:
    return crc32(json.dumps(figures).encode())


def _write_cache(folder: str, fingerprint: list[Any], record: RunRecord) -> None:
    figures = vars(record)
    cache = {"format": FORMAT, "of": fingerprint, "crc32": _checksum(figures), "record": figures}
    text = json.dumps(cache)
    try:
        replace_file(os.path.join(folder, KEPT), [text.encode(), b"\n"])
    except OSError:
        pass  # a folder that may only be read, or a full disk: the run is read again next time
