"""A training loop: what its steps are, their throughput and spread, what one is made of, its ranks."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..analysis.profile import (
    INFERENCE,
    Epoch,
    LoopRank,
    Model,
    Node,
    Statistics,
    Straggler,
    Throughput,
    TrainingLoop,
    Warmup,
)
from ..analysis.recorded import percentile
from . import step_tree
from .output import room
from .text import (
    LIMIT,
    UNKNOWN,
    TimeUnit,
    amount,
    clean,
    code_line,
    columns,
    count,
    crop,
    duration,
    figure,
    fit,
    labelled,
    limited,
    line_of,
    percent,
    rank_name,
    short,
    table,
    wrapped,
)

_WHOLE = 0.1
"""A further loop is shown with its tree if it took this part of the longest one's time."""
_TREES = 2
"""Further loops shown with their trees, at most."""


def lines(loops: Sequence[TrainingLoop], currency: str = "") -> list[str]:
    """The longest loop whole; others with a short tree, or a row each when they are small.

    ``currency`` is that of the costs of epochs.
    """
    if not loops:
        return []
    first, *others = loops
    large = [other for other in others if seconds(other) >= _WHOLE * seconds(first)][:_TREES]
    found = whole(first, currency)
    for other in large:
        found += brief(other)
    return found + _rows([other for other in others if other not in large])


def seconds(loop: TrainingLoop) -> float:
    """Seconds of the measured steps of all ranks."""
    return loop.step.mean * loop.step.n


def whole(loop: TrainingLoop, currency: str = "") -> list[str]:
    """Everything about ``loop``."""
    return [
        *_heading(loop),
        *_throughput(loop),
        *_warmup(loop.warmup),
        "",
        *_spread(loop),
        *step_tree.lines(loop.tree, notes=[exceptional(loop), *overlaps(loop)]),
        *rank_table(loop),
        *epoch_table(loop, currency),
    ]


def brief(loop: TrainingLoop) -> list[str]:
    """A further loop: its throughput and the regions directly below its step."""
    return [
        *_heading(loop),
        *_throughput(loop),
        *_warmup(loop.warmup),
        "",
        *step_tree.lines(loop.tree, depth=1, notes=[exceptional(loop)]),
        *(rank_table(loop) if loop.straggler else []),
    ]


def models(found: Sequence[Model]) -> list[str]:
    """How large the models are that were trained."""
    texts = [
        f"{clean(one.name)}: {parameters(one.parameters)}"
        + (f", {parameters(one.trainable)} trainable" if one.trainable != one.parameters else "")
        for one in found[:LIMIT]
    ]
    return [*labelled("models", texts, indent=0, width=9), ""] if texts else []


def parameters(number: int) -> str:
    """``1.2 M parameters``."""
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if number >= size:
            return f"{figure(number / size)} {unit} parameters"
    return count(number, "parameter")


def name(loop: TrainingLoop) -> str:
    """What the loop is called."""
    task = clean(loop.task).strip() or "train"
    return f"{task}, {loop.job}" if loop.job else task


def full_name(loop: TrainingLoop) -> str:
    """What it is called, and at which attempt."""
    return name(loop) + ("" if loop.attempt is None else f", attempt {loop.attempt}")


def _heading(loop: TrainingLoop) -> list[str]:
    each = f" on each of {len(loop.ranks)} {member(loop)}s" if len(loop.ranks) > 1 else ""
    task = crop(name(loop), 60)
    if loop.attempt is not None:
        task += f", attempt {loop.attempt}"
    fewest = min((rank.steps for rank in loop.ranks), default=loop.steps)
    least = f"{fewest} to " if fewest < loop.steps else ""
    text = f"{task}: {least}{count(loop.steps, 'step')}{each}, {paced(loop)}"
    if loop.place is None:
        return wrapped(text)
    found, code = wrapped(f"{text} at {line_of(loop.place)}"), clean(loop.place.text).strip()
    if code and columns(found[-1]) + 2 + min(columns(code), 16) > room():
        found.append("   ")
    return [*found[:-1], crop(f"{found[-1]}  {code}", room())]


