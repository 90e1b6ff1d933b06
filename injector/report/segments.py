"""Where the wall time of the run went: time segments, evaluation, what is outside of steps, machines."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite

from ..analysis.machines import DeviceUsage, HostUsage
from ..analysis.profile import (
    INFERENCE,
    Evaluation,
    Latency,
    Node,
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
    table,
    wrap,
    wrapped,
)

_BAR = 8
_NOTE = 58
"""Columns of a note, the fewer where lines are short."""
_SHORTER = "shorter ones"
_LOOSE = ("gap", _SHORTER)
"""What is left out where it rounds to nothing."""
_WORTH = 0.001
"""Of the run: what is shorter has no row of its own."""


def wall(segments: Sequence[TimeSegment], total: float) -> list[str]:
    """The segments, those alike taken together, adding up to ``total`` seconds."""
    if not segments:
        return []
    rows = joined_segments(segments, total)
    rest = total - sum(row.seconds for row in rows)
    unit = TimeUnit(total)
    if isfinite(rest) and abs(rest) * unit.scale >= 0.5 * 10**-unit.decimals:
        rows.append(TimeSegment("not accounted for", rest))
    cells = [line for row in rows if is_worth(row, unit) for line in _rows(row, total, unit)]
    bars = [""] if room() >= BARS else []
    cells.append(["the run", unit(total), percent(1.0), *bars, ""])
    return table("wall time", [unit.name, "share", *bars, ""], cells)


def is_worth(row: TimeSegment, unit: TimeUnit) -> bool:
    """Whether it has a row: a gap that rounds to nothing has none."""
    return row.name not in _LOOSE or unit(row.seconds) not in (unit(0.0), unit(-0.0))


def _rows(row: TimeSegment, total: float, unit: TimeUnit) -> list[list[str]]:
    """A row of the table; more of them where the note is long."""
    share = row.seconds / total if total > 0 else 0.0
    first, *rest = _where(row) or [""]
    bars = [left(bar(share, _BAR), _BAR)] if room() >= BARS else []
    cells = [clean(row.name), unit(row.seconds), percent(share), *bars, first]
    return [cells, *(["", "", "", *([""] if bars else []), more] for more in rest[:4])]


def _where(row: TimeSegment) -> list[str]:
    """The note, wrapped, with the place, once; without a note the line of the program."""
    note, place = clean(row.note), line_of(row.place)
    if not note or row.name == _SHORTER:
        return [note or code_line(row.place)]
    spare = room() - (44 if room() >= BARS else 34)
    return wrap(note if place in note else f"{note}, {place}", min(_NOTE, max(spare, 16)))


def joined_segments(segments: Sequence[TimeSegment], total: float) -> list[TimeSegment]:
    """One for each name, note and place, in the order of their first; the small ones joined."""
    sums: dict[tuple[str, str, SourceLine | None], float] = {}
    for each in segments:
        key = (each.name, each.note, each.place)
        sums[key] = sums.get(key, 0.0) + each.seconds
    found = [TimeSegment(name, spent, note, place) for (name, note, place), spent in sums.items()]
    # A sum that is NaN sorts as if it were none.
    order = sorted(found, key=lambda one: -one.seconds if isfinite(one.seconds) else 0.0)
    small = {id(one) for one in found if one.name == "gap" and abs(one.seconds) < total * _WORTH}
    if len(found) - len(small) >= LIMIT:
        small |= {id(one) for one in order[LIMIT - 1 :]}
    if len(small) < 2:
        return found
    kept = [one for one in found if id(one) not in small]
    rest = [one.seconds for one in found if id(one) in small]
    return [*kept, TimeSegment(_SHORTER, sum(rest), count(len(rest), "segment"))]


def evaluations(found: Sequence[Evaluation]) -> list[str]:
    """A row for each place that evaluates."""
    rows = []
    for one in found:
        name, most = max(one.regions.items(), key=lambda item: item[1], default=("", 0.0))
        share = f"{fit(name, 20)} {percent(most / one.seconds)}" if name and one.seconds > 0 else ""
        *cells, line = evaluation_cells(one)
        rows.append([*cells, share, line])
    heads = ["passes", "batches", "total", "items/s", "mostly", ""]
    shown = limited(table("evaluation", heads, rows[:LIMIT]), len(rows))
    for one in found[:LIMIT]:
        if one.warmup:
            text = f"warm-up at {line_of(one.place)}: the first batch took {duration(one.warmup)}"
            shown += wrapped(f"{text}, excluded from items/s", 2)
    return shown


def evaluation_cells(one: Evaluation) -> list[str]:
    """Where it is, its passes and batches, the total of their seconds, items a second, the line."""
    return [
        (line_of(one.place) or "(no line known)") + (f" data {one.data}" if one.data else ""),
        str(one.passes),
        str(one.batches),
        duration(one.seconds),
        "" if one.throughput is None else figure(one.throughput),
        clean(one.place.text).strip() if one.place else "",
    ]


LATENCY_HEADS = ("n", "mean", "p50", "p75", "p90", "p95", "p99")


def latency_rows(found: Sequence[Latency]) -> list[list[str]]:
    """Of each place that predicts its batches, and where items are known its queries, as seconds."""
    rows = []
    for one in found:
        where = f"{line_of(one.place) or one.what}{f' data {one.data}' if one.data else ''}"
        one_call = one.batches == 1  # which has no percentiles
        mean = short(one.batch.p50) if one_call else ""
        rows.append(
            [f"{where} a batch", str(one.batches), mean, *_percentiles(one.batch, one_call)]
        )
        if one.query and one.mean is not None:
            cells = [str(round(one.queries or 0)), short(one.mean)]
            rows.append([f"{where} a query", *cells, *_percentiles(one.query, one_call)])
    return rows


def _percentiles(found: Percentiles, one_call: bool) -> list[str]:
    values = found.p50, found.p75, found.p90, found.p95, found.p99
    return ["" if one_call else short(each) for each in values]


def latencies(found: Sequence[Latency], trains: bool) -> list[str]:
    """The latencies of a run; beside a training (``trains``) none of evaluation."""
    shown = [each for each in found if not trains or each.what != "evaluation"]
    return table("latency", LATENCY_HEADS, latency_rows(shown[: LIMIT // 2]))


def outside(nodes: Sequence[Node], whole: bool = False) -> list[str]:
    """Regions that belong to no step, those that are a part of the run worth a row, or the ``whole``."""
    rows = [outside_cells(node) for node in nodes if whole or not node.share < _WORTH]
    heads = ["calls", "median", "p95", "total", ""]
    return limited(table("outside of steps", heads, rows[:LIMIT]), len(rows))


def outside_cells(node: Node) -> list[str]:
    """A region, its calls, the median, 95th percentile and total of their seconds, the line."""
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
"""Fraction of the time from which a shortage is worth a word."""


def machines(summary: Summary) -> list[str]:
    """Each host on two machines, then its devices. Nothing where nothing was sampled twice."""
    found: list[str] = []
    for machine in summary.machines:
        if machine.samples < 2:
            continue
        found += _host(machine)
        found += _devices(machine)
        found += energy(machine, summary.profile)
    return [*found, ""] if found else []


def _host(machine: HostUsage) -> list[str]:
    host, program = host_facts(machine)
    return [
        *joined(f"host {clean(machine.host)}  ", host),
        *joined("  the program  ", program, indent=4),
    ]


def host_facts(machine: HostUsage) -> tuple[list[str], list[str]]:
    """What was used of a host, and what the program used of it."""
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


def size(count: float) -> str:
    """``812 kB``, ``1.23 GB``."""
    for factor, unit in ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if count >= factor:
            return f"{count / factor:.3g} {unit}"
    return f"{count:.0f} B"


def _devices(machine: HostUsage) -> list[str]:
    rows = [device_row(device, machine.ranks.get(device.number, ())) for device in machine.devices]
    return table("devices", DEVICE_HEADS, rows)[:-1] if rows else []


def device_row(device: DeviceUsage, ranks: tuple[int, ...]) -> list[str]:
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
    """Of the whole run, over the items of its steps."""
    if machine.energy is None:
        return []
    words = f"  energy  {figure(machine.energy * ENERGY)} {JOULES} used by the devices"
    items = trained_items(profile)
    if items and profile:
        name = INFERENCE if profile.loops[0].task == INFERENCE else "training"
        words += f" · {figure(machine.energy / items)} J per item of {name}"
    return [words]


def trained_items(profile: Profile | None) -> float:
    """Items of all steps of all loops and ranks, as far as they could be counted."""
    return sum(
        (loop.items_per_step or 0.0) * track.steps
        for loop in (profile.loops if profile else ())
        for track in loop.ranks
    )
