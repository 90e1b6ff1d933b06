"""Writes logs of the Deep Learning Benchmarking Suite as the folder of a suite that ran the benchmarks.

A log becomes one job of one process, with a run folder of its own. Logs are repeats of one benchmark if their
parameters are the same, but for those that identify a log.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import time
from collections.abc import Iterator, Sequence
from math import isfinite
from typing import Any

from ...schema import SCHEMA
from ...store.event import line_of
from ...store.place import clean_name, replace_file
from ...store.run_json import write_info
from ...store.seal import ARTIFACTS, seal
from ...suite.plan.jobs import Job, Plan, PlannedProcess
from ...suite.run import journal, suite_folder
from .logs import BenchmarkLog

FIRST = ("exp.framework", "exp.model", "exp.phase", "exp.gpus", "exp.num_gpus", "exp.replica_batch")
"""The parameters that come first in the name of a benchmark."""
IDENTITIES = re.compile(
    r"exp\.(id|log_file|status|status_msg|rerun|docker_launcher|.*_(title|dir|ver|commit))$"
)
"""Parameters that do not distinguish benchmarks: names and places of a log, and what follows from others."""
LONGEST = 4_096
"""The most characters of a parameter in run.json. Longer ones are in the log, which is kept."""
TIME_FORMAT = "%Y-%m-%d:%H:%M:%S:%f"


def ingest(logs: Sequence[BenchmarkLog], folder: str, name: str) -> dict[str, list[BenchmarkLog]]:
    """Write the runs of ``logs`` into the empty ``folder``, as those of a suite called ``name``.

    Returns the logs of each benchmark by its name. Raises OSError, UserError.
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
            lines.append(_journal_line(key, process, log, began, ended))
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
    plan = Plan(suite, os.path.dirname(folder), _machine(logs), planned, tuple(jobs))
    suite_folder.write_plan(folder, plan)
    lines.sort(key=lambda line: float(line["time"]))
    begin = {"event": "begin", "time": lines[0]["time"]}
    journal.write_all(folder, [begin, *lines, {"event": "end", "time": lines[-1]["time"]}])
    return benchmarks


def _swept(logs: Sequence[BenchmarkLog]) -> list[str]:
    """The ``exp.`` parameters in which ``logs`` differ.

    A parameter that divides the logs in the same way as an earlier one is left out.
    """
    names = dict.fromkeys(key for log in logs for key in log.parameters if key.startswith("exp."))
    ordered = [name for name in FIRST if name in names] + sorted(names.keys() - {*FIRST})
    swept, seen = [], set[tuple[int, ...]]()
    for name in ordered:
        if IDENTITIES.match(name):
            continue
        texts = [_hashable(log.parameters.get(name)) for log in logs]
        numbers = {text: number for number, text in enumerate(dict.fromkeys(texts))}
        partition = tuple(numbers[text] for text in texts)
        if len(numbers) > 1 and partition not in seen:
            seen.add(partition)
            swept.append(name)
    return swept


def _hashable(value: object) -> str:
    return json.dumps(value, sort_keys=True)


def _benchmarks(
    logs: Sequence[BenchmarkLog], swept: Sequence[str]
) -> dict[str, list[BenchmarkLog]]:
    """The logs of each benchmark, by a unique name that is made of the ``swept`` parameters."""
    benchmarks: dict[str, list[BenchmarkLog]] = {}
    names: dict[str, str] = {}
    for log in logs:
        key = _hashable([log.parameters.get(name) for name in swept])
        if key not in names:
            words = [str(log.parameters.get(name)) for name in swept if name in log.parameters]
            text = clean_name("-".join(words)[:80] or str(log.parameters.get("exp.model") or "log"))
            name, number = text, 1
            while name in benchmarks:
                number += 1
                name = f"{text}-{number}"
            names[key] = name
        benchmarks.setdefault(names[key], []).append(log)
    return benchmarks


def _process(key: str, log: BenchmarkLog) -> PlannedProcess:
    """The process ``key`` of the plan, whose run is that of ``log``."""
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


