"""Whether as many processes trained, on as many devices, as were planned."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ..outcome import Finding, ProcessResult

LAYER = "planning"


def check(
    process: ProcessResult, settings: Mapping[str, Any], rules: Mapping[str, Any]
) -> Iterator[Finding]:
    """Ranks against their number, and against the devices of the plan."""
    record = process.record
    if record is None or not record.rates:
        return
    severity, wanted = rules["severity"], rules["processes"]
    if wanted is not None:
        yield _same(record.ranks, int(wanted), "processes trained", severity)
        return
    if record.world:
        # Ranks that say how many they are: one that recorded nothing is missed.
        yield _same(record.ranks, record.world, "ranks trained", severity)
        if _one_job(settings) and process.devices:
            yield _same(record.world, len(process.devices), "ranks were started", severity)
    elif _one_job(settings) and record.devices and process.devices:
        busy = sum(bool(device.peak_load) for device in record.devices)
        yield _same(max(busy, record.ranks), len(process.devices), "devices were busy", severity)


def _one_job(settings: Mapping[str, Any]) -> bool:
    return (settings.get("plan") or {}).get("method") == "njobs"


def _same(found: int, wanted: int, what: str, severity: str) -> Finding:
    sentence = f"{found} {what}" + ("" if found == wanted else f", {wanted} were planned")
    return Finding(LAYER, found == wanted, severity, sentence)
