"""A summary as sections of tables, for pages and documents: what is no terminal, and cuts nothing.

The sections, and what stands in them, are those of the terminal's report (:mod:`.terminal`), whose words
they use.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from ..analysis.profile import (
    Layer,
    LoopRank,
    MemoryUse,
    Model,
    Node,
    Profile,
    SourceLine,
    Statistics,
    TrainingLoop,
)
from ..analysis.recorded import ValueSeries
from ..analysis.summary import Summary
from ..metrics import metric_at
from . import (
    epochs,
    flops,
    layers,
    memory,
    segments,
    stack_lines,
    step_tree,
    terminal,
    training_loops,
    values,
)
from .text import (
    TimeUnit,
    amount,
    clean,
    code_line,
    count,
    duration,
    figure,
    line_of,
    percent,
    rank_name,
    short,
)

TEXT, NUMBER, CODE, SHARE = "text", "number", "code", "share"
"""What a column holds; the cells of a share are fractions 0…1, all others are text."""
LINES = 20
"""Lines of the program that are listed, at most."""


class Table(NamedTuple):
    """Rows with a cell for each head."""

    heads: tuple[str, ...]
    kinds: tuple[str, ...]
    rows: list[tuple[str | float, ...]]
    depths: tuple[int, ...] = ()
    """How far the first cell of each row stands in; nothing where none does."""
    about: Mapping[str, str] = {}
    """What a column holds, by its head: the definitions of metrics."""


class Section(NamedTuple):
    """Sentences and tables under a title."""

    key: str
    title: str
    texts: tuple[str, ...] = ()
    tables: tuple[Table, ...] = ()


def sections(summary: Summary) -> list[Section]:
    """All that have something to say, in order, but for the verdict."""
    found = summary.profile
    unmeasured = () if summary.goes_on else terminal.unmeasured(summary)
    made = [
        *([each for loop in found.loops for each in _loop(loop, summary)] if found else []),
        *([lines_of_program(found)] if found else []),
        *_sampled(summary),
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


# --- loops ------------------------------------------------------------------------------------------


def _loop(loop: TrainingLoop, summary: Summary) -> Iterator[Section]:
    key = f"loop{loops_of(summary).index(loop)}"
    name = loop_name(loop)
    speed = loop.throughput
    texts = [f"{training_loops.paced(loop)} at {code_line(loop.place)}" if loop.place else ""]
    sizes = ((loop.items_per_step, "items"), (loop.tokens_per_step, "tokens"))
    held = ", ".join(f"{amount(size)} {thing}" for size, thing in sizes if size)
    texts.append(f"{held} a step{' and rank' if len(loop.ranks) > 1 else ''}" if held else "")
    if speed.items is None and speed.why_no_items:
        texts.append(f"items are not known: {speed.why_no_items}")
    if loop.warmup.steps:
        slowest = duration(loop.warmup.slowest)
        texts.append(
            f"warm-up of {count(loop.warmup.steps, 'step')}, {duration(loop.warmup.seconds)}, the "
            f"slowest {slowest}: excluded from all figures"
        )
    texts += [training_loops.exceptional(loop)]
    tree, over = step_table(loop.tree), _spread(loop)
    yield Section(f"{key}-tree", f"A step of {name}", tuple(filter(None, texts)), (tree, over))
    if loop.epochs:
        yield Section(f"{key}-epochs", f"Epochs of {name}", (), (_epochs(loop, summary),))
    if len(loop.ranks) > 1:
        yield Section(f"{key}-ranks", f"Ranks of {name}", _straggler(loop), (_ranks(loop),))


def _epochs(loop: TrainingLoop, summary: Summary) -> Table:
    heads, rows = epochs.cells(loop.epochs, summary.price.currency if summary.price else "")
    if summary.goes_on:
        rows[-1][0] += ", so far"
    return Table(tuple(heads), (NUMBER,) * len(heads), [tuple(row) for row in rows])


def loop_name(loop: TrainingLoop) -> str:
    """What a loop is called, and at which attempt."""
    attempt = "" if loop.attempt is None else f", attempt {loop.attempt}"
    return training_loops.name(loop) + attempt


def _spread(loop: TrainingLoop) -> Table:
    unit = TimeUnit(loop.step.median)
    rows: list[tuple[str | float, ...]] = []
    if loop.throughput.rate is not None:
        what = "items/s" if loop.throughput.items is not None else "steps/s"
        rows.append((what, *map(figure, _figures(loop.throughput.rate))))
    rows.append((f"step, {unit.name}", *map(unit, _figures(loop.step))))
    heads = (f"over {count(loop.step.n, 'step')}", "median", "mean", "std", "min", "p95", "max")
    return Table(heads, (TEXT, *[NUMBER] * 6), rows)


def _figures(found: Statistics) -> tuple[float, ...]:
    return found.median, found.mean, found.std, found.min, found.p95, found.max


def step_table(tree: Node) -> Table:
    """A step and the regions in it; what stands further in is a part of what stands above it."""
    found = [(0, step_tree.Entry(clean(tree.name), "", tree)), *_below(tree, 1)]
    nodes = [entry.node for _, entry in found]
    unit = TimeUnit(max((node.host.median for node in nodes), default=0.0))
    device = any(node.device is not None for node in nodes)
    moved = any(node.nbytes for node in nodes)
    heads = ["region", f"host {unit.name}", "p95", *([f"device {unit.name}"] if device else [])]
    heads += ["share", "calls", *(["bytes"] if moved else []), "line"]
    kinds = [TEXT, NUMBER, NUMBER, *([NUMBER] if device else []), SHARE, NUMBER]
    kinds += [*([NUMBER] if moved else []), CODE]
    rows: list[tuple[str | float, ...]] = []
    for _, entry in found:
        node = entry.node
        on_device = unit(node.device.median) if node.device else ""
        is_other = node.name == step_tree.OTHER
        rows.append(
            (
                entry.name,
                unit(node.host.median),
                unit(node.host.p95),
                *([on_device] if device else []),
                node.share,
                "" if is_other else step_tree.calls_text(node.calls),
                *([step_tree.bytes_text(node.nbytes)] if moved else []),
                clean(node.what or "") if is_other else entry.note,
            )
        )
    places = {heads[1]: "host", f"device {unit.name}": "device", "share": "share"}
    about = {
        head: metric_at(f"report profile.loops.tree.{key}").definition
        for head, key in places.items()
    }
    return Table(tuple(heads), tuple(kinds), rows, tuple(depth for depth, _ in found), about)


def _below(node: Node, depth: int) -> Iterator[tuple[int, step_tree.Entry]]:
    for entry in step_tree.entries_of(node):
        yield depth, entry
        for inner in entry.inside() if entry.lines else ():
            yield depth + 1, inner
        if not entry.lines:
            yield from _below(entry.node, depth + 1)


def _straggler(loop: TrainingLoop) -> tuple[str, ...]:
    lines = training_loops.straggler_lines(loop.straggler)
    return (" ".join(line.strip() for line in lines),) if lines else ()


def _ranks(loop: TrainingLoop) -> Table:
    columns = training_loops.rank_columns(loop)
    heads = ("rank", *(head for head, _ in columns), "longer than the others in")
    rows: list[tuple[str | float, ...]] = [
        (
            rank_name(track.rank, track.process),
            *(cell(track) for _, cell in columns),
            training_loops.slow_region(track, loop.ranks),
        )
        for track in loop.ranks
    ]
    kinds = tuple(TEXT if head in ("rank", "host", "device") else NUMBER for head in heads[:-1])
    return Table(heads, (*kinds, TEXT), rows)


def rank_regions(track: LoopRank) -> list[tuple[str, float]]:
    """The regions of a rank's median step, in one order for all ranks: name, and seconds."""
    found = [(name, seconds) for name, seconds in track.regions.items() if seconds > 0]
    return sorted(found, key=lambda each: (each[0] == step_tree.OTHER, each[0]))


