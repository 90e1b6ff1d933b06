"""Whether a process ran, and ended well."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator, Mapping
from typing import Any

from ...run.journal import FINISHED
from .. import traces
from ..outcome import Finding, ProcessResult
from .texts import duration

LAYER = "error"


def check(
    process: ProcessResult, settings: Mapping[str, Any], rules: Mapping[str, Any]
) -> Iterator[Finding]:
    """Exit code, signal, time limit, exceptions; a process without a record has failed.

    So has one in which something of ours or of a voirfile went wrong, if ``strict``.
    """
    sentence = _wrong(process, settings)
    if process.record and rules["strict"]:
        for warning in process.record.warnings:
            yield Finding(LAYER, False, rules["severity"], warning)
    if sentence is None:
        yield Finding(LAYER, True, rules["severity"], "it ended well")
        return
    said = _said(process)
    if said.exception and said.exception not in sentence:
        sentence += f": {said.exception}"
    yield Finding(LAYER, False, rules["severity"], sentence, said.lines)


def _said(process: ProcessResult) -> traces.Trace:
    """What its record tells of an exception, else what it printed."""
    record = process.record
    if process.folder is None or (record and record.trace):
        return traces.Trace(record.error if record else "", record.trace if record else ())
    printed = traces.of_file(os.path.join(process.folder, "stderr"))
    return traces.Trace(record.error, printed.lines) if record and record.error else printed


def _wrong(process: ProcessResult, settings: Mapping[str, Any]) -> str | None:
    """Why it counts as a failure; None where it does not."""
    if process.state != FINISHED:
        return process.reason or f"it is {process.state}"
    record = process.record
    if process.timed_out or (record and record.timed_out):
        limit = settings.get("max_duration")
        return f"ended by its time limit of {duration(limit)}" if limit else "ended by a time limit"
    number = process.signal or (record and record.signal)
    if number:
        return f"killed by {_signal(number)}"
    code = process.code if process.code is not None else record and record.code
    if code:
        return f"exit code {code}"
    if record is None:
        return "it left no record"
    if record.schema is None and not record.missing:
        return record.error or "its record was never finished: what supervised it was killed"
    return None if code == 0 else "how it ended is not known"


def _signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
