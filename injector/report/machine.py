"""What the machines did during a run."""

from __future__ import annotations

from ..analysis.machines import DeviceUsage, Machine
from ..analysis.profile import Profile
from ..analysis.summary import Summary
from .text import clean, figure, fit, joined, table

PRESSED = 0.1
"""Fraction of the time from which a shortage is worth a word."""


def lines(summary: Summary) -> list[str]:
    """Each host on two lines, then its devices. Nothing where nothing was sampled twice."""
    found: list[str] = []
    for machine in summary.machines:
        if machine.samples < 2:
            continue
        found += _host(machine)
        found += _devices(machine)
        found += _energy(machine, summary.profile)
    return [*found, ""] if found else []


def _host(machine: Machine) -> list[str]:
    metrics = machine.metrics
    host = []
    if "cpu_avg_utilization_pct" in metrics:
        busiest = metrics["max_t_cpu_pct_per_cpu_max"]
        average = metrics["cpu_avg_utilization_pct"]
        host.append(f"cpu {average:.0f} %, one core {busiest:.0f} %")
    if "node_max_memory_utilization_pct" in metrics:
        host.append(f"memory at most {metrics['node_max_memory_utilization_pct']:.0f} %")
    host += [
        f"waits for {name} {100 * part:.0f} % of the time" for name, part in _shortage(machine)
    ]
    limits = machine.container
    if "cpus" in limits:
        host.append(f"limited to {limits['cpus']:g} cpus")
    if "memory_limit" in limits:
        host.append(f"{size(limits.get('memory', 0))} of {size(limits['memory_limit'])} allowed")
    program = [f"{size(machine.peak_rss)} at most"]
    if machine.cores is not None:
        program.insert(0, f"{figure(machine.cores)} cores")
    read, written = (
        sum(getattr(p, name) for p in machine.processes) for name in ("read", "written")
    )
    program += [f"read {size(read)}", f"wrote {size(written)}"]
    return [
        *joined(f"host {clean(machine.host)}  ", host),
        *joined("  the program  ", program, indent=4),
    ]


def _shortage(machine: Machine) -> list[tuple[str, float]]:
    return [(name, part) for name, part in machine.shortage.items() if part >= PRESSED]


def size(count: float) -> str:
    """``812 kB``, ``1.23 GB``."""
    for factor, unit in ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if count >= factor:
            return f"{count / factor:.3g} {unit}"
    return f"{count:.0f} B"


def _devices(machine: Machine) -> list[str]:
    rows = [_device(device, machine.ranks.get(device.number, ())) for device in machine.devices]
    heads = ["load", "peak", "memory", "of", "°C", "W", "kJ", ""]
    return table("devices", heads, rows)[:-1] if rows else []


def _device(device: DeviceUsage, ranks: tuple[int, ...]) -> list[str]:
    notes = [f"rank {', '.join(map(str, ranks))}"] if ranks else []
    notes += [f"{reason} {100 * part:.0f} %" for reason, part in device.throttled.items()]
    return [
        f"{device.number}  {clean(device.name)}",
        _percent(device.load),
        _percent(device.peak_load),
        size(device.peak_memory) if device.peak_memory is not None else "",
        size(device.total_memory) if device.total_memory is not None else "",
        f"{device.peak_temperature:.0f}" if device.peak_temperature is not None else "",
        f"{device.power:.0f}" if device.power is not None else "",
        figure(device.energy / 1e3) if device.energy is not None else "",
        fit("; ".join(notes), 40),
    ]


def _percent(part: float | None) -> str:
    return "" if part is None else f"{100 * part:.0f} %"


def _energy(machine: Machine, profile: Profile | None) -> list[str]:
    """Of the whole run, over the items that were trained on."""
    if machine.energy is None:
        return []
    words = f"  energy  {figure(machine.energy / 1e3)} kJ of the devices in the run"
    items = trained_items(profile)
    if items:
        words += f" · {figure(machine.energy / items)} J an item that was trained on"
    return [words]


def trained_items(profile: Profile | None) -> float:
    """Items of all steps of all loops and ranks, as far as they could be counted."""
    return sum(
        (loop.items_per_step or 0.0) * track.steps
        for loop in (profile.loops if profile else ())
        for track in loop.tracks
    )