def paced(loop: TrainingLoop) -> str:
    """What a step is; of several updates or batches, how many."""
    updates = amount(round(loop.updates_per_step, 1))
    if loop.paced_by == "call":
        return "one per call of a model"
    if loop.paced_by == "optimizer":
        return "one per update" if updates in ("0", "1") else f"one per {updates} updates"
    if loop.paced_by == "loader":
        batches = amount(round(loop.fetches_per_step, 1))
        text = "one per batch" if batches in ("0", "1") else f"one per {batches} batches"
        text += " fetched"
    else:
        text = "as marked"
    return (
        text
        if updates in ("0", "1") or loop.task == INFERENCE
        else f"{text}, {updates} updates in each,"
    )


def _throughput(loop: TrainingLoop) -> list[str]:
    found = loop.throughput
    facts = [f"{figure(found.steps)} steps/s"]
    if found.tokens is not None:
        facts.insert(0, f"{figure(found.tokens)} tokens/s")
    if found.items is not None:
        facts.insert(0, f"{figure(found.items)} items/s")
    each = f"a step and {member(loop)}" if len(loop.ranks) > 1 else "a step"
    sizes = ((loop.items_per_step, "items"), (loop.tokens_per_step, "tokens"))
    parts = [f"{amount(size)} {thing}" for size, thing in sizes if size]
    if parts:
        facts.append(f"{', '.join(parts)} {each}")
    return [*labelled("throughput", [" · ".join(facts)], width=12), *_no_items(found)]


def _no_items(found: Throughput) -> list[str]:
    if found.items is not None:
        return []
    why = f": {found.why_no_items}" if found.why_no_items else ""
    return labelled("items", [f"not known{why}"], width=12)


def _warmup(warmup: Warmup) -> list[str]:
    if not warmup.steps:
        return []
    text = f"{count(warmup.steps, 'step')}, {duration(warmup.seconds)}"
    text += f", the slowest {duration(warmup.slowest)}; excluded from all figures"
    if warmup.skipped:
        text += f" ({warmup.skipped} by --skip)"
    return labelled("warm-up", [text], width=12)


def exceptional(loop: TrainingLoop) -> str:
    """Which steps the shares exclude."""
    found = loop.exceptional
    if found is None:
        return ""
    which = f"{count(found.steps, 'step')} of {duration(found.seconds)}"
    return f"shares exclude {which}, mostly {clean(found.mostly)}"


def overlaps(loop: TrainingLoop) -> list[str]:
    """Which regions overlap, how long, and what each takes whole: the medians of a step."""
    return [
        f"{_region(each.later)} overlaps {_region(each.earlier)} for {short(each.shared.median)} of a step; "
        f"whole, they take {short(each.later.host.median)} and {short(each.earlier.host.median)}"
        for each in loop.overlaps[:LIMIT]
    ]


def _region(node: Node) -> str:
    return f"{clean(node.name)} ({line_of(node.place)})" if node.place else clean(node.name)


def _spread(loop: TrainingLoop) -> list[str]:
    heads, rows = spread(loop)
    return table(f"  {heads[0]}", heads[1:], rows, indent=4)


