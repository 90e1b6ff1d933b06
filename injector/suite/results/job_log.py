"""The log of a job in the form of the Deep Learning Benchmarking Suite, where `exp.log_file` names one.

It has the benchmark's parameters and results as lines ``__key__=JSON``, and between them what its processes
printed. `inject ingest` reads it, as what else reads logs of that suite does. Times are milliseconds.
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
from ..run.processes import ProcessEnd
from . import points, run_record

OUTPUTS = ("stdout", "stderr")
_MOMENT = "%Y-%m-%d:%H:%M:%S"


def write(folder: str, plan: Plan, job: Job, ended: Mapping[str, ProcessEnd]) -> list[str]:
    """Write the log of ``job``, which has run in the suite's ``folder``, where its benchmark names one.

    Repeats after the first have their number before the suffix. Returns what went wrong, as sentences.
    """
    parameters = plan.benchmarks[job.benchmark].get("parameters") or {}
    named = parameters.get(LOG_FILE)
    if not isinstance(named, str) or not named:
        return []
    stem, suffix = os.path.splitext(named)
    path = f"{stem}.{job.repeat}{suffix}" if job.repeat else named
    try:
        os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
        replace_file(path, _pieces(folder, parameters, job, ended))
    except OSError as error:
        return [f"{LOG_FILE}: {path} cannot be written: {error.strerror or error}"]
    return []


def _pieces(
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
        yield _line("results.start_time", _stamp(last - seconds))
    for run in runs:
        for name in OUTPUTS:
            yield from _printed(os.path.join(run, name))
    failures = {end.code for end in ended.values() if end.code != 0}
    yield _line("exp.status", "failure" if failures else "ok")
    if failures:
        yield _line(
            "exp.status_msg", f"exit code {', '.join(map(str, sorted(map(str, failures))))}"
        )
    for name, value in row.items():
        if name.startswith("results."):
            yield _line(name, value)
    if len(records) == 1 and (items := records[0].items) and all(records[0].rates):
        yield _line(
            "results.time_data", [round(1e3 * items / rate, 6) for rate in records[0].rates]
        )
    if last is not None:
        yield _line("results.end_time", _stamp(last))


def _printed(path: str) -> Iterator[bytes]:
    """What a process printed, a line at its end."""
    try:
        with open(path, "rb") as file:
            last = b"\n"
            while piece := file.read(1 << 20):
                last = piece
                yield piece
    except OSError:
        return
    if not last.endswith(b"\n"):
        yield b"\n"


def _line(name: str, value: Any) -> bytes:
    return f"__{name}__= {json.dumps(value, default=str)}\n".encode()


def _stamp(moment: float) -> str:
    whole, rest = divmod(round(moment * 1e3), 1000)
    return f"{time.strftime(_MOMENT, time.localtime(whole))}:{rest:03d}"
