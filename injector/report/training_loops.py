"""The sections about training loops: what a step is and is made of, throughput, spread, epochs.

The longest loop is shown in full. Pages and documents (:mod:`.loop_sections`) take their sentences and the
cells of their tables from here.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..analysis.profile import INFERENCE, Model
from . import step_tree
from .output import room
from .ranks import member, rank_table
from .text import (
    LIMIT,
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
    scaled,
    short,
    table,
    wrapped,
)

TYPE_CHECKING = False  # importing typing would cost 5 ms
if TYPE_CHECKING:
    from ..analysis.training_loop import Epoch, Node, Throughput, TrainingLoop, Warmup

_LARGE = 0.1
"""A further loop is shown with its tree if it took this fraction of the longest loop's time."""
_TREES = 2
"""The most further loops that are shown with their trees."""


def lines(loops: Sequence[TrainingLoop], currency: str = "") -> list[str]:
    """The first of ``loops``, which is the longest, in full; large ones with a short tree, small ones with a
    row.

    ``currency`` is that of the costs of epochs.
    """
    if not loops:
        return []
    first, *others = loops
    large = [other for other in others if seconds(other) >= _LARGE * seconds(first)][:_TREES]
    result = whole(first, currency)
    for other in large:
        result += brief(other)
    return result + _table_of_others([other for other in others if other not in large])


def seconds(loop: TrainingLoop) -> float:
    """The seconds of all measured steps of all ranks."""
    return loop.step.mean * loop.step.n


def whole(loop: TrainingLoop, currency: str = "") -> list[str]:
    """The section about a loop in full."""
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
    """The section about a further loop: its throughput, and the regions directly below its step."""
    return [
        *_heading(loop),
        *_throughput(loop),
        *_warmup(loop.warmup),
        "",
        *step_tree.lines(loop.tree, depth=1, notes=[exceptional(loop)]),
        *(rank_table(loop) if loop.straggler else []),
    ]


def models(trained: Sequence[Model]) -> list[str]:
    """The section about the sizes of the models that were trained."""
    texts = []
    for model in trained[:LIMIT]:
        whole, trainable = parameters(model.parameters), parameters(model.trainable)
        # Where a few are not, as one scale, both numbers may be the same to the digits that are shown.
        part = f", {trainable} trainable" if trainable != whole else ""
        texts.append(f"{clean(model.name)}: {whole}{part}")
    return [*labelled("models", texts, indent=0, width=9), ""] if texts else []


def parameters(number: int) -> str:
    """A number of parameters, such as ``1.2 M parameters``."""
    return f"{scaled(number)} parameters" if number >= 1e3 else count(number, "parameter")


def name(loop: TrainingLoop) -> str:
    """The name of a loop: its task, and its job if there are several."""
    task = clean(loop.task).strip() or "train"
    return f"{task}, {loop.job}" if loop.job else task


def full_name(loop: TrainingLoop) -> str:
    """The name of a loop with its attempt, and with its number at its line, if there are several."""
    return name(loop) + _numbers(loop)


def _numbers(loop: TrainingLoop) -> str:
    attempt = "" if loop.attempt is None else f", attempt {loop.attempt}"
    return attempt + (", loop {} of {} at its line".format(*loop.of_line) if loop.of_line else "")


def _heading(loop: TrainingLoop) -> list[str]:
    """The heading: name, steps, what paces them, and the line of the program that does."""
    each = f" on each of {len(loop.ranks)} {member(loop)}s" if len(loop.ranks) > 1 else ""
    task = crop(name(loop), 60) + _numbers(loop)
    fewest = min((rank.steps for rank in loop.ranks), default=loop.steps)
    least = f"{fewest} to " if fewest < loop.steps else ""
    text = f"{task}: {least}{count(loop.steps, 'step')}{each}, {paced(loop)}"
    if loop.place is None:
        return wrapped(text)
    lines, code = wrapped(f"{text} at {line_of(loop.place)}"), clean(loop.place.text).strip()
    # The code goes on a line of its own, unless a readable part of it fits.
    if code and columns(lines[-1]) + 2 + min(columns(code), 16) > room():
        lines.append("   ")
    return [*lines[:-1], crop(f"{lines[-1]}  {code}", room())]


def paced(loop: TrainingLoop) -> str:
    """The words for what one step of a loop is, such as ``one per 4 batches fetched``."""
    updates = _on_average(loop.updates_per_step)
    if loop.paced_by == "call":
        return "one per call of a model"
    if loop.paced_by == "optimizer":
        return "one per update" if updates in ("0", "1") else f"one per {updates} updates"
    if loop.paced_by == "loader":
        batches = _on_average(loop.fetches_per_step)
        text = "one per batch" if batches in ("0", "1") else f"one per {batches} batches"
        text += " fetched"
    else:
        text = "as marked"
    return (
        text
        if updates in ("0", "1") or loop.task == INFERENCE
        else f"{text}, {updates} updates in each,"
    )


def _on_average(number: float) -> str:
    """``number`` to one decimal, without a zero that would claim more: ``4``, ``3.2``."""
    return amount(round(number)) if round(number, 1).is_integer() else f"{number:.1f}"


def _throughput(loop: TrainingLoop) -> list[str]:
    """The line of the throughput, and one on why items are not known, if they are not."""
    throughput = loop.throughput
    facts = [f"{figure(throughput.steps)} steps/s"]
    if throughput.tokens is not None:
        facts.insert(0, f"{figure(throughput.tokens)} tokens/s")
    if throughput.items is not None:
        facts.insert(0, f"{figure(throughput.items)} items/s")
    each = f"a step and {member(loop)}" if len(loop.ranks) > 1 else "a step"
    if contents := contents_of(loop):
        facts.append(f"{contents} {each}")
    return [*labelled("throughput", [" · ".join(facts)], width=12), *_no_items(throughput)]


