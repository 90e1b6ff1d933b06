"""The layers of validation that look at one process, or at the repeats of a benchmark.

Each layer has a name, by which ``validation:`` of a benchmark sets its rules, and a function that yields
findings. The rules are those of the layer (:func:`..config.rules.rules_of`), the settings all of a benchmark.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from math import fsum
from statistics import median

from ...analysis.statistics import deviation
from ...analysis.wording import count, signal_name
from ..config.rules import NOTE, WARNING, Rules, Settings
from ..run import tracebacks
from ..run.journal import FINISHED
from . import scores
from .run_events import LossSeries
from .suite_summary import BenchmarkSummary, Finding, ProcessSummary


def _fraction(value: float) -> str:
    """A fraction with two digits, ``0.31``, or more if these would be 0."""
    return f"{value:.2f}" if value == 0 or value >= 0.01 else f"{value:.2g}"


def _number(value: float) -> str:
    return f"{value:.4g}"


ERROR = "error"


def check_error(process: ProcessSummary, settings: Settings, rules: Rules) -> Iterator[Finding]:
    """Whether the process ended well: its exit code, signal, time limit and exception.

    A process without a record has failed; so has, with ``strict``, one with warnings about probes or
    voirfiles. Restarts of a process by its launcher are warnings.
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
    """The exception in the record of ``process``, else the last traceback that it printed."""
    record = process.record
    if process.folder is None or (record and record.trace):
        return tracebacks.Traceback(record.error if record else "", record.trace if record else ())
    printed = tracebacks.find(tracebacks.tail_of(os.path.join(process.folder, "stderr")))
    return tracebacks.Traceback(record.error, printed.lines) if record and record.error else printed


def _why_failed(process: ProcessSummary, settings: Settings) -> str | None:
    """Why ``process`` counts as a failure; None if it does not."""
    if process.state != FINISHED:
        return process.reason or f"it is {process.state}"
    record = process.record
    if process.timed_out or (record and record.timed_out):
        limit = settings.get("max_duration")
        return f"ended by its time limit of {limit:g} s" if limit else "ended by a time limit"
    signal = process.signal or (record and record.signal)
    if signal:
        return f"killed by {signal_name(signal)}"
    code = process.code if process.code is not None else record and record.code
    if code:
        return f"exit code {code}"
    if record is None:
        return "it left no record"
    # A run without run.json; if that is damaged, the layer "record" reports it.
    if record.schema is None and not record.missing:
        # With its exit code in the journal, what supervised it came to its end.
        killed = "its record was never finished: what supervised it was killed"
        return record.error or (killed if process.code is None else "its run.json is missing")
    return None if code == 0 else record.error or "how it ended is not known"


RATE = "rate"
UNEVEN = 3.0
"""From which multiple of the rate of all steps together on the mean of the rates is suspicious."""
LEAST = 5
"""How many rates, beside the first, that takes."""


def check_rate(process: ProcessSummary, settings: Settings, rules: Rules) -> Iterator[Finding]:
    """Whether enough rates came, whether they are more than 0, and whether their mean describes the run."""
    if process.record is None:
        return
    least, key = _least_rates(settings, rules)
    rates = process.rates
    enough = len(rates) >= least
    came = f"{count(len(rates), 'rate')} came" if rates else "no rate came"
    were = "was" if least == 1 else "were"
    sentence = came if enough else f"{came}, at least {least} {were} expected{key}"
    yield Finding(RATE, enough, rules["severity"], sentence)
    if rates and not any(rate > 0 for rate in rates):
        yield Finding(RATE, False, rules["severity"], "every rate is 0")
    # The first step is left out, since it may compile.
    elif len(rates) > LEAST and all(rate > 0 for rate in rates):
        mean = fsum(rates[1:]) / len(rates[1:])
        # The harmonic mean: the rate of all steps together if each has as many items.
        whole = len(rates[1:]) / fsum(1 / rate for rate in rates[1:])
        if mean > UNEVEN * whole:
            sentence = (
                f"the mean of its rates, {_number(mean)}, is {_number(mean / whole)} times the rate of all "
                f"its steps together, {_number(whole)}: a few steps take most of the time, as where steps "
                "are queued and then waited for"
            )
            yield Finding(RATE, False, WARNING, sentence)


def _least_rates(settings: Settings, rules: Rules) -> tuple[int, str]:
    """How many rates must come, and the key that says so: ``rate.min``, else ``voir.options.stop``.

    Without either it is 1, and so it is if time may end the run.
    """
    if rules["min"] is not None:
        return int(rules["min"]), " (validation.rate.min)"
    options = (settings.get("voir") or {}).get("options") or {}
    stop = str(options.get("stop"))
    if not stop.isdecimal() or options.get("max_duration"):
        return 1, ""
    return int(stop), " (voir.options.stop)"


LOSS = "loss"


