"""What a run's figures do not cover: what was not, or not well, measured, as sentences.

A reader needs them before trusting numbers: device time without a device clock, ranks that recorded nothing,
a loss that is a part of the loss, records that were lost.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ..store.call_sites import INFERENCE, SourceLine
from .columns import RecordedProcess
from .landmarks import GRADIENTS_ALONE
from .training_loop import TRANSFER, Node, TrainingLoop, within
from .wording import count, leading, line_of


def unmeasured_of(
    info: Mapping[str, Any],
    sources: Sequence[RecordedProcess],
    with_spans: Sequence[RecordedProcess],
    loops: Sequence[TrainingLoop],
    of_losses: Sequence[TrainingLoop],
    unknown: int,
) -> tuple[str, ...]:
    """The sentences about a run with these processes and ``loops``.

    ``info`` is its run.json; ``of_losses`` are the loops whose losses are shown; ``unknown`` is the
    number of spans whose call site was not recorded.
    """
    parts = (
        _unmeasured_devices(with_spans, loops),
        _without_items(loops),
        _divided_losses(with_spans, of_losses),
        _skipped_updates(with_spans, loops),
        _missing_ranks(sources, loops),
        _not_stopped(info, loops),
        _missed_selectors(info),
        _by_recording(info, sources, unknown),
    )
    return tuple(dict.fromkeys(sentence for part in parts for sentence in part))


def _unmeasured_devices(
    with_spans: Sequence[RecordedProcess], loops: Sequence[TrainingLoop]
) -> Iterator[str]:
    """Device time, and copies to devices, that were not recorded."""
    if not loops:
        return
    sites = [site for source in with_spans for site in source.sites.values()]
    if not any(site.clock == "device" for site in sites):
        yield "device time: no device clock was recorded; all times are the host's"
    # Copies that no probe sees are hidden in other regions: only worth saying if a device was used.
    used = any(site.device not in (None, "cpu") for site in sites)
    if used and not any(site.region == TRANSFER for site in sites):
        yield (
            "transfers to devices: none were recorded; transfers made by libraries, `copy_` and tensors made "
            "on the device are part of the region around them, unless a voirfile records h2d"
        )


def _without_items(loops: Sequence[TrainingLoop]) -> Iterator[str]:
    """Loops whose items are not known, with the reason."""
    for loop in loops:
        if loop.throughput.items is None and loop.throughput.why_no_items:
            yield f"items per second: {loop.throughput.why_no_items}; rates are steps per second"


def _divided_losses(
    with_spans: Sequence[RecordedProcess], loops: Sequence[TrainingLoop]
) -> Iterator[str]:
    """Loops whose recorded loss may be a part: what gradients of several batches are accumulated from.

    ``torch.autograd.grad`` accumulates none: what fits a copy of a model by it calls it once for each fit.
    """
    accumulating = {
        site.place
        for source in with_spans
        for site in source.sites.values()
        if site.region == "backward" and site.selector != GRADIENTS_ALONE
    }
    for loop in loops:
        # An update may be given a function that starts the last of them itself: one line, twice in the tree.
        backwards: defaultdict[SourceLine | None, float] = defaultdict(float)
        for node in within(loop.tree):
            if node.name == "backward" and node.place in accumulating:
                backwards[node.place] += node.calls
        place = max(backwards, key=lambda line: backwards[line], default=None)
        calls = backwards[place]
        if calls >= 1.5 * max(loop.updates_per_step, 1):
            where = f" at {line_of(loop.place)}" if loop.place else ""
            there = f" at {line_of(place)}" if place and len(backwards) > 1 else ""
            yield (
                f"the loss of a step{where}: it calls backward {calls:.3g} times{there}; if the program "
                "divides its loss by that number, the divided loss is shown"
            )


def _skipped_updates(
    with_spans: Sequence[RecordedProcess], loops: Sequence[TrainingLoop]
) -> Iterator[str]:
    """That an optimizer accumulates gradients by itself, within code that does not tell when it updates."""
    sites = (site for source in with_spans for site in source.sites.values())
    names = {site.label for site in sites if site.region == "accumulate"} if loops else ()
    for name in sorted(name for name in names if name):
        yield (
            f"which steps change the weights: {name} may accumulate the gradients of several before it does; "
            "each of them counts as a step"
        )


def _missing_ranks(
    sources: Sequence[RecordedProcess], loops: Sequence[TrainingLoop]
) -> Iterator[str]:
    """Ranks that recorded nothing, or made no steps, and collectives that were not recorded."""
    known = {source.rank for source in sources if source.rank is not None}
    world = max((source.world or 0 for source in sources), default=0)
    if absent := sorted(set(range(world)) - known):
        yield f"{_ranks(absent)} of {world} recorded nothing"
    if not loops:
        return
    if idle := sorted(known - {each.rank for loop in loops for each in loop.ranks}):
        yield f"{_ranks(idle)} made no steps"
    longest = loops[0]
    yield from _uneven(longest)
    if len({each.rank for each in longest.ranks} - {None}) > 1 and not _has(longest.tree, "comm"):
        # It may be in backward, in a round of boosting, or in `other`: a library in C, as that of MPI.
        yield (
            "collectives: none were recorded; where ranks wait for each other, it is part of another "
            "region or of `other`"
        )


def _uneven(loop: TrainingLoop) -> Iterator[str]:
    """Ranks that were started several times, or made different numbers of steps."""
    by_rank: dict[int, list[int]] = {}
    for each in loop.ranks:
        if each.rank is not None:
            by_rank.setdefault(each.rank, []).append(each.steps)
    for rank, steps in by_rank.items():
        if len(steps) > 1:
            yield f"rank {rank} was started {len(steps)} times: its processes are shown one by one"
    # A restarted rank made its steps in several processes: their numbers are no comparison.
    single = {rank: steps[0] for rank, steps in by_rank.items() if len(steps) == 1}
    if len(set(single.values())) > 1:
        few = min(single, key=lambda rank: single[rank])
        yield (
            f"ranks made different numbers of steps (rank {few}: {single[few]}, others up to "
            f"{max(single.values())}); they are compared over the steps that all ranks made"
        )


def _not_stopped(info: Mapping[str, Any], loops: Sequence[TrainingLoop]) -> Iterator[str]:
    """Why a loop went on after ``--stop``.

    It is an inference, which might have been an evaluation before a training, or a training whose steps are
    found only afterwards, as its optimizer makes no updates.
    """
    limits = info.get("limits") or {}
    stop = limits.get("stop")
    if not loops or info.get("stopped") or stop is None:
        return
    loop = loops[0]
    if loop.steps <= stop + (limits.get("skip") or 0):
        return
    if loop.task == INFERENCE:
        if not limits.get("phase"):
            yield (
                f"--stop {stop:.0f} did not end the inference: the program's files name what trains, or are "
                "those of a package, and a training might have followed; --phase inference ends it"
            )
    # Weights that are moved by hand beside an optimizer: once the run is over, backwards are its steps.
    elif _has(loop.tree, "backward") and not _has(loop.tree, "optimizer"):
        yield (
            f"--stop {stop:.0f} did not end the training: the program has an optimizer that makes no "
            "updates, which is what steps are counted by; ov.step of a voirfile counts what it names"
        )


def _missed_selectors(info: Mapping[str, Any]) -> Iterator[str]:
    """What shipped voirfiles looked for and did not find, by the warnings of run.json."""
    for each in info.get("warnings") or ():
        if each.get("kind") == "auto-missed":
            yield " ".join(str(each.get("text")).split())


def _by_recording(
    info: Mapping[str, Any], sources: Sequence[RecordedProcess], unknown: int
) -> Iterator[str]:
    """What recording itself changed or lost."""
    # The numbers are true of the run, which was slower.
    if any(source.layers for source in sources):
        yield "the program's own pace: --layers times each call of a layer, and steps are longer for it"
    artifacts = info.get("artifacts") or ()
    if any(str(each.get("name")).startswith("profiles/rank_") for each in artifacts):
        yield "the program's own pace in the steps of --torch-profile: they are longer for it"
    if lost := sum(source.lost for source in sources):
        were = "was" if lost == 1 else "were"
        yield f"{count(lost, 'record')} {were} lost: steps may be missing, or too long"
    if unknown:
        yield f"{unknown} spans were left out: their call site was not recorded"


def _has(tree: Node, name: str) -> bool:
    """Whether a step with this ``tree`` has a region of this ``name``."""
    return any(node.name == name for node in within(tree))


def _ranks(numbers: Sequence[int]) -> str:
    """``ranks 1, 2, 3``; at most eight numbers are shown."""
    return f"rank{'s' if len(numbers) > 1 else ''} {leading(numbers, 8)}"