def lines_of_program(found: Profile) -> Section:
    """The program's own lines as they stand in its files, with what of a step each takes: without what is
    done in other lines below it. The file that takes most stands first.
    """
    taken: dict[SourceLine, float] = {}
    regions: dict[SourceLine, dict[str, None]] = {}

    def add(node: Node) -> None:
        place = node.place
        if place and node.name != "step":
            own = node.share - sum(child.share for child in node.children if child.place)
            taken[place] = taken.get(place, 0.0) + own
            regions.setdefault(place, {})[clean(node.name)] = None
        for child in node.children:
            add(child)

    for loop in found.loops[:1]:
        add(loop.tree)
    files: dict[str, float] = {}
    most = sorted(taken, key=lambda place: -taken[place])[:LINES]
    for place in most:
        files[place.file] = files.get(place.file, 0.0) + taken[place]
    rows: list[tuple[str | float, ...]] = [
        (line_of(place), clean(place.text).strip(), taken[place], ", ".join(regions[place]))
        for place in sorted(most, key=lambda each: (-files[each.file], each.file, each.line))
    ]
    table = Table(("line", "source", "share", "regions"), (TEXT, CODE, SHARE, TEXT), rows)
    texts = ("what of a step is spent below each line at which a region was entered",)
    return Section("lines", "Lines of the program", texts if rows else (), (table,))


def _sampled(summary: Summary) -> Iterator[Section]:
    """Of each loop, where the host was in its steps."""
    for number, loop in enumerate(summary.sampled):
        rows = list(stack_lines.rows_of(loop))
        heads = ("region", *stack_lines.HEADS)
        # Rows of one region stay together: they are not sorted.
        table = Table(heads, (TEXT, SHARE, SHARE, CODE), [*rows], (0,) * len(rows))
        texts = tuple(stack_lines.sentences(summary, loop))
        yield Section(f"sampled{number}", f"Sampled stacks: {loop.task}", texts, (table,))


