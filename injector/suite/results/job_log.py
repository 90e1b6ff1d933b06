"""The log of a job in the form of the Deep Learning Benchmarking Suite, if the benchmark has `exp.log_file`.

Parameters and results are lines ``__key__= JSON``, times among them in milliseconds. Between them is what the
processes printed. `inject ingest` and other readers of that suite's logs can read it::

    __exp.model__= "resnet50"
    __results.start_time__= "2026-01-31:23:59:59:000"
    (what was printed)
    __exp.status__= "ok"
    __results.throughput__= 1234.5
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Mapping
from typing import Any

from ...store.place import replace_file
from ..plan.jobs import Job, Plan
from ..plan.planner import LOG_FILE
from ..run.processes import ProcessEnd, failures_by_exit_code
from . import points, run_record

OUTPUTS = ("stdout", "stderr")
_TIME_FORMAT = "%Y-%m-%d:%H:%M:%S"


def write(folder: str, plan: Plan, job: Job, ended: Mapping[str, ProcessEnd]) -> list[str]:
    """Write the log of ``job``, which has run in the suite's ``folder``, if its benchmark names a log.

    The names of logs of later repeats have the number of the repeat before the suffix. Returns what went
    wrong, as sentences.
    """
    parameters = plan.benchmarks[job.benchmark].get("parameters") or {}
    named = parameters.get(LOG_FILE)
    if not isinstance(named, str) or not named:
        return []
    stem, suffix = os.path.splitext(named)
    path = f"{stem}.{job.repeat}{suffix}" if job.repeat else named
    try:
        os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
        replace_file(path, _chunks(folder, parameters, job, ended))
    except OSError as error:
        return [f"{LOG_FILE}: {path} cannot be written: {error.strerror or error}"]
    return []


def _chunks(
    folder: str, parameters: Mapping[str, Any], job: Job, ended: Mapping[str, ProcessEnd]
) -> Iterator[bytes]:
    runs = [os.path.join(folder, ended[process.key].run) for process in job.processes]
    records = [record for run in runs if (record := run_record.read(run)) is not None]
    figures = points.figures_of(records) if len(records) == len(runs) else {}
    row = points.with_dlbs({**parameters, **figures, "devices": len(job.devices)})
    for name, value in row.items():
        if name.startswith("exp.") or (name in parameters and "." in name):
            yield _line(name, value)
    if records and records[0].host and "exp.node_id" not in row:
        yield _line("exp.node_id", records[0].host)
    last = max((end.ended for end in ended.values() if end.ended is not None), default=None)
    seconds = figures.get("duration")
    if last is not None and seconds is not None:
        yield _line("results.start_time", _timestamp(last - seconds))
    for run in runs:
        for name in OUTPUTS:
            yield from _printed(os.path.join(run, name))
    failures = failures_by_exit_code(folder, job, ended)
    yield _line("exp.status", "failure" if failures else "ok")
    if failures:
        yield _line("exp.status_msg", "; ".join(failures))
    for name, value in row.items():
        if name.startswith("results."):
            yield _line(name, value)
    if len(records) == 1 and (items := records[0].items) and all(records[0].rates):
        yield _line(
            "results.time_data", [round(1e3 * items / rate, 6) for rate in records[0].rates]
        )
    if last is not None:
        yield _line("results.end_time", _timestamp(last))


def _printed(path: str) -> Iterator[bytes]:
    """What a process printed to the file ``path``, with a line break after the last line."""
    try:
        with open(path, "rb") as file:
            last = b"\n"
            while chunk := file.read(1 << 20):
                last = chunk
                yield chunk
    except OSError:
        return
    if not last.endswith(b"\n"):
        yield b"\n"


def _line(name: str, value: Any) -> bytes:
    return f"__{name}__= {json.dumps(value, default=str)}\n".encode()


def _timestamp(moment: float) -> str:
    seconds, milliseconds = divmod(round(moment * 1e3), 1000)
    return f"{time.strftime(_TIME_FORMAT, time.localtime(seconds))}:{milliseconds:03d}"
