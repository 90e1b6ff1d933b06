"""The sections about training loops for pages and documents: step, epochs, ranks, lines, stacks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..analysis.profile import Profile, SourceLine
from ..analysis.summary import Summary
from ..analysis.training_loop import LoopRank, Node, TrainingLoop
from ..metrics import metric_at
from . import ranks, stack_lines, step_tree, training_loops
from .tables import CODE, NUMBER, SHARE, TEXT, Section, Table
from .text import clean, code_line, count, duration, line_of

LINES = 20
"""The most lines of the program that are listed."""


def loops_of(summary: Summary) -> Sequence[TrainingLoop]:
    """The training loops of a run; none if it has no profile."""
    return summary.profile.loops if summary.profile else ()


def sections_of(loop: TrainingLoop, summary: Summary) -> Iterator[Section]:
    """The sections about one loop of ``summary``: its step, its epochs, and its ranks if it has several."""
    key = f"loop{loops_of(summary).index(loop)}"
    name = training_loops.full_name(loop)
    speed = loop.throughput
    texts = [f"{training_loops.paced(loop)} at {code_line(loop.place)}" if loop.place else ""]
    contents = training_loops.contents_of(loop)
    texts.append(
        f"{contents} a step{f' and {ranks.member(loop)}' if len(loop.ranks) > 1 else ''}"
        if contents
        else ""
    )
    if speed.items is None and speed.why_no_items:
        texts.append(f"items are not known: {speed.why_no_items}")
    if loop.warmup.steps:
        slowest = duration(loop.warmup.slowest)
        texts.append(
            f"warm-up of {count(loop.warmup.steps, 'step')}, {duration(loop.warmup.seconds)}, the "
            f"slowest {slowest}: excluded from all figures"
        )
    texts += [training_loops.exceptional(loop), *training_loops.overlaps(loop)]
    heads, rows = training_loops.spread(loop)
    tables = step_table(loop.tree), Table(heads, (TEXT, *[NUMBER] * 6), rows)
    yield Section(f"{key}-tree", f"A step of {name}", tuple(filter(None, texts)), tables)
    if loop.epochs:
        yield Section(f"{key}-epochs", f"Epochs of {name}", (), (_epochs(loop, summary),))
    if len(loop.ranks) > 1:
        yield Section(
            f"{key}-ranks",
            f"{ranks.member(loop).title()}s of {name}",
            _straggler(loop),
            (_ranks(loop),),
        )


def _epochs(loop: TrainingLoop, summary: Summary) -> Table:
    """The table of the epochs of a loop."""
    heads, rows = training_loops.epoch_cells(
        loop.epochs, summary.price.currency if summary.price else ""
    )
    if summary.goes_on:
        rows[-1][0] += ", so far"
    return Table(heads, (NUMBER,) * len(heads), rows)


def step_table(tree: Node) -> Table:
    """The table of a step and the regions in it. A row that is indented is a part of the one above it."""
    entries = [(0, step_tree.Entry(clean(tree.name), "", tree)), *_below(tree, 1)]
    columns = step_tree.columns_of(entry.node for _, entry in entries)
    unit, device, moved = columns
    heads = ["region", f"host {unit.name}", "p95", *([f"device {unit.name}"] if device else [])]
    heads += ["share", "calls", *(["bytes"] if moved else []), "line"]
    kinds = [TEXT, NUMBER, NUMBER, *([NUMBER] if device else []), SHARE, NUMBER]
    kinds += [*([NUMBER] if moved else []), CODE]
    rows: list[tuple[str | float, ...]] = []
    for _, entry in entries:
        node = entry.node
        note = clean(node.what or "") if node.name == step_tree.OTHER else entry.note
        times, counts = columns.times(node, ""), columns.counts(node)
        rows.append((entry.name, *times, node.share, *counts, note))
    places = {heads[1]: "host", f"device {unit.name}": "device", "share": "share"}
    about = {
        head: metric_at(f"report profile.loops.tree.{key}").definition
        for head, key in places.items()
    }
    return Table(heads, tuple(kinds), rows, tuple(depth for depth, _ in entries), about)


def _below(node: Node, depth: int) -> Iterator[tuple[int, step_tree.Entry]]:
    """All entries below ``node``, in the order of rows, with their depths."""
    for entry in step_tree.entries_of(node):
        yield depth, entry
        for inner in entry.inside() if entry.lines else ():
            yield depth + 1, inner
        if not entry.lines:
            yield from _below(entry.node, depth + 1)


def _straggler(loop: TrainingLoop) -> tuple[str, ...]:
    """The sentence on a straggler, in one line."""
    lines = ranks.straggler_lines(loop.straggler)
    return (" ".join(line.strip() for line in lines),) if lines else ()


def _ranks(loop: TrainingLoop) -> Table:
    """The table of all ranks of a loop."""
    columns = ranks.rank_columns(loop)
    heads = (
        ranks.member(loop),
        *(head for head, _ in columns),
        "longer than the others in",
    )
    names = ranks.member_names(loop)
    rows = [
        (name, *(cell(track) for _, cell in columns), ranks.slow_region(track, loop.ranks))
        for name, track in zip(names, loop.ranks, strict=True)
    ]
    kinds = tuple(
        TEXT if head in ("rank", "thread", "host", "device") else NUMBER for head in heads[:-1]
    )
    return Table(heads, (*kinds, TEXT), rows)


def rank_regions(track: LoopRank) -> list[tuple[str, float]]:
    """The regions of a rank's median step as name and seconds, in an order that is the same for all ranks."""
    regions = [(name, seconds) for name, seconds in track.regions.items() if seconds > 0]
    return sorted(regions, key=lambda region: (region[0] == step_tree.OTHER, region[0]))


def lines_of_program(profile: Profile) -> Section:
    """The section about the program's own lines: the share of a step of each, without that of lines below it.

    Lines are in the order of their files, the file with the largest share first.
    """
    shares: dict[SourceLine, float] = {}
    regions: dict[SourceLine, dict[str, None]] = {}

    def add(node: Node) -> None:
        place = node.place
        if place and node.name != "step":
            own = node.share - sum(child.share for child in node.children if child.place)
            shares[place] = shares.get(place, 0.0) + own
            regions.setdefault(place, {})[clean(node.name)] = None
        for child in node.children:
            add(child)

    for loop in profile.loops[:1]:
        add(loop.tree)
    files: dict[str, float] = {}
    largest = sorted(shares, key=lambda place: -shares[place])[:LINES]
    for place in largest:
        files[place.file] = files.get(place.file, 0.0) + shares[place]
    rows = [
        (line_of(place), clean(place.text).strip(), shares[place], ", ".join(regions[place]))
        for place in sorted(largest, key=lambda place: (-files[place.file], place.file, place.line))
    ]
    table = Table(("line", "source", "share", "regions"), (TEXT, CODE, SHARE, TEXT), rows)
    texts = ("what of a step is spent below each line at which a region was entered",)
    return Section("lines", "Lines of the program", texts if rows else (), (table,))


def sampled(summary: Summary) -> Iterator[Section]:
    """A section for each loop whose stacks were sampled."""
    for number, loop in enumerate(summary.sampled):
        rows = list(stack_lines.rows_of(loop))
        heads = ("region", *stack_lines.HEADS)
        # Depths keep a page from sorting the rows: those of one region must stay together.
        table = Table(heads, (TEXT, SHARE, SHARE, CODE), [*rows], (0,) * len(rows))
        texts = tuple(stack_lines.sentences(summary, loop))
        yield Section(f"sampled{number}", f"Sampled stacks: {loop.task}", texts, (table,))
