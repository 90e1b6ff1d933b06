"""The sections about the run beside its steps: wall time, evaluations, latencies, regions, machines."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite

from ..analysis.machines import DeviceUsage, HostUsage
from ..analysis.profile import (
    INFERENCE,
    Evaluation,
    Latency,
    Percentiles,
    Profile,
    SourceLine,
    TimeSegment,
)
from ..analysis.summary import Summary
from ..metrics import shown_at
from .output import BARS, room
from .text import (
    LIMIT,
    TimeUnit,
    bar,
    clean,
    code_line,
    count,
    duration,
    figure,
    fit,
    joined,
    left,
    limited,
    line_of,
    percent,
    short,
    size,
    table,
    wrap,
    wrapped,
)

TYPE_CHECKING = False  # importing typing would cost 5 ms
if TYPE_CHECKING:
    from ..analysis.training_loop import Node

_BAR = 8
"""Columns of a bar of 100 %."""
_NOTE = 58
"""The most columns of a note."""
_SHORTER = "shorter ones"
"""The name of the row for several short segments together."""
_LOOSE = ("gap", _SHORTER)
"""Segments that are left out if they round to 0."""
_WORTH = 0.001
"""The fraction of the run below which a gap or a region has no row of its own."""


def wall(segments: Sequence[TimeSegment], total: float) -> list[str]:
    """The table of the wall time, whose rows add up to ``total`` seconds."""
    if not segments:
        return []
    rows = joined_segments(segments, total)
    rest = total - sum(row.seconds for row in rows)
    unit = TimeUnit(total)
    # The analysis accounts for all of the run. If it ever does not, the report must show that.
    if isfinite(rest) and abs(rest) * unit.scale >= 0.5 * 10**-unit.decimals:
        rows.append(TimeSegment("not accounted for", rest))
    cells = [line for row in rows if is_worth(row, unit) for line in _rows(row, total, unit)]
    bars = [""] if room() >= BARS else []
    cells.append(["the run", unit(total), percent(1.0), *bars, ""])
    return table("wall time", [unit.name, "share", *bars, ""], cells)


def is_worth(row: TimeSegment, unit: TimeUnit) -> bool:
    """Whether a segment has a row: a gap that rounds to 0, or to -0, has none."""
    return row.name not in _LOOSE or unit(row.seconds) not in (unit(0.0), unit(-0.0))


def _rows(row: TimeSegment, total: float, unit: TimeUnit) -> list[list[str]]:
    """The rows of a segment: several if its note takes several lines."""
    share = row.seconds / total if total > 0 else 0.0
    first, *rest = _where(row) or [""]
    bars = [left(bar(share, _BAR), _BAR)] if room() >= BARS else []
    cells = [clean(row.name), unit(row.seconds), percent(share), *bars, first]
    return [cells, *(["", "", "", *([""] if bars else []), more] for more in rest[:4])]


def _where(row: TimeSegment) -> list[str]:
    """The note of a segment with its line of the program, in lines; without one, that line with its text."""
    note, place = clean(row.note), line_of(row.place)
    if not note or row.name == _SHORTER:
        return [note or code_line(row.place)]
    spare = room() - (44 if room() >= BARS else 34)
    return wrap(note if place in note else f"{note}, {place}", min(_NOTE, max(spare, 16)))


def joined_segments(segments: Sequence[TimeSegment], total: float) -> list[TimeSegment]:
    """The segments as rows of a table, in the order of their first occurrence.

    Those of one name, note and place are one row. Gaps that are short in a run of ``total`` seconds, and the
    shortest of too many rows, are one row together, so that all rows add up to the same sum as before.
    """
    sums: dict[tuple[str, str, SourceLine | None], float] = {}
    for segment in segments:
        key = (segment.name, segment.note, segment.place)
        sums[key] = sums.get(key, 0.0) + segment.seconds
    rows = [TimeSegment(name, spent, note, place) for (name, note, place), spent in sums.items()]
    # NaN, of a damaged record, cannot be ordered: it counts as 0.
    order = sorted(rows, key=lambda row: -row.seconds if isfinite(row.seconds) else 0.0)
    small = {id(row) for row in rows if row.name == "gap" and abs(row.seconds) < total * _WORTH}
    if len(rows) - len(small) >= LIMIT:
        small |= {id(row) for row in order[LIMIT - 1 :]}
    if len(small) < 2:
        return rows
    kept = [row for row in rows if id(row) not in small]
    rest = [row.seconds for row in rows if id(row) in small]
    return [*kept, TimeSegment(_SHORTER, sum(rest), count(len(rest), "segment"))]


def evaluations(found: Sequence[Evaluation]) -> list[str]:
    """The table of the evaluations, one row for each place that evaluates, and lines on their warm-ups."""
    rows = []
    for evaluation in found:
        name, most = max(evaluation.regions.items(), key=lambda item: item[1], default=("", 0.0))
        share = (
            f"{fit(name, 20)} {percent(most / evaluation.seconds)}"
            if name and evaluation.seconds > 0
            else ""
        )
        *cells, line = evaluation_cells(evaluation)
        rows.append([*cells, share, line])
    heads = ["passes", "batches", "total", "items/s", "mostly", ""]
    lines = limited(table("evaluation", heads, rows[:LIMIT]), len(rows))
    for evaluation in found[:LIMIT]:
        if evaluation.warmup:
            text = (
                f"warm-up at {line_of(evaluation.place)}: the first batch took "
                f"{duration(evaluation.warmup)}"
            )
            lines += wrapped(f"{text}, excluded from items/s", 2)
    return lines


def evaluation_cells(evaluation: Evaluation) -> list[str]:
    """The cells of an evaluation: where, passes, batches, total time, items per second, text of the line."""
    return [
        (line_of(evaluation.place) or "(no line known)")
        + (f" data {evaluation.data}" if evaluation.data else "")
        + ("" if evaluation.rank is None else f" rank {evaluation.rank}"),
        str(evaluation.passes),
        str(evaluation.batches),
        duration(evaluation.seconds),
        "" if evaluation.throughput is None else figure(evaluation.throughput),
        clean(evaluation.place.text).strip() if evaluation.place else "",
    ]


LATENCY_HEADS = ("n", "mean", "p50", "p75", "p90", "p95", "p99")


def latency_rows(found: Sequence[Latency]) -> list[list[str]]:
    """The rows of latencies: of each place that predicts, for its batches, and for queries if known."""
    rows = []
    for latency in found:
        data = f" data {latency.data}" if latency.data else ""
        where = f"{line_of(latency.place) or latency.what}{data}"
        # A single call has no percentiles: its time is shown as the mean.
        one_call = latency.batches == 1
        mean = short(latency.batch.p50) if one_call else ""
        rows.append(
            [f"{where} a batch", str(latency.batches), mean, *_percentiles(latency.batch, one_call)]
        )
        if latency.query and latency.mean is not None:
            cells = [str(round(latency.queries or 0)), short(latency.mean)]
            rows.append([f"{where} a query", *cells, *_percentiles(latency.query, one_call)])
    return rows


def _percentiles(found: Percentiles, one_call: bool) -> list[str]:
    values = found.p50, found.p75, found.p90, found.p95, found.p99
    return ["" if one_call else short(value) for value in values]


def latencies(found: Sequence[Latency], trains: bool) -> list[str]:
    """The table of latencies. In a run that ``trains``, those of its evaluations are left out."""
    shown = [latency for latency in found if not trains or latency.what != "evaluation"]
    return table("latency", LATENCY_HEADS, latency_rows(shown[: LIMIT // 2]))


def outside(nodes: Sequence[Node], whole: bool = False) -> list[str]:
    """The table of regions outside of steps, without those that took little of the run unless ``whole``."""
    rows = [outside_cells(node) for node in nodes if whole or not node.share < _WORTH]
    heads = ["calls", "median", "p95", "total", ""]
    return limited(table("outside of steps", heads, rows[:LIMIT]), len(rows))


def outside_cells(node: Node) -> list[str]:
    """The cells of a region: name, calls, the median, 95th percentile and total of their times, line."""
    return [
        clean(node.name) + (f" of {clean(node.what)}" if node.what else ""),
        str(node.host.n),
        short(node.host.median),
        short(node.host.p95),
        duration(node.host.mean * node.host.n),
        code_line(node.place),
    ]


JOULES, ENERGY = shown_at("suite energy")
DEVICE_HEADS = (
    *("load", "peak", "memory", "of"),
    *(shown_at(f"query devices.{name}")[0] for name in ("temperature", "power", "energy")),
    "",
)
PRESSED = 0.1
"""The fraction of the time from which a shortage is mentioned."""


def machines(summary: Summary) -> list[str]:
    """The section about machines: for each host two lines, a table of its devices, and the energy.

    A host that was sampled once is left out, as loads are differences of two samples.
    """
    lines: list[str] = []
    for machine in summary.machines:
        if machine.samples < 2:
            continue
        lines += _host(machine)
        lines += _devices(machine)
        lines += energy(machine, summary.profile)
    return [*lines, ""] if lines else []


def _host(machine: HostUsage) -> list[str]:
    """The lines about a host and the program on it."""
    host, program = host_facts(machine)
    return [
        *joined(f"host {clean(machine.host)}  ", host),
        *joined("  the program  ", program, indent=4),
    ]


def host_facts(machine: HostUsage) -> tuple[list[str], list[str]]:
    """Facts about the use of a host, and about the program's part of that."""
    metrics = machine.metrics
    host = []
    if "cpu_avg_utilization_pct" in metrics:
        busiest = metrics["max_t_cpu_pct_per_cpu_max"]
        average = metrics["cpu_avg_utilization_pct"]
        host.append(f"cpu {average:.0f} %, one core {busiest:.0f} %")
    if "node_max_memory_utilization_pct" in metrics:
        host.append(f"memory at most {metrics['node_max_memory_utilization_pct']:.0f} %")
    host += [
        f"waits for {name} {100 * part:.0f} % of the time"
        for name, part in machine.shortage.items()
        if part >= PRESSED
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
    return host, program


def _devices(machine: HostUsage) -> list[str]:
    """The table of the devices of a host."""
    rows = [device_row(device, machine.ranks.get(device.number, ())) for device in machine.devices]
    return table("devices", DEVICE_HEADS, rows)[:-1] if rows else []


def device_row(device: DeviceUsage, ranks: tuple[int, ...]) -> list[str]:
    """The cells of a device that ``ranks`` worked on: its number and name, then :data:`DEVICE_HEADS`."""
    notes = [f"rank {', '.join(map(str, ranks))}"] if ranks else []
    notes += [f"{reason} {100 * part:.0f} %" for reason, part in device.throttled.items()]
    return [
        f"{device.number}  {clean(device.name)}",
        _load(device.load),
        _load(device.peak_load),
        size(device.peak_memory) if device.peak_memory is not None else "",
        size(device.total_memory) if device.total_memory is not None else "",
        f"{device.peak_temperature:.0f}" if device.peak_temperature is not None else "",
        f"{device.power:.0f}" if device.power is not None else "",
        figure(device.energy * ENERGY) if device.energy is not None else "",
        fit("; ".join(notes), 40),
    ]


def _load(part: float | None) -> str:
    return "" if part is None else f"{100 * part:.0f} %"


def energy(machine: HostUsage, profile: Profile | None) -> list[str]:
    """The line of the energy that the devices used, and of that per item; nothing if it is not known."""
    if machine.energy is None:
        return []
    words = f"  energy  {figure(machine.energy * ENERGY)} {JOULES} used by the devices"
    items = trained_items(profile)
    if items and profile:
        name = INFERENCE if profile.loops[0].task == INFERENCE else "training"
        words += f" · {figure(machine.energy / items)} J per item of {name}"
    return [words]


def trained_items(profile: Profile | None) -> float:
    """The number of items of all loops and ranks; loops without known items add nothing."""
    return sum(
        (loop.items_per_step or 0.0) * track.steps
        for loop in (profile.loops if profile else ())
        for track in loop.ranks
    )
