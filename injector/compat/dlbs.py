"""Logs of the Deep Learning Benchmarking Suite, read into the folder of a suite's runs.

A log is what one benchmark printed. Some of its lines are parameters: ``__exp.model__= "resnet50"``, a key
and JSON; of a key that comes several times the last one counts (``python/dlbs/logparser.py`` of DLBS). Times
(``results.time``, ``results.time_data``) are milliseconds of a batch.
"""

from __future__ import annotations

import gzip
import json
import os
import re
import shutil
import time
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from math import isfinite
from typing import Any

from ..errors import UserError
from ..schema import SCHEMA
from ..store.event import line_of
from ..store.place import clean_name, replace_file
from ..store.run_json import write_info
from ..store.seal import ARTIFACTS, seal
from ..suite.plan.jobs import Job, Plan, PlannedProcess
from ..suite.run import journal, suite_folder

PARAMETERS = {
    "exp.framework": "the framework that a benchmark measures; a suite names its entry by it",
    "exp.model": "the model that is measured, such as resnet50",
    "exp.gpus": "the GPUs that a benchmark uses, by number, with commas (0,1,2,3), or with colons where they "
    "hold one replica together (0:1,2:3); empty for the processor",
    "exp.num_gpus": "how many GPUs a benchmark uses: devices of a run",
    "exp.num_replicas": "how many replicas of the model they hold, in the suite dlbs: 1 on the processor",
    "exp.replica_batch": "the batch size of each replica, or device: weak scaling keeps it",
    "exp.effective_batch": "the batch size of all replicas, the items of a step: strong scaling keeps it",
    "exp.num_warmup_batches": "batches that are left out of the numbers, as --skip of inject run",
    "exp.num_batches": "batches that are measured, as --stop of inject run",
    "exp.phase": "training or inference, as --phase of inject run",
    "exp.log_file": "the log of a job: inject suite run writes it there, with the parameters and results",
    "exp.docker": "whether a benchmark runs in a container, of the image exp.docker_image",
    "exp.docker_image": "the image of the container, or the Dockerfile that it is built from",
    "exp.status": "ok or success, in a log, or how its benchmark failed; exp.status_msg has the reason",
    "exp.node_id": "the name of the host, in a log",
    "results.time": "milliseconds of a batch, on average: step_time in milliseconds",
    "results.time_data": "milliseconds of each batch, in a log: a rate for each",
    "results.throughput": "items per second of all devices together: throughput",
    "results.start_time": "when the benchmark began, in a log; results.end_time when it ended",
}
"""By name what each means here, for `inject help`."""
SUFFIXES = (".log", ".log.gz")
_PARAMETER = re.compile(r"[ \t]*__(.+?)__[ \t]*=(.*)")
_IDENTITIES = re.compile(
    r"exp\.(id|log_file|status|status_msg|rerun|docker_launcher|.*_(title|dir|ver|commit))$"
)
"""Parameters that tell no two benchmarks apart: names and places of a run, and what follows from others."""
_LONGEST = 4_096
"""Characters of a parameter that is kept; of longer ones the log has them."""
_MOMENT = "%Y-%m-%d:%H:%M:%S:%f"
SUCCEEDED = ("ok", "success")
"""What ``exp.status`` is where a benchmark ended well: as configured, or as scripts that read logs say."""
_NEARLY = 0.01
"""The part by which the mean of ``results.time_data`` may differ from ``results.time``."""


