"""Whether devices were kept busy, and their memory used."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ...config.rules import NOTE
from ..outcome import Finding, ProcessResult
from ..records import Device
from .texts import number, share

LAYER = "usage"


def check(
    process: ProcessResult, settings: Mapping[str, Any], rules: Mapping[str, Any]
) -> Iterator[Finding]:
    """Every device against the thresholds that were set; on a machine without, that is said."""
    if process.record is None:
        return
    yield from _cores(process, rules)
    load = _asked(rules, "load", "gpu_load_threshold")
    memory = _asked(rules, "memory", "gpu_mem_threshold")
    if load is None and memory is None:
        return
    devices = process.record.devices
    if not devices:
        yield _none(process, rules)
    for at, device in enumerate(devices):
        name = f"device {at} ({device.name})" if len(devices) > 1 else "gpu"
        if load is not None:
            yield _least(f"{name} load", device.load, load, rules)
        if memory is not None:
            yield _least(f"{name} memory", _held(device), memory, rules)


def _asked(rules: Mapping[str, Any], *names: str) -> float | None:
    known = [rules[name] for name in names if rules[name] is not None]
    return float(known[0]) if known else None


def _held(device: Device) -> float | None:
    """The most that was held of its memory, 0…1."""
    if not device.total_memory or device.peak_memory is None:
        return None
    return device.peak_memory / device.total_memory


def _cores(process: ProcessResult, rules: Mapping[str, Any]) -> Iterator[Finding]:
    if rules["cores"] is None or process.record is None:
        return
    cores, least = process.record.cores, rules["cores"]
    if cores is None:
        yield Finding(LAYER, False, rules["severity"], "how many processors it used is not known")
        return
    sentence = f"{number(cores)} processors were busy"
    if cores < least:
        sentence += f", at least {number(least)} were asked for"
    yield Finding(LAYER, cores >= least, rules["severity"], sentence)


def _least(what: str, value: float | None, least: float, rules: Mapping[str, Any]) -> Finding:
    if value is None:
        return Finding(LAYER, False, rules["severity"], f"{what} is not known")
    sentence = f"{what} {share(value)}"
    if value < least:
        sentence += f", at least {share(least)} was asked for"
    return Finding(LAYER, value >= least, rules["severity"], sentence)


def _none(process: ProcessResult, rules: Mapping[str, Any]) -> Finding:
    if all(device.startswith("cpu") for device in process.devices):
        return Finding(LAYER, True, NOTE, "device usage is not applicable: it ran on the processor")
    named = ", ".join(process.devices)
    return Finding(LAYER, False, rules["severity"], f"the usage of {named} is not known")