def contents_of(loop: TrainingLoop) -> str:
    """What a step works on, as far as it is known: ``16 items, 512 tokens``."""
    sizes = ((loop.items_per_step, "item"), (loop.tokens_per_step, "token"))
    return ", ".join(f"{amount(size)} {thing}{'s'[: size != 1]}" for size, thing in sizes if size)


def _no_items(throughput: Throughput) -> list[str]:
    if throughput.items is not None:
        return []
    why = f": {throughput.why_no_items}" if throughput.why_no_items else ""
    return labelled("items", [f"not known{why}"], width=12)


def _warmup(warmup: Warmup) -> list[str]:
    """The line of the warm-up, if there was one."""
    if not warmup.steps:
        return []
    text = f"{count(warmup.steps, 'step')}, {duration(warmup.seconds)}"
    text += f", the slowest {duration(warmup.slowest)}; excluded from all figures"
    if warmup.skipped:
        text += f" ({warmup.skipped} by --skip)"
    return labelled("warm-up", [text], width=12)


def exceptional(loop: TrainingLoop) -> str:
    """A sentence on the exceptionally long steps that the shares exclude; empty if there are none."""
    left_out = loop.exceptional
    if left_out is None:
        return ""
    which = f"{count(left_out.steps, 'step')} of {duration(left_out.seconds)}"
    return f"shares exclude {which}, mostly {clean(left_out.mostly)}"


def overlaps(loop: TrainingLoop) -> list[str]:
    """A sentence for each two regions that overlap: how long, and how long each is as a whole, as medians."""
    return [
        f"{_region(pair.later)} overlaps {_region(pair.earlier)} for {short(pair.shared.median)} of a step; "
        f"whole, they take {short(pair.later.host.median)} and {short(pair.earlier.host.median)}"
        for pair in loop.overlaps[:LIMIT]
    ]


def _region(node: Node) -> str:
    """A region with its line."""
    return f"{clean(node.name)} ({line_of(node.place)})" if node.place else clean(node.name)


def _spread(loop: TrainingLoop) -> list[str]:
    """The table of :func:`spread`."""
    heads, rows = spread(loop)
    return table(f"  {heads[0]}", heads[1:], rows, indent=4)


_SPREAD = ("median", "mean", "std", "min", "p95", "max")
"""The figures of statistics that a table has, which are its heads as well."""


def spread(loop: TrainingLoop) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Heads and rows of a table of how the rate and the duration of steps are distributed."""
    unit = TimeUnit(loop.step.median)
    rows = [(f"step, {unit.name}", *(unit(getattr(loop.step, name)) for name in _SPREAD))]
    if (rate := loop.throughput.rate) is not None:
        rows.insert(0, (loop.throughput.unit, *(figure(getattr(rate, name)) for name in _SPREAD)))
    return (f"over {count(loop.step.n, 'step')}", *_SPREAD), rows


def _table_of_others(loops: Sequence[TrainingLoop]) -> list[str]:
    """A table of small loops."""
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
"""The number of first epochs that are shown of many, before the last ones."""


def epoch_table(loop: TrainingLoop, currency: str = "") -> list[str]:
    """The table of the epochs of a loop; nothing for a single epoch without a price."""
    epochs = loop.epochs
    if len(epochs) < 2 and not any(epoch.cost is not None for epoch in epochs):
        return []
    heads, rows = epoch_cells(epochs, currency)
    left_out = len(rows) - LIMIT
    if left_out > 0:
        rows = [*rows[:_EPOCHS], *rows[_EPOCHS + left_out :]]
    lines = table("  epochs", [*heads[1:], ""], [[*row, ""] for row in rows], indent=4)[:-1]
    if left_out > 0:
        lines.insert(1 + _EPOCHS, f"    … {count(left_out, 'epoch')} between these")
    return [*lines, ""]


def epoch_cells(epochs: Sequence[Epoch], currency: str) -> tuple[list[str], list[list[str]]]:
    """Heads and rows of a table of epochs. Columns without content are left out."""
    items = any(epoch.items for epoch in epochs)
    after = any(epoch.after >= 0.01 * epoch.seconds for epoch in epochs)
    losses = list(dict.fromkeys(loss.name for epoch in epochs for loss in epoch.losses))[:1]
    cost = any(epoch.cost is not None for epoch in epochs)
    name = clean(losses[0]) if losses else ""
    heads = ["epoch", "steps", "time", *(["after it"] if after else [])]
    heads += ["items", "items/s"] if items else []
    heads += [f"{name}: first", "last", "mean"] if losses else []
    heads += [f"cost {clean(currency)}".strip()] if cost else []
    rows = []
    for epoch in epochs:
        row = [str(epoch.number), str(epoch.steps), duration(epoch.seconds)]
        row += [duration(epoch.after)] if after else []
        if items:
            row += ["" if epoch.items is None else amount(epoch.items)]
            row += ["" if epoch.throughput is None else figure(epoch.throughput)]
        shown = next((loss for loss in epoch.losses if loss.name in losses), None)
        if losses:
            row += [figure(v) for v in (shown.first, shown.last, shown.mean)] if shown else [""] * 3
        row += ["" if epoch.cost is None else figure(epoch.cost)] if cost else []
        rows.append(row)
    return heads, rows