def check_loss(process: ProcessSummary, settings: Settings, rules: Rules) -> Iterator[Finding]:
    """Whether each loss that ``names`` selects, or any, is finite and falls."""
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
    """Whether the median of the last part of ``losses`` is below that of the first part.

    Single values are not compared: from batch to batch a loss rises and falls by chance.
    """
    values = losses.values
    size = int(len(values) * rules["part"])
    if len(values) < rules["least"] or not size:
        return
    first, last = median(values[:size]), median(values[-size:])
    severity = WARNING if rules["falls"] == "warn" else rules["severity"]
    if last < first:
        sentence = f"{name} fell from {_number(first)} to {_number(last)}"
        yield Finding(LOSS, True, severity, sentence)
        return
    part = f"{rules['part']:.0%}".replace("%", " %")
    sentence = (
        f"{name} did not fall: its median is {_number(first)} in the first {part} of the run, "
        f"{_number(last)} in the last"
    )
    yield Finding(LOSS, False, severity, sentence)


USAGE = "usage"


def check_usage(process: ProcessSummary, settings: Settings, rules: Rules) -> Iterator[Finding]:
    """Whether the processors, and the load and memory of each device, reach the thresholds that are set.

    A process without devices has a note instead.
    """
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
            yield _usage_finding(f"{name} load", device.load, load, rules)
        if memory is not None:
            held = device.peak_memory
            if held is not None:
                held = held / device.total_memory if device.total_memory else None
            yield _usage_finding(f"{name} memory", held, memory, rules)


def _threshold(rules: Rules, *names: str) -> float | None:
    """The first of the rules ``names`` that is set."""
    known = [rules[name] for name in names if rules[name] is not None]
    return float(known[0]) if known else None


def _cores(process: ProcessSummary, rules: Rules) -> Iterator[Finding]:
    if rules["cores"] is None or process.record is None:
        return
    cores, least = process.record.cores, rules["cores"]
    if cores is None:
        yield Finding(USAGE, False, rules["severity"], "how many processors it used is not known")
        return
    sentence = f"{_number(cores)} processors were busy"
    if cores < least:
        sentence += f", at least {_number(least)} are required"
    yield Finding(USAGE, cores >= least, rules["severity"], sentence)


def _usage_finding(what: str, value: float | None, least: float, rules: Rules) -> Finding:
    if value is None:
        return Finding(USAGE, False, rules["severity"], f"{what} is not known")
    sentence = f"{what} {_fraction(value)}"
    if value < least:
        sentence += f", at least {_fraction(least)} is required"
    return Finding(USAGE, value >= least, rules["severity"], sentence)


PLANNING = "planning"


def check_planning(process: ProcessSummary, settings: Settings, rules: Rules) -> Iterator[Finding]:
    """Whether as many ranks trained as were started, and as many were started as the plan has devices.

    A run without a distributed framework has no ranks: there its busy devices are counted.
    """
    record = process.record
    # Without rates, the layer "rate" reports it.
    if record is None or not record.rates:
        return
    severity, wanted = rules["severity"], rules["processes"]
    if wanted is not None:
        yield _count_finding(record.ranks, int(wanted), "process", "trained", severity)
        return
    if record.world:
        # Each rank records how many there are, so that one that recorded nothing is missed.
        yield _count_finding(record.ranks, record.world, "rank", "trained", severity)
        if _one_job(settings) and process.devices:
            yield _count_finding(
                record.world, len(process.devices), "rank", "was started", severity
            )
    elif _one_job(settings) and record.devices and process.devices:
        busy = sum(bool(device.peak_load) for device in record.devices)
        number = max(busy, record.ranks)
        yield _count_finding(number, len(process.devices), "device", "was busy", severity)


def _one_job(settings: Settings) -> bool:
    """Whether one process of the plan has all devices of the benchmark, and starts its ranks."""
    return (settings.get("plan") or {}).get("method") == "njobs"


def _count_finding(number: int, wanted: int, noun: str, verb: str, severity: str) -> Finding:
    """The finding ``2 ranks trained``; ``noun`` and ``verb`` are in the singular."""
    if number != 1:
        verb = verb.replace("was ", "were ")
    sentence = f"{count(number, noun)} {verb}"
    if number != wanted:
        sentence += f", {wanted} {'was' if wanted == 1 else 'were'} planned"
    return Finding(PLANNING, number == wanted, severity, sentence)


REPRODUCIBILITY = "reproducibility"


def check_reproducibility(benchmark: BenchmarkSummary, rules: Rules) -> Iterator[Finding]:
    """Whether the standard deviation of perf over the repeats is small, relative to its mean."""
    by_process = [
        [scores.perf(process.rates) for process in processes]
        for _, processes in benchmark.repeats()
    ]
    perfs = [fsum(perf.mean for perf in repeat if perf) for repeat in by_process if all(repeat)]
    if len(perfs) < 2:
        return
    mean = fsum(perfs) / len(perfs)
    spread = deviation(perfs, mean) / mean if mean else 0.0
    is_small = spread <= rules["spread"]
    sentence = f"perf of {len(perfs)} repeats spreads by {_fraction(spread)}"
    if not is_small:
        sentence += f", at most {_fraction(rules['spread'])} is required"
    yield Finding(REPRODUCIBILITY, is_small, rules["severity"], sentence)