def _journal_line(
    key: str, process: PlannedProcess, log: BenchmarkLog, began: float, ended: float
) -> dict[str, Any]:
    """The end of the job ``key`` in the journal. Times are unix seconds."""
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
    """Write the run of one log. Returns when it began and ended, unix seconds. Raises OSError."""
    parameters = log.parameters
    ended = _unix_time(parameters.get("results.end_time")) or os.path.getmtime(log.path)
    began = _unix_time(parameters.get("results.start_time")) or ended
    artifact = os.path.join(folder, ARTIFACTS, os.path.basename(log.path))
    os.makedirs(os.path.dirname(artifact))
    shutil.copyfile(log.path, artifact)
    events = list(_events(name, log, began, ended))
    replace_file(os.path.join(folder, f"{clean_name(name)}.D0.data"), [*map(line_of, events)])
    message = parameters.get("exp.status_msg")
    warnings = [{"kind": "problem", "text": text} for text in log.problems]
    warnings += [{"kind": "remark", "text": str(message)}] if message else []
    info = {
        "schema": SCHEMA,
        "name": name,
        "command": ["inject", "ingest", os.path.abspath(log.path)],
        "program": {"command": "ingest"},
        "started": began,
        "ended": ended,
        "duration": max(ended - began, 0.0),
        "exit": {"code": log.code, "signal": None},
        "tags": {"source": "dlbs"},
        "params": {
            key: value
            for key, value in parameters.items()
            if not key.startswith(("results.", "hw."))
            and not (isinstance(value, str) and len(value) > LONGEST)
        },
        "artifacts": [{"name": os.path.basename(log.path), "path": os.path.abspath(log.path),
                       "size": os.path.getsize(log.path), "copied": True}],
        **dict.fromkeys(("voirfiles", "processes", "probes", "misses", "failures"), ()),
        **{key: {} for key in ("limits", "cpu", "packages")},
        **dict.fromkeys(("timed_out", "stopped"), False),
        "host": str(parameters.get("exp.node_id") or ""),
        **dict.fromkeys(("python", "platform"), ""),
        "records": len(events),
        **dict.fromkeys(("lost", "torn"), 0),
        "warnings": warnings,
        "files": seal(folder),
    }  # fmt: skip
    write_info(folder, info)
    return began, ended


def _events(name: str, log: BenchmarkLog, began: float, ended: float) -> Iterator[dict[str, Any]]:
    """The events of a run's ``.data`` file: batches as steps, and numbers among the results as data."""

    def event(kind: str, data: Any) -> dict[str, Any]:
        return {"event": kind, "data": data, "pipe": None}

    argv = ["ingest", os.path.abspath(log.path)]
    yield event("config", {"name": name, "run_name": name, "tag": [name, "D0"], "argv": argv})
    yield event("start", {"command": ["inject", *argv], "time": began})
    task, items, end = ("inference" if log.phase == "inference" else "train"), log.items, began
    for number, seconds in enumerate(log.batches):
        end += seconds
        step = {"task": task, "batch_id": number, "elapsed": seconds, "time": end}
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


def _unix_time(text: object) -> float | None:
    """Unix seconds of a time in a log, which is local and ends in milliseconds; None for other texts."""
    try:
        return time.mktime(time.strptime(str(text), TIME_FORMAT)) + int(str(text)[-3:]) / 1e3
    except (ValueError, OverflowError):
        return None


def _machine(logs: Sequence[BenchmarkLog]) -> dict[str, Any]:
    """The machine of the plan, with host and device's title of the first log that names them."""
    host = next((str(each) for log in logs if (each := log.parameters.get("exp.node_id"))), "")
    title = next(
        (str(each) for log in logs if (each := log.parameters.get("exp.device_title"))), ""
    )
    keys = dict.fromkeys(device for log in logs for device in log.devices)
    devices = [{"key": key, "name": title, "uuid": "", "memory": None} for key in keys]
    arch = "cuda" if any(key.startswith("cuda") for key in keys) else "cpu"
    return {"host": host, "arch": arch, "cpu_count": 0, "memory": None, "devices": devices}
