"""What limits a program: one verdict, with its evidence, its threshold and what to try."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from .between import Between
from .profile import Loop, Node, Place, Verdict
from .samples import typical_share
from .timeline import line_of
from .tree import measured_from
from .units import Unit

WARNING, CRITICAL = 0.10, 0.20
"""Parts of a step; TraceML's, on typical steps and not on means."""
COMPUTE = 0.90
IDLE = 0.50
"""A device that is busy for less of a step waits for the host."""
GROWTH = 1 << 30
"""Bytes."""
LEAST_STEPS = 150
"""Of three bands of 50 each, in which memory has to grow."""
COMPUTING = ("forward", "backward", "optimizer", "zero_grad")
NOTHING_TRAINED = "no steps were seen: the program trained nothing that injector knows"

Memory = Mapping[int, tuple[Sequence[float], Sequence[float]]]
"""By process (its index in run.json): unix seconds, and bytes of resident memory at each."""


@dataclass(frozen=True)
class Evidence:
    """What a verdict is made of."""

    loop: Loop
    units: list[Unit]
    shares: dict[str, float]
    """The typical part of a step that each region takes without those inside it."""
    busy: float | None
    """The typical part of a step in which the device works; None without a device clock."""
    between: Between | None
    growth: tuple[int, float] | None
    """Which process grew, and by how many bytes."""


def shares_of(units: list[Unit], warmup: int) -> dict[str, float]:
    """What a typical step is made of, over all ranks."""
    found: dict[str, list[float]] = {}
    for unit in units:
        first = measured_from(unit, warmup)
        whole = unit.table.seconds[first:]
        for name, seconds in unit.table.regions().items():
            name = "io" if name == "io.start" else name
            found.setdefault(name, []).append(typical_share(seconds[first:], whole))
    return {name: float(np.sum(each)) / len(units) for name, each in found.items()}


def busy_of(units: list[Unit], warmup: int) -> float | None:
    """The part of a typical step in which devices work."""
    found = []
    for unit in units:
        busy = unit.table.busy()
        if busy is not None:
            first = measured_from(unit, warmup)
            found.append(typical_share(busy[first:], unit.table.seconds[first:]))
    return float(np.mean(found)) if found else None