# --- the rest of the run ----------------------------------------------------------------------------


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
    rows: list[tuple[str | float, ...]] = [
        (
            (line_of(one.place) or "(no line known)") + (f" data {one.data}" if one.data else ""),
            str(one.passes),
            str(one.batches),
            duration(one.seconds),
            "" if one.throughput is None else figure(one.throughput),
            clean(one.place.text).strip() if one.place else "",
        )
        for one in found.evaluations
    ]
    return Section(
        "evaluation", "Evaluation", (), (Table(heads, (TEXT, *[NUMBER] * 4, CODE), rows),)
    )


def _latencies(found: Profile) -> Section:
    rows: list[tuple[str | float, ...]] = [
        tuple(row) for row in segments.latency_rows(found.latencies)
    ]
    heads = ("predicting at", *segments.LATENCY_HEADS)
    return Section("latency", "Latency", (), (Table(heads, (TEXT, *[NUMBER] * 7), rows),))


def _outside(found: Profile) -> Section:
    heads = ("region", "calls", "median", "p95", "total", "line")
    rows: list[tuple[str | float, ...]] = [
        (
            clean(node.name) + (f" of {clean(node.what)}" if node.what else ""),
            str(node.host.n),
            short(node.host.median),
            short(node.host.p95),
            duration(node.host.mean * node.host.n),
            code_line(node.place),
        )
        for node in found.others
    ]
    table = Table(heads, (TEXT, *[NUMBER] * 4, CODE), rows)
    return Section("outside", "Outside of steps", (), (table,))


def _machines(summary: Summary) -> Iterator[Section]:
    for number, machine in enumerate(summary.machines):
        if machine.samples < 2:
            continue
        host, program = segments.host_facts(machine)
        texts: tuple[str, ...] = (" · ".join(host), f"the program: {' · '.join(program)}")
        texts += tuple(line.strip() for line in segments.energy(machine, summary.profile))
        rows: list[tuple[str | float, ...]] = [
            tuple(segments.device_row(device, machine.ranks.get(device.number, ())))
            for device in machine.devices
        ]
        table = Table(("device", *segments.DEVICE_HEADS), (TEXT, *[NUMBER] * 7, TEXT), rows)
        yield Section(f"host{number}", f"Host {clean(machine.host)}", texts, (table,))


def _layers(found: Sequence[Layer]) -> Section:
    heads, rows = layers.cells(found)
    kinds = (TEXT, *[NUMBER] * (len(heads) - 2), TEXT)
    table = Table(tuple(heads), kinds, [tuple(row) for row in rows])
    return Section("layers", "Layers", (), (table,))


def _flops(summary: Summary) -> Iterator[Section]:
    if summary.flops is not None:
        rows: list[tuple[str | float, ...]] = [*flops.rows(summary.flops)]
        table = Table(("rank", "FLOPs a step", "FLOP/s"), (TEXT, NUMBER, NUMBER), rows)
        yield Section("flops", "FLOPs", tuple(flops.texts(summary.flops)), (table,))


def _memory(found: Sequence[MemoryUse]) -> Section:
    heads, rows = memory.cells(found)
    table = Table(tuple(heads), (TEXT, NUMBER, NUMBER, NUMBER, TEXT), [tuple(row) for row in rows])
    return Section("memory", "Memory", (memory.NOTE,) if found else (), (table,))


def _models(found: Sequence[Model]) -> Section:
    rows: list[tuple[str | float, ...]] = [
        (clean(one.name), str(one.parameters), str(one.trainable)) for one in found
    ]
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
    rates: list[tuple[str | float, ...]] = [
        (values.name_of(rate), str(rate.overall.n), *map(figure, _three(rate.overall)), rate.unit)
        for rate in summary.summary.rates
    ]
    rows: list[tuple[str | float, ...]] = []
    for series in _series(summary, False):
        found = series.statistics
        middle = [figure(found.mean), figure(found.median)] if found else ["", ""]
        last = values.value_text(series.last)
        rows.append((values.label_of(series), str(series.n), *middle, last, _odd(series)))
    regions: list[tuple[str | float, ...]] = [
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


def _three(found: Statistics) -> tuple[float, ...]:
    return found.mean, found.median, found.p95


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


def plain_cell(kind: str, cell: str | float) -> str:
    """A cell as text."""
    return percent(cell) if kind == SHARE and isinstance(cell, float) else str(cell)


def shown_columns(table: Table) -> list[int]:
    """The columns in which any row says something."""
    return [at for at in range(len(table.heads)) if any(row[at] != "" for row in table.rows)]


def loops_of(summary: Summary) -> Sequence[TrainingLoop]:
    """The loops of its profile, if it has one."""
    return summary.profile.loops if summary.profile else ()
