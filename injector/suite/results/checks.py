"""The layers of validation that look at processes and at repeats of a benchmark.

Each has a name, by which ``validation:`` of a benchmark sets its rules, and a function that gives findings.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from math import fsum
from statistics import median

from ...analysis.wording import count, signal_name
from ..config.rules import NOTE, WARNING, Rules, Settings
from ..run import tracebacks
from ..run.journal import FINISHED
from . import scores
from .run_record import DeviceRecord, LossSeries
from .suite_summary import BenchmarkSummary, Finding, ProcessSummary


def share(value: float) -> str:
    """A fraction as ``0.31``; with more digits where two would say 0."""
    return f"{value:.2f}" if value == 0 or value >= 0.01 else f"{value:.2g}"


def number(value: float) -> str:
    """Four digits that matter."""
    return f"{value:.4g}"


ERROR = "error"


def check_error(process: ProcessSummary, settings: Settings, rules: Rules) -> Iterator[Finding]:
    """Exit code, signal, time limit, exceptions; a process without a record has failed.

    So has one in which something of ours or of a voirfile went wrong, if ``strict``.
    """
    sentence = _why_failed(process, settings)
    if process.record and rules["strict"]:
        for warning in process.record.warnings:
            yield Finding(ERROR, False, rules["severity"], warning)
    for restart in process.record.restarts if process.record else ():
        yield Finding(ERROR, False, WARNING, restart)
    if sentence is None:
        yield Finding(ERROR, True, rules["severity"], "it ended well")
        return
    raised = _traceback_of(process)
    if raised.exception and raised.exception not in sentence:
        sentence += f": {raised.exception}"
    yield Finding(ERROR, False, rules["severity"], sentence, raised.lines)


def _traceback_of(process: ProcessSummary) -> tracebacks.Traceback:
    """The exception that its record holds, else the last one that it printed."""
    record = process.record
    if process.folder is None or (record and record.trace):
        return tracebacks.Traceback(record.error if record else "", record.trace if record else ())
    printed = tracebacks.of_file(os.path.join(process.folder, "stderr"))
    return tracebacks.Traceback(record.error, printed.lines) if record and record.error else printed


def _why_failed(process: ProcessSummary, settings: Settings) -> str | None:
    """Why it counts as a failure; None where it does not."""
    if process.state != FINISHED:
        return process.reason or f"it is {process.state}"
    record = process.record
    if process.timed_out or (record and record.timed_out):
        limit = settings.get("max_duration")
        return f"ended by its time limit of {limit:g} s" if limit else "ended by a time limit"
    number = process.signal or (record and record.signal)
    if number:
        return f"killed by {signal_name(number)}"
    code = process.code if process.code is not None else record and record.code
    if code:
        return f"exit code {code}"
    if record is None:
        return "it left no record"
    if record.schema is None and not record.missing:
        return record.error or "its record was never finished: what supervised it was killed"
    return None if code == 0 else record.error or "how it ended is not known"


RATE = "rate"
UNEVEN = 3.0
"""Of a mean of rates to the rate as a whole: what no noise of steps explains."""
LEAST = 5
"""Rates, and the first, before that is looked at."""


def check_rate(process: ProcessSummary, settings: Settings, rules: Rules) -> Iterator[Finding]:
    """The number of rates, and that they are more than 0."""
    if process.record is None:
        return
    wanted = expected(settings, rules)
    rates = process.rates
    enough = len(rates) >= wanted
    came = f"{count(len(rates), 'rate')} came" if rates else "no rate came"
    were = "was" if wanted == 1 else "were"
    sentence = came if enough else f"{came}, at least {wanted} {were} expected"
    yield Finding(RATE, enough, rules["severity"], sentence)
    if rates and not any(rate > 0 for rate in rates):
        yield Finding(RATE, False, rules["severity"], "every rate is 0")
    # The first step may compile.
    elif len(rates) > LEAST and all(rate > 0 for rate in rates):
        mean = fsum(rates[1:]) / len(rates[1:])
        whole = len(rates[1:]) / fsum(1 / rate for rate in rates[1:])
        if mean > UNEVEN * whole:
            sentence = (
                f"the mean of its rates, {number(mean)}, is {number(mean / whole)} times the rate of all its "
                f"steps together, {number(whole)}: a few steps take most of the time, as where steps are "
                "queued and then waited for"
            )
            yield Finding(RATE, False, WARNING, sentence)


def expected(settings: Settings, rules: Rules) -> int:
    """``rate.min``, else ``voir.options.stop``; 1 where time may end the run earlier."""
    if rules["min"] is not None:
        return int(rules["min"])
    options = (settings.get("voir") or {}).get("options") or {}
    stop = options.get("stop")
    if not isinstance(stop, int) or isinstance(stop, bool) or options.get("max_duration"):
        return 1
    return stop


LOSS = "loss"


def check_loss(process: ProcessSummary, settings: Settings, rules: Rules) -> Iterator[Finding]:
    """Each series of losses that ``names`` selects."""
    if process.record is None:
        return
    names = rules["names"]
    for name, losses in process.record.losses.items():
        if names is not None and name not in names:
            continue
        if rules["finite"] and losses.odd:
            sentence = f"{losses.odd} of {losses.n} values of {name} are not finite"
            yield Finding(LOSS, False, rules["severity"], sentence)
        elif rules["falls"]:
            yield from _falls(name, losses, rules)


def _falls(name: str, losses: LossSeries, rules: Rules) -> Iterator[Finding]:
    """Medians of the first and the last part: single values of a batch rise and fall by chance."""
    values = losses.values
    size = int(len(values) * rules["part"])
    if len(values) < rules["least"] or not size:
        return
    first, last = median(values[:size]), median(values[-size:])
    severity = WARNING if rules["falls"] == "warn" else rules["severity"]
    if last < first:
        sentence = f"{name} fell from {number(first)} to {number(last)}"
        yield Finding(LOSS, True, severity, sentence)
        return
    part = f"{rules['part']:.0%}".replace("%", " %")
    sentence = (
        f"{name} did not fall: its median is {number(first)} in the first {part} of the run, "
        f"{number(last)} in the last"
    )
    yield Finding(LOSS, False, severity, sentence)


USAGE = "usage"


def check_usage(process: ProcessSummary, settings: Settings, rules: Rules) -> Iterator[Finding]:
    """Every device against the thresholds that were set; a note on a machine without devices."""
    if process.record is None:
        return
    yield from _cores(process, rules)
    load = _threshold(rules, "load", "gpu_load_threshold")
    memory = _threshold(rules, "memory", "gpu_mem_threshold")
    if load is None and memory is None:
        return
    devices = process.record.devices
    if not devices and all(device.startswith("cpu") for device in process.devices):
        why = "device usage is not applicable: it ran on the processor"
        yield Finding(USAGE, True, NOTE, why)
    elif not devices:
        why = f"the usage of {', '.join(process.devices)} is not known"
        yield Finding(USAGE, False, rules["severity"], why)
    for at, device in enumerate(devices):
        name = f"device {at} ({device.name})" if len(devices) > 1 else "gpu"
        if load is not None:
            yield _least(f"{name} load", device.load, load, rules)
        if memory is not None:
            yield _least(f"{name} memory", _held(device), memory, rules)


def _threshold(rules: Rules, *names: str) -> float | None:
    known = [rules[name] for name in names if rules[name] is not None]
    return float(known[0]) if known else None


def _held(device: DeviceRecord) -> float | None:
    """The most that was held of its memory, 0…1."""
    if not device.total_memory or device.peak_memory is None:
        return None
    return device.peak_memory / device.total_memory


def _cores(process: ProcessSummary, rules: Rules) -> Iterator[Finding]:
    if rules["cores"] is None or process.record is None:
        return
    cores, least = process.record.cores, rules["cores"]
    if cores is None:
        yield Finding(USAGE, False, rules["severity"], "how many processors it used is not known")
        return
    sentence = f"{number(cores)} processors were busy"
    if cores < least:
        sentence += f", at least {number(least)} are required"
    yield Finding(USAGE, cores >= least, rules["severity"], sentence)


def _least(what: str, value: float | None, least: float, rules: Rules) -> Finding:
    if value is None:
        return Finding(USAGE, False, rules["severity"], f"{what} is not known")
    sentence = f"{what} {share(value)}"
    if value < least:
        sentence += f", at least {share(least)} is required"
    return Finding(USAGE, value >= least, rules["severity"], sentence)


PLANNING = "planning"


def check_planning(process: ProcessSummary, settings: Settings, rules: Rules) -> Iterator[Finding]:
    """Ranks against their number, and against the devices of the plan."""
    record = process.record
    if record is None or not record.rates:
        return
    severity, wanted = rules["severity"], rules["processes"]
    if wanted is not None:
        yield _count_finding(record.ranks, int(wanted), "process", "trained", severity)
        return
    if record.world:
        # The ranks recorded their number: one that recorded nothing is missed.
        yield _count_finding(record.ranks, record.world, "rank", "trained", severity)
        if _one_job(settings) and process.devices:
            yield _count_finding(
                record.world, len(process.devices), "rank", "was started", severity
            )
    elif _one_job(settings) and record.devices and process.devices:
        busy = sum(bool(device.peak_load) for device in record.devices)
        found = max(busy, record.ranks)
        yield _count_finding(found, len(process.devices), "device", "was busy", severity)


def _one_job(settings: Settings) -> bool:
    return (settings.get("plan") or {}).get("method") == "njobs"


def _count_finding(found: int, wanted: int, thing: str, did: str, severity: str) -> Finding:
    """``2 ranks trained``; ``did``: of one ``thing``."""
    if found != 1:
        did = did.replace("was ", "were ")
    sentence = f"{count(found, thing)} {did}"
    if found != wanted:
        sentence += f", {wanted} {'was' if wanted == 1 else 'were'} planned"
    return Finding(PLANNING, found == wanted, severity, sentence)


REPRODUCIBILITY = "reproducibility"


def check_reproducibility(benchmark: BenchmarkSummary, rules: Rules) -> Iterator[Finding]:
    """The spread of perf over repeats, and that all repeats had the same packages."""
    by_process = [[scores.perf(each.rates) for each in mine] for _, mine in benchmark.repeats()]
    perfs = [fsum(perf.mean for perf in mine if perf) for mine in by_process if all(mine)]
    if len(perfs) < 2:
        return
    mean = fsum(perfs) / len(perfs)
    std = (fsum((each - mean) ** 2 for each in perfs) / (len(perfs) - 1)) ** 0.5
    spread = std / mean if mean else 0.0
    right = spread <= rules["spread"]
    sentence = f"perf of {len(perfs)} repeats spreads by {share(spread)}"
    if not right:
        sentence += f", at most {share(rules['spread'])} is required"
    yield Finding(REPRODUCIBILITY, right, rules["severity"], sentence)