@dataclass
class BenchmarkLog:
    """One log: its parameters, and what is wrong with it as sentences."""

    path: str
    parameters: dict[str, Any] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)

    @property
    def phase(self) -> str:
        return "inference" if self.parameters.get("exp.phase") == "inference" else "training"

    @property
    def seconds(self) -> float | None:
        """Of a batch, on average; None where the log has no result."""
        for key in ("results.time", f"results.{self.phase}_time"):
            if (found := _positive(self.parameters.get(key))) is not None:
                return found / 1e3
        rate, items = _positive(self.parameters.get("results.throughput")), self.items
        return items / rate if rate and items else None

    @property
    def items(self) -> float | None:
        """Of a batch of all replicas together."""
        effective = _positive(self.parameters.get("exp.effective_batch"))
        if effective is not None:
            return effective
        each = _positive(self.parameters.get("exp.replica_batch"))
        return None if each is None else each * max(self.replicas, 1)

    @property
    def batches(self) -> list[float]:
        """Seconds of single batches, where the log has those that its mean is of; else that mean."""
        mean, data = self.seconds, self.parameters.get("results.time_data")
        if mean is None:
            return []
        each = [_positive(value) for value in data] if isinstance(data, list) else []
        known = [value / 1e3 for value in each if value is not None]
        if (
            known
            and len(known) == len(each)
            and abs(sum(known) / len(known) - mean) < _NEARLY * mean
        ):
            return known
        return [mean]

    @property
    def devices(self) -> tuple[str, ...]:
        """``cuda:0``, …; ``cpu:0`` where it used none."""
        gpus = self.parameters.get("exp.gpus")
        listed = re.findall(r"\d+", str(gpus)) if gpus not in (None, "") else []
        number = self.parameters.get("exp.num_gpus")
        if not listed and isinstance(number, int):
            listed = [str(each) for each in range(min(number, 1 << 16))]
        return tuple(f"cuda:{each}" for each in listed) or ("cpu:0",)

    @property
    def replicas(self) -> int:
        """Of the model: GPUs that a colon joins hold one together."""
        gpus = str(self.parameters.get("exp.gpus") or "")
        return len(re.findall(r"\d+(?::\d+)*", gpus)) or len(self.devices)

    @property
    def failure(self) -> str:
        """What the log says of how its benchmark failed; empty where it does not say that."""
        for key in ("exp.status", "results.status"):
            if (status := self.parameters.get(key)) is not None:
                if status in SUCCEEDED:
                    return ""
                message = self.parameters.get("exp.status_msg")
                return f"{key}: {status}{f': {message}' if message else ''}"
        return ""

    @property
    def code(self) -> int | None:
        """0 where its benchmark ended well, with a result; else None: no log has an exit code."""
        return 0 if self.seconds is not None and not self.failure else None


def logs_in(places: Iterable[str]) -> list[str]:
    """The logs that ``places`` name: files as they are, and all ``*.log`` and ``*.log.gz`` in folders.

    Raises UserError where a place does not exist, or a folder holds none.
    """
    found: dict[str, None] = {}
    for place in places:
        if not os.path.exists(place):
            raise UserError(f"{place}: there is no such file or folder")
        if not os.path.isdir(place):
            found[place] = None
            continue
        walked = sorted(os.walk(place))
        inside = [os.path.join(at, name) for at, _, files in walked for name in sorted(files)
                  if name.endswith(SUFFIXES)]  # fmt: skip
        if not inside:
            raise UserError(f"{place}: no {' or '.join(SUFFIXES)} file is in it, nor below it")
        found.update(dict.fromkeys(inside))
    return list(found)


def read_log(path: str) -> BenchmarkLog:
    """The log in the file ``path``, as far as it can be read."""
    log = BenchmarkLog(path)
    torn: tuple[int, str] | None = None
    number = 0
    for number, line, whole in _lines(log):
        stripped = line.lstrip(" \t")
        match = _PARAMETER.match(line) if stripped.startswith("__") else None
        if not whole:
            torn = (number, "") if match is None else (number, match[1].strip())
        if match is None:
            continue
        key, text = match[1].strip(), match[2].strip()
        # Bytes that are no UTF-8. Other lines may have some: they are the program's own.
        if any("\udc80" <= letter <= "\udcff" for letter in key + text):
            readable = key.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
            log.problems.append(f"{path}:{number}: {readable} is no UTF-8")
            continue
        try:
            value = json.loads(text) if text else None
        except (ValueError, RecursionError):
            value = log
        # Of a number that the file ends with, nothing says that it is whole.
        if not whole and (value is log or type(value) in (int, float)):
            log.problems.append(f"{path}:{number}: cut off within the value of {key}")
        elif value is log:
            log.problems.append(f"{path}:{number}: {key} is no JSON: {text[:40]}")
        else:
            log.parameters[key] = value
    if not log.parameters:
        if not log.problems:
            log.problems.append(
                f'{path}: no line of it is a parameter, such as __exp.model__= "resnet50"'
            )
    elif log.code is None and not log.failure:
        after = f" after line {number}" if torn is None else f" in line {torn[0]}"
        log.problems.append(
            f"{path}: it ends{after} without results.time or results.throughput: it was cut off, or its "
            "benchmark did not end"
        )
    return log


def _lines(log: BenchmarkLog) -> Iterator[tuple[int, str, bool]]:
    """Number, text and whether it was ended, of each line; the end of a damaged archive is a problem."""
    opened = gzip.open if log.path.endswith(".gz") else open
    number = 0
    try:
        with opened(log.path, "rb") as file:
            for number, line in enumerate(file, 1):
                yield (
                    number,
                    line.decode("utf-8", "surrogateescape").rstrip("\r\n"),
                    line.endswith(b"\n"),
                )
    except gzip.BadGzipFile as error:
        after = f"damaged after line {number}: {error}" if number else "no gzip archive"
        log.problems.append(f"{log.path}: it is {after}")
    except (EOFError, zlib.error) as error:
        log.problems.append(f"{log.path}: the archive is cut off after line {number}: {error}")
    except OSError as error:
        log.problems.append(f"{log.path}: it cannot be read: {error.strerror or error}")