def spread(loop: TrainingLoop) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Heads, and how the rate and the length of the steps are distributed."""
    unit = TimeUnit(loop.step.median)
    rows = [(f"step, {unit.name}", *map(unit, _figures(loop.step)))]
    if loop.throughput.rate is not None:
        what = "items/s" if loop.throughput.items is not None else "steps/s"
        rows.insert(0, (what, *map(figure, _figures(loop.throughput.rate))))
    heads = ("median", "mean", "std", "min", "p95", "max")
    return (f"over {count(loop.step.n, 'step')}", *heads), rows


def _figures(found: Statistics) -> tuple[float, ...]:
    return found.median, found.mean, found.std, found.min, found.p95, found.max


def _rows(loops: Sequence[TrainingLoop]) -> list[str]:
    rows = [_row(loop) for loop in loops]
    heads = ["steps", "step", "steps/s", "items/s", "mostly", ""]
    return limited(table("other loops", heads, rows[:LIMIT]), len(rows))


def _row(loop: TrainingLoop) -> list[str]:
    items = loop.throughput.items
    most = max(loop.tree.children, key=lambda child: child.share, default=None)
    return [
        full_name(loop),
        str(loop.steps),
        short(loop.step.median),
        figure(loop.throughput.steps),
        "" if items is None else figure(items),
        f"{fit(most.name, 20)} {percent(most.share)}" if most else "",
        code_line(loop.place),
    ]


_EPOCHS = 3
"""Of many epochs, so many of the first are shown, and the last ones."""


def epoch_table(loop: TrainingLoop, currency: str = "") -> list[str]:
    """A table of the epochs of ``loop``; nothing of a single one without a price."""
    epochs = loop.epochs
    if len(epochs) < 2 and not any(each.cost is not None for each in epochs):
        return []
    heads, rows = epoch_cells(epochs, currency)
    left_out = len(rows) - LIMIT
    if left_out > 0:
        rows = [*rows[:_EPOCHS], *rows[_EPOCHS + left_out :]]
    made = table("  epochs", [*heads[1:], ""], [[*row, ""] for row in rows], indent=4)[:-1]
    if left_out > 0:
        made.insert(1 + _EPOCHS, f"    … {count(left_out, 'epoch')} between these")
    return [*made, ""]


def epoch_cells(epochs: Sequence[Epoch], currency: str) -> tuple[list[str], list[list[str]]]:
    """Heads, and a row for each epoch; columns of what is not known are left out."""
    items = any(each.items for each in epochs)
    after = any(each.after >= 0.01 * each.seconds for each in epochs)
    losses = list(dict.fromkeys(loss.name for each in epochs for loss in each.losses))[:1]
    cost = any(each.cost is not None for each in epochs)
    name = clean(losses[0]) if losses else ""
    heads = ["epoch", "steps", "time", *(["after it"] if after else [])]
    heads += ["items", "items/s"] if items else []
    heads += [f"{name}: first", "last", "mean"] if losses else []
    heads += [f"cost {clean(currency)}".strip()] if cost else []
    rows = []
    for each in epochs:
        row = [str(each.number), str(each.steps), duration(each.seconds)]
        row += [duration(each.after)] if after else []
        if items:
            row += ["" if each.items is None else amount(each.items)]
            row += ["" if each.throughput is None else figure(each.throughput)]
        found = next((loss for loss in each.losses if loss.name in losses), None)
        if losses:
            row += [figure(v) for v in (found.first, found.last, found.mean)] if found else [""] * 3
        row += ["" if each.cost is None else figure(each.cost)] if cost else []
        rows.append(row)
    return heads, rows


_SHOWN = 16
"""Ranks beyond which only the fastest, the slowest and the straggler are shown."""
_NAMED = 0.1
"""Of a step: the score from which the verdict warns of a rank. Someone always waits least."""


def rank_table(loop: TrainingLoop) -> list[str]:
    """The table of the ranks of ``loop``; nothing when there is one."""
    tracks = loop.ranks
    if len(tracks) < 2:
        return []
    shown = _chosen(loop)
    columns = rank_columns(loop)
    heads = [*(head for head, _ in columns), "longer than the others in:"]
    names = dict(zip(map(id, tracks), member_names(loop), strict=True))
    rows = [
        [
            names[id(track)],
            *(cell(track) for _, cell in columns),
            slow_region(track, tracks),
        ]
        for track in shown
    ]
    found = table(f"  {member(loop)}s", heads, rows, indent=4)[:-1]
    if len(shown) < len(tracks):
        found.append(f"    … and {count(len(tracks) - len(shown), member(loop))} between these")
    return [*found, *straggler_lines(loop.straggler), ""]


def member(loop: TrainingLoop) -> str:
    """Of what ``loop`` has several: ``rank``, or ``thread`` where one process has several."""
    processes = {track.process for track in loop.ranks}
    return "thread" if len(processes) < len(loop.ranks) else "rank"


def member_names(loop: TrainingLoop) -> list[str]:
    """``rank 3``, ``process 4``, ``thread 0``, ``process 4, thread 0``: of each of ``loop.ranks``."""
    names = [rank_name(track.rank, track.process) for track in loop.ranks]
    if member(loop) == "rank":
        return names
    seen: dict[str, int] = {}
    found = []
    for name in names:
        number = seen[name] = seen.get(name, -1) + 1
        found.append((name, f"thread {number}"))
    return [", ".join(each if len(seen) > 1 else each[1:]) for each in found]


def rank_columns(loop: TrainingLoop) -> list[tuple[str, Callable[[LoopRank], str]]]:
    """Head and cell of the columns that say something."""
    tracks = loop.ranks
    unit = TimeUnit(loop.step.median)
    found: list[tuple[str, Callable[[LoopRank], str]]] = []
    if len({track.host for track in tracks}) > 1:
        found.append(("host", lambda track: fit(track.host, 16)))
    if any(track.device for track in tracks):
        found.append(("device", lambda track: fit(track.device or "", 12)))
    found += [
        ("steps", lambda track: str(track.steps)),
        (f"step {unit.name}", lambda track: unit(track.step.median)),
        ("p95", lambda track: unit(track.step.p95)),
    ]
    if any(track.throughput.items is not None for track in tracks):
        found.append(("items/s", lambda track: _figure(track.throughput.items)))
    else:
        found.append(("steps/s", lambda track: _figure(track.throughput.steps)))
    if any(track.waits > 0 for track in tracks):
        found.append(("waits", lambda track: unit(track.waits)))
    return found


def _figure(value: float | None) -> str:
    return UNKNOWN if value is None else figure(value)


def _chosen(loop: TrainingLoop) -> list[LoopRank]:
    tracks = list(loop.ranks)
    if len(tracks) <= _SHOWN:
        return tracks
    order = sorted(range(len(tracks)), key=lambda at: tracks[at].step.median)
    half = _SHOWN // 2
    kept = {*order[:half], *order[-half:]}
    culprit = loop.straggler.rank if loop.straggler else None
    kept |= {at for at, track in enumerate(tracks) if track.rank == culprit is not None}
    return [tracks[at] for at in sorted(kept)]


def slow_region(track: LoopRank, tracks: Sequence[LoopRank]) -> str:
    """The region in which this rank exceeds the median of the others most."""
    most, where = 0.0, ""
    for region, seconds in track.regions.items():
        others = [each.regions.get(region, 0.0) for each in tracks if each is not track]
        excess = seconds - percentile(sorted(others), 0.5)
        # Less than a hundredth of a step is noise.
        if region != "comm" and excess > most and excess >= 0.01 * track.step.median:
            most, where = excess, region
    return f"{fit(clean(where), 20)} +{short(most)}" if where else ""


def straggler_lines(straggler: Straggler | None) -> list[str]:
    """Who waits for it and where it is slow, where it is worth a warning."""
    if straggler is None or not straggler.score >= _NAMED:
        return []
    text = (
        f"the other ranks wait for rank {straggler.rank} for {percent(straggler.score)} of a step"
    )
    if straggler.slow_at:
        excess = short(straggler.excess)
        text += f"; it is slow in {clean(straggler.slow_at)}, {excess} above their median"
    return labelled("", [text], indent=4, width=0)