def growth_of(memory: Memory, units: list[Unit]) -> tuple[int, float] | None:
    """The process whose memory grew most through three bands of the loop, beyond doubt."""
    worst: tuple[int, float] | None = None
    for unit in units:
        if len(unit.start) < LEAST_STEPS or unit.source.index not in memory:
            continue
        times, values = (np.asarray(each, np.float64) for each in memory[unit.source.index])
        edges = [float(unit.start[i * (len(unit.start) - 1) // 3]) / 1e9 for i in range(3)]
        edges.append(float(unit.end[-1]) / 1e9)
        bands = [values[(times >= a) & (times <= b)] for a, b in pairwise(edges)]
        if any(not len(band) for band in bands):
            continue
        low, middle, high = (float(np.median(band)) for band in bands)
        if low < middle < high and high - low >= GROWTH and (not worst or high - low > worst[1]):
            worst = unit.source.index, high - low
    return worst


def nothing_trained(why: str = "") -> Verdict:
    """Where there is nothing to judge."""
    return Verdict("none", "info", NOTHING_TRAINED, (why,) if why else (), "", (
        "name the loop: ov.step or ov.loader in a voirfile, or injector.region in the program",
    ))  # fmt: skip


def verdict_of(evidence: Evidence) -> Verdict:
    """The most severe of what was found; where nothing was, what the step is made of."""
    if not evidence.loop.tree.children:
        return _undivided(evidence.loop)
    found = [each for rule in _RULES if (each := rule(evidence)) is not None]
    if not found:
        return _fine(evidence)
    return max(found, key=lambda each: (each[1].severity == "critical", each[0]))[1]


def _undivided(loop: Loop) -> Verdict:
    """Steps in which nothing was recorded say how long they took, and no more."""
    sentence = f"none: a step takes {_ms(loop.step.median)}, and nothing was recorded inside of it"
    fact = f"over {loop.step.n} measured steps, {loop.warmup.steps} of warm-up left out"
    advice = "name its parts: ov.region in a voirfile, or injector.region in the program"
    return Verdict("none", "info", sentence, (fact,), "", (advice,))


def _severity(share: float) -> str:
    return "critical" if share >= CRITICAL else "warning"


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def _threshold(what: str, warning: float = WARNING, critical: float = CRITICAL) -> str:
    return f"{what}: warning from {_percent(warning)}, critical from {_percent(critical)}"


def _ms(seconds: float) -> str:
    for unit, scale in (("s", 1.0), ("ms", 1e3)):
        if seconds * scale >= 1:
            return f"{seconds * scale:.3g} {unit}"
    return f"{seconds * 1e6:.3g} µs"


def _nodes(node: Node, name: str) -> list[Node]:
    found = [node] if node.name == name else []
    for child in node.children:
        found += _nodes(child, name)
    return found


def _heaviest(loop: Loop, name: str) -> Node | None:
    return max(_nodes(loop.tree, name), key=lambda node: node.share, default=None)


def _place(loop: Loop, name: str) -> Place | None:
    node = _heaviest(loop, name)
    return node.place if node else None


def _facts(evidence: Evidence, name: str) -> tuple[str, ...]:
    loop = evidence.loop
    node = _heaviest(loop, name)
    facts = [
        f"{name} takes {_percent(evidence.shares[name])} of a typical step of {_ms(loop.step.median)}"
    ]
    if node is not None and node.place is not None:
        facts.append(f"{name} at {line_of(node.place)}: median {_ms(node.host.median)}, "
                     f"95th percentile {_ms(node.host.p95)} a step")  # fmt: skip
    measured = loop.step.n
    facts.append(f"over {measured} measured steps, {loop.warmup.steps} of warm-up left out")
    return tuple(facts)


_Found = tuple[float, Verdict]


def _by_share(
    evidence: Evidence, kind: str, name: str, does: str, advice: tuple[str, ...]
) -> _Found | None:
    share = evidence.shares.get(name, 0.0)
    if share < WARNING or _device_is_full(evidence):
        return None
    at = line_of(_place(evidence.loop, name))
    sentence = f"{kind}: {_percent(share)} of a step {does} at {at}"
    return share, Verdict(kind, _severity(share), sentence, _facts(evidence, name),
                          _threshold(f"{name} as a part of a step"), advice)  # fmt: skip


def _device_is_full(evidence: Evidence) -> bool:
    # The host may wait as it likes, as long as the device has work all the time.
    return evidence.busy is not None and evidence.busy >= COMPUTE


def _input(evidence: Evidence) -> _Found | None:
    node = _heaviest(evidence.loop, "io")
    what = node.what if node and node.what else "the loader"
    advice = (
        f"give {what} more worker processes (num_workers), with persistent_workers=True",
        "prefetch further ahead (prefetch_factor), and decode or transform ahead of time, once",
        "read from local storage, in fewer and larger files",
    )
    return _by_share(evidence, "input-bound", "io", "waits", advice)


def _transfer(evidence: Evidence) -> _Found | None:
    node = _heaviest(evidence.loop, "h2d")
    advice: tuple[str, ...] = (
        "pin the loader's memory (pin_memory=True) and copy with non_blocking=True",
        "copy the next batch while this one is worked on; send smaller types and convert there",
    )
    if node and node.nbytes and node.host.median > 0:
        rate = node.nbytes / node.host.median
        advice += (f"{node.nbytes / 1e6:.3g} MB a step move at {rate / 1e9:.3g} GB/s",)
    return _by_share(evidence, "transfer-bound", "h2d", "copies to the device", advice)


def _communication(evidence: Evidence) -> _Found | None:
    if evidence.loop.straggler and evidence.loop.straggler.score >= WARNING:
        return None  # they wait for one rank: that is the verdict
    advice = (
        "accumulate gradients over several batches (no_sync between), or take larger batches",
        "larger buckets, gradients in half precision, and a look at the network between the ranks",
    )
    return _by_share(
        evidence, "communication-bound", "comm", "is spent in collectives", advice
    )  # fmt: skip


def _overhead(evidence: Evidence) -> _Found | None:
    share = evidence.shares.get("other", 0.0)
    if share < WARNING or _device_is_full(evidence):
        return None
    between = evidence.between
    where = between.text if between else "outside of every region"
    sentence = f"overhead-bound: {_percent(share)} of a step is in no region, mostly {where}"
    facts = list(_facts(evidence, "other"))
    if between:
        facts.insert(1, f"{_percent(between.share)} of that passes {between.text}")
    advice = (
        "look at what these lines do: logging, metrics, .item() and printing each step, "
        "transforms on the host",
        'name it with injector.region("…") to see it apart',
    )
    return share, Verdict("overhead-bound", _severity(share), sentence, tuple(facts),
                          _threshold("what no region covers, as a part of a step"), advice)  # fmt: skip


def _launch(evidence: Evidence) -> _Found | None:
    shares, busy = evidence.shares, evidence.busy
    full = sum(shares.get(name, 0.0) for name in COMPUTING)
    if busy is None or busy >= IDLE or full < IDLE:
        return None
    idle = 1 - busy
    sentence = (
        f"launch-bound: the device works in {_percent(busy)} of a step, "
        f"while the host is busy launching for {_percent(full)}"
    )
    facts = (
        f"device busy {_percent(busy)} of a typical step of {_ms(evidence.loop.step.median)}",
        f"host in forward, backward and optimizer {_percent(full)}",
    )
    advice = (
        "compile the model (torch.compile), or capture the step as a graph",
        "larger batches; fused or foreach optimizers; fewer small operators",
    )
    threshold = (
        f"the device busy for less than {_percent(IDLE)} of a step whose host is not waiting"
    )
    return idle * full, Verdict("launch-bound", "critical" if busy < IDLE / 2 else "warning",
                                sentence, facts, threshold, advice)  # fmt: skip


def _straggler(evidence: Evidence) -> _Found | None:
    found = evidence.loop.straggler
    if found is None or found.score < WARNING:
        return None
    slow = f", slow at {found.slow_at}" if found.slow_at else ""
    sentence = f"straggler: the others wait for rank {found.rank} for {_percent(found.score)} of a step{slow}"
    facts = [
        f"rank {track.rank} waits {_ms(track.waits)} of a step of {_ms(track.step.median)}"
        for track in evidence.loop.tracks
    ][:8]
    if found.slow_at:
        facts.append(
            f"rank {found.rank} takes {_ms(found.excess)} longer than the others in {found.slow_at}"
        )
    culprit = next((t for t in evidence.loop.tracks if t.rank == found.rank), None)
    at = f" ({culprit.host}{', ' + culprit.device if culprit.device else ''})" if culprit else ""
    advice = (
        f"look at rank {found.rank}{at}: its share of the data, its device's clocks and "
        "temperature, other programs on its host",
    )
    # Weighed by more than its own score: what others measure as waiting is its doing.
    return 1 + found.score, Verdict("straggler", _severity(found.score), sentence, tuple(facts),
                                    _threshold("what it waits less than the others"), advice)  # fmt: skip


def _memory(evidence: Evidence) -> _Found | None:
    if evidence.growth is None:
        return None
    process, grown = evidence.growth
    sentence = f"memory-growth: process {process} grew by {grown / GROWTH:.1f} GiB while it trained"
    facts = ("its memory rose from each third of the steps to the next",)
    advice = (
        "look for what is kept from step to step: losses with their graphs (.item(), .detach()), "
        "lists of outputs, caches",
    )
    threshold = "1 GiB over three bands of at least 50 steps"
    return 0.0, Verdict("memory-growth", "warning", sentence, facts, threshold, advice)


_RULES = (_input, _transfer, _communication, _overhead, _launch, _straggler, _memory)


def _fine(evidence: Evidence) -> Verdict:
    shares, loop = evidence.shares, evidence.loop
    computing = sum(shares.get(name, 0.0) for name in COMPUTING)
    parts = [name for name in COMPUTING if name in shares]
    facts = tuple(f"{name} {_percent(shares[name])} of a typical step" for name in parts)
    facts = (*facts, f"over {loop.step.n} measured steps of {_ms(loop.step.median)}")
    threshold = f"compute from {_percent(COMPUTE)} of a step with nothing else found"
    if computing >= COMPUTE or (_device_is_full(evidence) and computing):
        heaviest = max(parts, key=lambda name: shares[name])
        sentence = (
            f"compute-bound: {_percent(computing)} of a step is forward, backward and optimizer"
        )
        advice = (
            f"{heaviest} is the largest part: lower precision, a compiled model, a faster device",
        )
        return Verdict("compute-bound", "info", sentence, facts, threshold, advice)
    named = sorted(shares, key=lambda name: -shares[name])[:3]
    text = ", ".join(f"{name} {_percent(shares[name])}" for name in named)
    return Verdict(
        "balanced", "info", f"balanced: nothing stands out ({text})", facts, threshold, ()
    )