def _positive(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return float(value) if isfinite(value) and value > 0 else None


# --- as the folder of a suite's runs ----------------------------------------------------------------


def ingest(logs: Sequence[BenchmarkLog], folder: str, name: str) -> dict[str, list[BenchmarkLog]]:
    """Write the runs of ``logs`` into the empty ``folder``; the logs of each benchmark, by its name.

    Logs whose parameters are the same are repeats of one benchmark. Raises OSError, UserError.
    """
    swept = _swept(logs)
    benchmarks = _benchmarks(logs, swept)
    jobs, lines = [], list[dict[str, Any]]()
    for benchmark, repeats in benchmarks.items():
        for repeat, log in enumerate(repeats):
            key = f"{benchmark}.R{repeat}"
            process = _process(f"{key}.D0", log)
            began, ended = _write_run(os.path.join(folder, process.run), benchmark, log)
            jobs.append(Job(key, benchmark, repeat, (process,)))
            lines.append(_journalled(key, process, log, began, ended))
    planned = {
        benchmark: {
            "family": name,
            "group": name,
            "values": {key: repeats[0].parameters.get(key) for key in swept},
            "tags": [repeats[0].phase],
            "weight": 1.0,
            "settings": {},
        }
        for benchmark, repeats in benchmarks.items()
    }
    suite = {"name": name, "file": os.path.commonpath([os.path.abspath(log.path) for log in logs])}
    machine = _machine(logs)
    suite_folder.write_plan(
        folder, Plan(suite, os.path.dirname(folder), machine, planned, tuple(jobs))
    )
    lines.sort(key=lambda line: float(line["time"]))
    first, last = lines[0]["time"], lines[-1]["time"]
    around = ({"event": "begin", "time": first}, {"event": "end", "time": last})
    journal.write_all(folder, [around[0], *lines, around[1]])
    return benchmarks


def _swept(logs: Sequence[BenchmarkLog]) -> list[str]:
    """The ``exp.`` parameters in which benchmarks differ, without those that only say so once more."""
    names = dict.fromkeys(key for log in logs for key in log.parameters if key.startswith("exp."))
    first = [
        "exp.framework",
        "exp.model",
        "exp.phase",
        "exp.gpus",
        "exp.num_gpus",
        "exp.replica_batch",
    ]
    ordered = [name for name in first if name in names] + sorted(names.keys() - {*first})
    found, seen = [], set[tuple[int, ...]]()
    for name in ordered:
        if _IDENTITIES.match(name):
            continue
        texts = [_text(log.parameters.get(name)) for log in logs]
        numbers = {text: number for number, text in enumerate(dict.fromkeys(texts))}
        partition = tuple(numbers[text] for text in texts)
        if len(numbers) > 1 and partition not in seen:
            seen.add(partition)
            found.append(name)
    return found


def _text(value: object) -> str:
    return json.dumps(value, sort_keys=True)


def _benchmarks(
    logs: Sequence[BenchmarkLog], swept: Sequence[str]
) -> dict[str, list[BenchmarkLog]]:
    """The logs of each benchmark, by a name of its own."""
    found: dict[str, list[BenchmarkLog]] = {}
    names: dict[str, str] = {}
    for log in logs:
        key = _text([log.parameters.get(name) for name in swept])
        if key not in names:
            words = [str(log.parameters.get(name)) for name in swept if name in log.parameters]
            text = clean_name("-".join(words)[:80] or str(log.parameters.get("exp.model") or "log"))
            name, number = text, 1
            while name in found:
                number += 1
                name = f"{text}-{number}"
            names[key] = name
        found.setdefault(names[key], []).append(log)
    return found


def _process(key: str, log: BenchmarkLog) -> PlannedProcess:
    path = os.path.abspath(log.path)
    return PlannedProcess(
        key=key,
        devices=log.devices,
        command=("inject", "ingest", path),
        environment={},
        folder=os.path.dirname(path),
        run=os.path.join("jobs", key),
        timeout=0.0,
        expected=0.0,
    )


def _journalled(
    key: str, process: PlannedProcess, log: BenchmarkLog, began: float, ended: float
) -> dict[str, Any]:
    end = {"code": log.code, "signal": None, "timed_out": False, "run": process.run}
    return {
        "event": "job",
        "key": key,
        "state": journal.FINISHED,
        "attempt": 1,
        "time": ended,
        "ok": log.code == 0,
        "seconds": ended - began,
        "processes": {process.key: end},
    }


def _write_run(folder: str, name: str, log: BenchmarkLog) -> tuple[float, float]:
    """Write the run of one log; when it began and ended, unix seconds. Raises OSError."""
    parameters = log.parameters
    ended = _moment(parameters.get("results.end_time")) or os.path.getmtime(log.path)
    began = _moment(parameters.get("results.start_time")) or ended
    artifact = os.path.join(folder, ARTIFACTS, os.path.basename(log.path))
    os.makedirs(os.path.dirname(artifact))
    shutil.copyfile(log.path, artifact)
    events = list(_events(name, log, began, ended))
    replace_file(os.path.join(folder, f"{clean_name(name)}.D0.data"), [*map(line_of, events)])
    message = parameters.get("exp.status_msg")
    info = {
        "schema": SCHEMA,
        "name": name,
        "command": ["inject", "ingest", os.path.abspath(log.path)],
        "program": {"command": "ingest"},
        "voirfiles": [],
        "started": began,
        "ended": ended,
        "duration": max(ended - began, 0.0),
        "exit": {"code": log.code, "signal": None},
        "tags": {"source": "dlbs"},
        "params": {key: value for key, value in parameters.items() if _is_setting(key, value)},
        "artifacts": [{"name": os.path.basename(log.path), "path": os.path.abspath(log.path),
                       "size": os.path.getsize(log.path), "copied": True}],
        "limits": {},
        "timed_out": False,
        "stopped": False,
        "host": str(parameters.get("exp.node_id") or ""),
        "python": "",
        "platform": "",
        "cpu": {},
        "packages": {},
        "processes": [],
        "probes": [],
        "misses": [],
        "failures": [],
        "records": len(events),
        "lost": 0,
        "torn": 0,
        "warnings": [{"kind": "problem", "text": text} for text in log.problems]
        + ([{"kind": "remark", "text": str(message)}] if message else []),
        "files": seal(folder),
    }  # fmt: skip
    write_info(folder, info)
    return began, ended


def _events(name: str, log: BenchmarkLog, began: float, ended: float) -> Iterator[dict[str, Any]]:
    """In the order of a run's ``.data``: its batches as steps, and its numbers as data."""

    def event(kind: str, data: Any) -> dict[str, Any]:
        return {"event": kind, "data": data, "pipe": None}

    argv = ["ingest", os.path.abspath(log.path)]
    yield event("config", {"name": name, "run_name": name, "tag": [name, "D0"], "argv": argv})
    yield event("start", {"command": ["inject", *argv], "time": began})
    task, items, moment = ("inference" if log.phase == "inference" else "train"), log.items, began
    for number, seconds in enumerate(log.batches):
        moment += seconds
        step = {"task": task, "batch_id": number, "elapsed": seconds, "time": moment}
        if items is None:
            step |= {"rate": 1 / seconds, "units": "steps/s"}
        else:
            step |= {
                "rate": items / seconds,
                "units": "items/s",
                "items": items,
                "batch_size": items,
            }
        yield event("data", step)
    if log.failure:
        kind, _, message = log.failure.partition(": ")
        yield event("error", {"type": kind, "message": message})
    for key, value in log.parameters.items():
        if key.startswith("results.") and type(value) in (int, float) and isfinite(value):
            yield event("data", {key: value, "time": ended})
    yield event("end", {"command": ["inject", *argv], "time": ended, "return_code": log.code})


def _is_setting(key: str, value: object) -> bool:
    if key.startswith(("results.", "hw.")):
        return False
    return value is None or not isinstance(value, str) or len(value) <= _LONGEST


def _moment(text: object) -> float | None:
    try:
        return time.mktime(time.strptime(str(text), _MOMENT)) + int(str(text)[-3:]) / 1e3
    except (ValueError, OverflowError):
        return None


def _machine(logs: Sequence[BenchmarkLog]) -> dict[str, Any]:
    """What a report says of the machine: as the first log that names one does."""
    host = next((str(each) for log in logs if (each := log.parameters.get("exp.node_id"))), "")
    title = next(
        (str(each) for log in logs if (each := log.parameters.get("exp.device_title"))), ""
    )
    keys = dict.fromkeys(device for log in logs for device in log.devices)
    devices = [{"key": key, "name": title, "uuid": "", "memory": None} for key in keys]
    arch = "cuda" if any(key.startswith("cuda") for key in keys) else "cpu"
    return {"host": host, "arch": arch, "cpu_count": 0, "memory": None, "devices": devices}
