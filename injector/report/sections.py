"""A summary as sections of tables, for pages and documents.

They have the same content as the report on a terminal (:mod:`.terminal`) and take their sentences and cells
from its modules. The sections about training loops are made in :mod:`.loop_sections`.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

from ..analysis.profile import Layer, MemoryUse, Model, Profile
from ..analysis.summary import Summary
from . import extras, loop_sections, segments, studies, terminal, values
from .loop_sections import loops_of
from .tables import CODE, NUMBER, SHARE, TEXT, Section, Table
from .text import TimeUnit, clean, count, duration, figure, line_of, short, size


def sections(summary: Summary) -> list[Section]:
    """All sections with content, in their order, without the verdict."""
    profile = summary.profile
    unmeasured = () if summary.goes_on else terminal.unmeasured(summary)
    candidates = [
        *studies.sections(profile.studies if profile else ()),
        *(
            [
                section
                for loop in profile.loops
                for section in loop_sections.sections_of(loop, summary)
            ]
            if profile
            else []
        ),
        *([loop_sections.lines_of_program(profile)] if profile else []),
        *loop_sections.sampled(summary),
        *([_wall(summary, profile)] if profile else []),
        *([_evaluations(profile), _latencies(profile), _outside(profile)] if profile else []),
        _layers(profile.layers if profile else ()),
        _memory(profile.memory if profile else ()),
        _models(profile.models if profile else ()),
        *_flops(summary),
        *_machines(summary),
        _losses(summary),
        _values(summary),
        _probes(summary),
        Section("unmeasured", "Not measured", tuple(unmeasured)),
        Section("warnings", "Warnings", tuple(values.warning_texts(summary))),
    ]
    return [
        section
        for section in candidates
        if section.texts or any(table.rows for table in section.tables)
    ]


def heading(summary: Summary) -> list[str]:
    """Facts about the run: how it ended, when it began, how long it took, where it ran, what it cost."""
    facts = [] if summary.foreign else terminal.ending(summary)
    if summary.started is not None:
        facts.append(time.strftime("%Y-%m-%d %H:%M", time.localtime(summary.started)))
    if summary.duration is not None:
        facts.append(duration(summary.duration))
    if summary.processes:
        facts.append(terminal.processes(summary))
    if summary.profile:
        facts += terminal.machine(summary.host, summary.profile)
    facts += terminal.cost(summary)
    return facts


def verdict(summary: Summary) -> tuple[str, list[tuple[str, list[str]]]]:
    """The sentence of the verdict, and labels with the texts below it.

    For a run without a profile, the sentence says why there is none.
    """
    if summary.goes_on and not loops_of(summary):
        return "no step of training has been seen so far", []
    if summary.profile is None:
        why = summary.problem or " ".join(
            line.strip() for line in ([] if summary.summary.rates else values.no_rates(summary))
        )
        return why.strip(), []
    verdict = summary.profile.verdict
    below = [
        ("watched", [_watched(summary.profile)] if summary.goes_on else []),
        ("besides", [text for text in verdict.besides if text not in verdict.sentence]),
        ("certainty", [verdict.confidence]),
        ("because", list(verdict.evidence)),
        ("threshold", [verdict.threshold]),
        ("try", list(verdict.tries())),
    ]
    filled = [(label, [text for text in texts if text]) for label, texts in below]
    return terminal.sentence(verdict), [(label, texts) for label, texts in filled if texts]


def _watched(profile: Profile) -> str:
    """The part of a run that goes on which its verdict is about."""
    loop = profile.loops[0]
    steps = f"{count(loop.steps, 'step')}{' of each rank' if len(loop.ranks) > 1 else ''}"
    return f"{duration(profile.wall)} so far, {steps}; the run goes on"


def tiles(summary: Summary) -> list[tuple[str, str]]:
    """The figures that a reader looks for first, as label and value."""
    result: list[tuple[str, str]] = []
    if summary.profile and summary.profile.loops:
        loop = summary.profile.loops[0]
        speed = loop.throughput
        rates = (("items/s", speed.items), ("tokens/s", speed.tokens), ("steps/s", speed.steps))
        result += [(unit, figure(value)) for unit, value in rates if value is not None]
        result += [
            ("median step", short(loop.step.median)),
            ("95th percentile", short(loop.step.p95)),
        ]
        result.append(("steps", str(loop.steps)))
    else:
        probe_rates = summary.summary.rates[:2]
        result += [
            (f"{rate.unit}, {rate.task}", figure(rate.overall.median)) for rate in probe_rates
        ]
    memory = max((machine.peak_rss for machine in summary.machines), default=0)
    devices = [device for machine in summary.machines for device in machine.devices]
    used = max((device.peak_memory or 0 for device in devices), default=0)
    joules = [machine.energy for machine in summary.machines if machine.energy is not None]
    if memory:
        result.append(("host memory", size(memory)))
    if used:
        result.append(("device memory", size(used)))
    if joules:
        result.append(
            ("energy of devices", f"{figure(sum(joules) * segments.ENERGY)} {segments.JOULES}")
        )
    return result


def libraries_of(summary: Summary) -> list[str]:
    """The libraries that shipped voirfiles watched, as name and version, without repetition."""
    libraries = (
        f"{voirfile.get('library', '')} {voirfile.get('version') or ''}".rstrip()
        for voirfile in summary.automatic or ()
    )
    return list(dict.fromkeys(map(clean, libraries)))


def _wall(summary: Summary, profile: Profile) -> Section:
    """The section about the wall time, of segments that add up to the run."""
    total = profile.wall
    unit = TimeUnit(total)
    rows: list[tuple[str | float, ...]] = []
    for segment in segments.joined_segments(profile.segments, total):
        if not segments.is_worth(segment, unit):
            continue
        share = segment.seconds / total if total > 0 else 0.0
        line = line_of(segment.place)
        note = clean(segment.note)
        where = ", ".join(filter(None, (note, line if line not in note else "")))
        # What follows the last step of a run that goes on need not be its shutdown.
        is_open = summary.goes_on and segment.name == "shutdown"
        name = "goes on" if is_open else clean(segment.name)
        rows.append((name, unit(segment.seconds), share, where))
    heads, kinds = ("part", unit.name, "share", ""), (TEXT, NUMBER, SHARE, TEXT)
    title = f"Wall time{' so far' if summary.goes_on else ''}: {duration(total)}"
    return Section("wall", title, (), (Table(heads, kinds, rows),))


def _evaluations(profile: Profile) -> Section:
    heads = ("at", "passes", "batches", "total", "items/s", "line")
    table = Table(
        heads,
        (TEXT, *[NUMBER] * 4, CODE),
        [segments.evaluation_cells(evaluation) for evaluation in profile.evaluations],
    )
    return Section("evaluation", "Evaluation", (), (table,))


def _latencies(profile: Profile) -> Section:
    heads = ("predicting at", *segments.LATENCY_HEADS)
    rows = segments.latency_rows(profile.latencies)
    table = Table(heads, (TEXT, *[NUMBER] * 7), rows)
    return Section("latency", "Latency", (), (table,))


def _outside(profile: Profile) -> Section:
    """The section about regions outside of steps."""
    heads = ("region", "calls", "median", "p95", "total", "line")
    rows = [segments.outside_cells(node) for node in profile.others]
    table = Table(heads, (TEXT, *[NUMBER] * 4, CODE), rows)
    return Section("outside", "Outside of steps", (), (table,))


def _machines(summary: Summary) -> Iterator[Section]:
    """A section for each host."""
    for number, machine in enumerate(summary.machines):
        if machine.samples < 2:  # a load is the difference of two samples
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


def _layers(layers: Sequence[Layer]) -> Section:
    heads, rows = extras.layer_cells(layers)
    kinds = (TEXT, *[NUMBER] * (len(heads) - 2), TEXT)
    table = Table(heads, kinds, rows)
    return Section("layers", "Layers", (), (table,))


def _flops(summary: Summary) -> Iterator[Section]:
    if summary.flops is not None:
        rows = [*extras.flops_rows(summary.flops)]
        table = Table(("rank", "FLOPs a step", "FLOP/s"), (TEXT, NUMBER, NUMBER), rows)
        yield Section("flops", "FLOPs", tuple(extras.flops_texts(summary.flops)), (table,))


def _memory(uses: Sequence[MemoryUse]) -> Section:
    heads, rows = extras.memory_cells(uses)
    table = Table(heads, (TEXT, NUMBER, NUMBER, NUMBER, TEXT), rows)
    return Section("memory", "Memory", (extras.MEMORY_NOTE,) if uses else (), (table,))


def _models(models: Sequence[Model]) -> Section:
    rows = [(clean(model.name), str(model.parameters), str(model.trainable)) for model in models]
    heads = ("model", "parameters", "trainable")
    return Section("models", "Models", (), (Table(heads, (TEXT, NUMBER, NUMBER), rows),))


def _losses(summary: Summary) -> Section:
    heads = ("loss", "n", "first", "last", "min", "", "line")
    rows = values.loss_cells(summary.summary)
    return Section("losses", "Losses", (), (Table(heads, (TEXT, *[NUMBER] * 4, TEXT, CODE), rows),))


def _values(summary: Summary) -> Section:
    """The section about values of probes: rates, other series, and regions that were timed as events."""
    recorded = summary.summary
    rates = [
        (values.name_of(rate), *values.figures_of(rate.overall)[:4], rate.unit)
        for rate in recorded.rates
    ]
    others = values.value_cells(recorded)
    regions = values.region_cells(recorded)
    tables = (
        Table(("rate", "n", "mean", "median", "p95", ""), (TEXT, *[NUMBER] * 4, TEXT), rates),
        Table(("value", "n", "mean", "median", "last", ""), (TEXT, *[NUMBER] * 4, TEXT), others),
        Table(("region", "n", "mean", "p95", "total"), (TEXT, *[NUMBER] * 4), regions),
    )
    return Section("values", "Values that probes gave", (), tables)


def _probes(summary: Summary) -> Section:
    """The section about the probes: how often each fired, its places, and selectors that matched nothing."""
    rows: list[tuple[str | float, ...]] = []
    for probe in summary.probes:
        places = dict.fromkeys(clean(values.probe_place(place)) for place in probe["places"])
        first, *rest = places or [""]
        rows.append((clean(probe["selector"]), values.fired_of(probe), first))
        rows += [("", "", place) for place in rest]
    table = Table(("selector", "", "where it attached"), (CODE, TEXT, CODE), rows)
    missed = tuple(
        f"matched nothing: {clean(str(miss.get('selector')))}" for miss in summary.misses
    )
    return Section("probes", "Probes", missed, (table,))
