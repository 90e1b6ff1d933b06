"""A summary as sections of tables, for pages and documents.

The sections, and what stands in them, are those of the terminal's report (:mod:`.terminal`), whose words
they use; those of training loops are made in :mod:`.loop_sections`.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

from ..analysis.profile import Layer, MemoryUse, Model, Profile
from ..analysis.recorded import ValueSeries
from ..analysis.summary import Summary
from . import extras, loop_sections, segments, studies, terminal, values
from .loop_sections import loops_of
from .tables import CODE, NUMBER, SHARE, TEXT, Section, Table
from .text import TimeUnit, clean, count, duration, figure, line_of, short


def sections(summary: Summary) -> list[Section]:
    """All that have something to say, in order, but for the verdict."""
    found = summary.profile
    unmeasured = () if summary.goes_on else terminal.unmeasured(summary)
    made = [
        *studies.sections(found.studies if found else ()),
        *(
            [each for loop in found.loops for each in loop_sections.sections_of(loop, summary)]
            if found
            else []
        ),
        *([loop_sections.lines_of_program(found)] if found else []),
        *loop_sections.sampled(summary),
        *([_wall(summary, found)] if found else []),
        *([_evaluations(found), _latencies(found), _outside(found)] if found else []),
        _layers(found.layers if found else ()),
        _memory(found.memory if found else ()),
        _models(found.models if found else ()),
        *_flops(summary),
        *_machines(summary),
        _losses(summary),
        _values(summary),
        _probes(summary),
        Section("unmeasured", "Not measured", tuple(unmeasured)),
        Section("warnings", "Warnings", tuple(values.warning_texts(summary))),
    ]
    return [each for each in made if each.texts or any(table.rows for table in each.tables)]


def heading(summary: Summary) -> list[str]:
    """How it ended, when, where and for how long."""
    facts = [] if summary.foreign else terminal.ending(summary)
    if summary.started is not None:
        facts.append(time.strftime("%Y-%m-%d %H:%M", time.localtime(summary.started)))
    if summary.duration is not None:
        facts.append(duration(summary.duration))
    if summary.processes:
        facts.append(count(len(summary.processes), "process"))
    if summary.profile:
        facts += terminal.machine(summary.host, summary.profile)
    facts += terminal.cost(summary)
    return facts


def verdict(summary: Summary) -> tuple[str, list[tuple[str, list[str]]]]:
    """Its sentence, and what stands below it, by label. Of a run without a profile, why there is none."""
    if summary.goes_on and not loops_of(summary):
        return "no step of training has been seen so far", []
    if summary.profile is None:
        why = summary.problem or " ".join(
            line.strip() for line in ([] if summary.summary.rates else values.no_rates(summary))
        )
        return why.strip(), []
    found = summary.profile.verdict
    below = [
        ("watched", [_watched(summary.profile)] if summary.goes_on else []),
        ("besides", [each for each in found.besides if each not in found.sentence]),
        ("certainty", [found.confidence]),
        ("because", list(found.evidence)),
        ("threshold", [found.threshold]),
        ("try", list(found.tries())),
    ]
    kept = [(label, [text for text in texts if text]) for label, texts in below]
    return terminal.sentence(found), [(label, texts) for label, texts in kept if texts]


def _watched(profile: Profile) -> str:
    """What the verdict on a run that goes on is of."""
    loop = profile.loops[0]
    steps = f"{count(loop.steps, 'step')}{' of each rank' if len(loop.ranks) > 1 else ''}"
    return f"{duration(profile.wall)} so far, {steps}; the run goes on"


def tiles(summary: Summary) -> list[tuple[str, str]]:
    """The figures that are looked for first: label and value."""
    found: list[tuple[str, str]] = []
    if summary.profile and summary.profile.loops:
        loop = summary.profile.loops[0]
        speed = loop.throughput
        rates = (("items/s", speed.items), ("tokens/s", speed.tokens), ("steps/s", speed.steps))
        found += [(unit, figure(value)) for unit, value in rates if value is not None]
        found += [
            ("median step", short(loop.step.median)),
            ("95th percentile", short(loop.step.p95)),
        ]
        found.append(("steps", str(loop.steps)))
    else:
        rates_found = summary.summary.rates[:2]
        found += [
            (f"{rate.unit}, {rate.task}", figure(rate.overall.median)) for rate in rates_found
        ]
    memory = max((machine.peak_rss for machine in summary.machines), default=0)
    devices = [device for machine in summary.machines for device in machine.devices]
    used = max((device.peak_memory or 0 for device in devices), default=0)
    joules = [machine.energy for machine in summary.machines if machine.energy is not None]
    if memory:
        found.append(("host memory", segments.size(memory)))
    if used:
        found.append(("device memory", segments.size(used)))
    if joules:
        found.append(
            ("energy of devices", f"{figure(sum(joules) * segments.ENERGY)} {segments.JOULES}")
        )
    return found


def libraries_of(summary: Summary) -> list[str]:
    """Name and version of the libraries that shipped voirfiles watched, each once."""
    found = (
        f"{each.get('library', '')} {each.get('version') or ''}".rstrip()
        for each in summary.automatic or ()
    )
    return list(dict.fromkeys(map(clean, found)))


def _wall(summary: Summary, found: Profile) -> Section:
    total = found.wall
    unit = TimeUnit(total)
    rows: list[tuple[str | float, ...]] = []
    for each in segments.joined_segments(found.segments, total):
        if not segments.is_worth(each, unit):
            continue
        share = each.seconds / total if total > 0 else 0.0
        line = line_of(each.place)
        note = clean(each.note)
        where = ", ".join(filter(None, (note, line if line not in note else "")))
        # Whether it shuts down is not known while it goes on.
        name = "goes on" if summary.goes_on and each.name == "shutdown" else clean(each.name)
        rows.append((name, unit(each.seconds), share, where))
    heads, kinds = ("part", unit.name, "share", ""), (TEXT, NUMBER, SHARE, TEXT)
    title = f"Wall time{' so far' if summary.goes_on else ''}: {duration(total)}"
    return Section("wall", title, (), (Table(heads, kinds, rows),))


def _evaluations(found: Profile) -> Section:
    heads = ("at", "passes", "batches", "total", "items/s", "line")
    table = Table(
        heads,
        (TEXT, *[NUMBER] * 4, CODE),
        [tuple(segments.evaluation_cells(one)) for one in found.evaluations],
    )
    return Section("evaluation", "Evaluation", (), (table,))


def _latencies(found: Profile) -> Section:
    heads = ("predicting at", *segments.LATENCY_HEADS)
    rows = [tuple(row) for row in segments.latency_rows(found.latencies)]
    table = Table(heads, (TEXT, *[NUMBER] * 7), rows)
    return Section("latency", "Latency", (), (table,))


def _outside(found: Profile) -> Section:
    heads = ("region", "calls", "median", "p95", "total", "line")
    rows = [tuple(segments.outside_cells(node)) for node in found.others]
    table = Table(heads, (TEXT, *[NUMBER] * 4, CODE), rows)
    return Section("outside", "Outside of steps", (), (table,))


def _machines(summary: Summary) -> Iterator[Section]:
    for number, machine in enumerate(summary.machines):
        if machine.samples < 2:
            continue
        host, program = segments.host_facts(machine)
        texts: tuple[str, ...] = (" · ".join(host), f"the program: {' · '.join(program)}")
        texts += tuple(line.strip() for line in segments.energy(machine, summary.profile))
        rows = [
            tuple(segments.device_row(device, machine.ranks.get(device.number, ())))
            for device in machine.devices
        ]
        table = Table(("device", *segments.DEVICE_HEADS), (TEXT, *[NUMBER] * 7, TEXT), rows)
        yield Section(f"host{number}", f"Host {clean(machine.host)}", texts, (table,))


def _layers(found: Sequence[Layer]) -> Section:
    heads, rows = extras.layer_cells(found)
    kinds = (TEXT, *[NUMBER] * (len(heads) - 2), TEXT)
    table = Table(tuple(heads), kinds, [tuple(row) for row in rows])
    return Section("layers", "Layers", (), (table,))


def _flops(summary: Summary) -> Iterator[Section]:
    if summary.flops is not None:
        rows = [*extras.flops_rows(summary.flops)]
        table = Table(("rank", "FLOPs a step", "FLOP/s"), (TEXT, NUMBER, NUMBER), rows)
        yield Section("flops", "FLOPs", tuple(extras.flops_texts(summary.flops)), (table,))


def _memory(found: Sequence[MemoryUse]) -> Section:
    heads, rows = extras.memory_cells(found)
    table = Table(tuple(heads), (TEXT, NUMBER, NUMBER, NUMBER, TEXT), [tuple(row) for row in rows])
    return Section("memory", "Memory", (extras.MEMORY_NOTE,) if found else (), (table,))


def _models(found: Sequence[Model]) -> Section:
    rows = [(clean(one.name), str(one.parameters), str(one.trainable)) for one in found]
    heads = ("model", "parameters", "trainable")
    return Section("models", "Models", (), (Table(heads, (TEXT, NUMBER, NUMBER), rows),))


def _losses(summary: Summary) -> Section:
    rows: list[tuple[str | float, ...]] = []
    for series in _series(summary, True):
        least = figure(series.statistics.min) if series.statistics else ""
        ends = (values.value_text(series.first), values.value_text(series.last))
        rows.append((values.label_of(series), str(series.n), *ends, least, _odd(series),
                     values.loss_line(series)))  # fmt: skip
    heads = ("loss", "n", "first", "last", "min", "", "line")
    return Section("losses", "Losses", (), (Table(heads, (TEXT, *[NUMBER] * 4, TEXT, CODE), rows),))


def _values(summary: Summary) -> Section:
    rates = [
        (
            values.name_of(rate),
            str(rate.overall.n),
            *map(figure, (rate.overall.mean, rate.overall.median, rate.overall.p95)),
            rate.unit,
        )
        for rate in summary.summary.rates
    ]
    rows: list[tuple[str | float, ...]] = []
    for series in _series(summary, False):
        found = series.statistics
        middle = [figure(found.mean), figure(found.median)] if found else ["", ""]
        last = values.value_text(series.last)
        rows.append((values.label_of(series), str(series.n), *middle, last, _odd(series)))
    regions = [
        (
            "  ".join(filter(None, (clean(region.bench), clean(region.name)))),
            str(region.statistics.n),
            short(region.statistics.mean),
            short(region.statistics.p95),
            duration(region.total),
        )
        for region in summary.summary.regions
    ]
    tables = (
        Table(("rate", "n", "mean", "median", "p95", ""), (TEXT, *[NUMBER] * 4, TEXT), rates),
        Table(("value", "n", "mean", "median", "last", ""), (TEXT, *[NUMBER] * 4, TEXT), rows),
        Table(("region", "n", "mean", "p95", "total"), (TEXT, *[NUMBER] * 4), regions),
    )
    return Section("values", "Values that probes gave", (), tables)


def _series(summary: Summary, losses: bool) -> list[ValueSeries]:
    return [series for series in summary.summary.series if series.is_loss == losses]


def _odd(series: ValueSeries) -> str:
    return f"{series.odd} not finite" if series.odd else ""


def _probes(summary: Summary) -> Section:
    rows: list[tuple[str | float, ...]] = []
    for probe in summary.probes:
        places = dict.fromkeys(clean(values.probe_place(place)) for place in probe["places"])
        first, *rest = places or [""]
        rows.append((clean(probe["selector"]), values.fired_of(probe), first))
        rows += [("", "", place) for place in rest]
    table = Table(("selector", "", "where it attached"), (CODE, TEXT, CODE), rows)
    missed = tuple(f"matched nothing: {clean(_selector(each))}" for each in summary.misses)
    return Section("probes", "Probes", missed, (table,))


def _selector(miss: object) -> str:
    return str(miss.get("selector", miss) if isinstance(miss, dict) else miss)
