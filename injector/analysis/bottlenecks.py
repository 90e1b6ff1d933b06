"""What could be saved in a step, and the words for each saving.

Of each region, :func:`savings` says which fraction of a step could be saved at most: all of what waits, a
third of what computes. With a device clock, what the host does counts only while the device has nothing
queued. :func:`bottleneck` says where a saving lies, what it rests on and what to try.
"""

from __future__ import annotations

from typing import NamedTuple

from ..store.call_sites import INFERENCE
from . import advice
from .advice import heaviest
from .evidence import DeviceWork, Evidence, Shares
from .training_loop import (
    BOOSTING,
    COMPUTING,
    READING,
    SYNC,
    TRANSFER,
    UNSEEN_CALLS,
    Node,
    TrainingLoop,
)
from .wording import line_of, rough, whole_percent

WARNING, CRITICAL = 0.10, 0.20
"""Fractions of a step from which on a saving is a warning, or critical; TraceML's."""
COMPUTE = 1 / 3
"""The fraction of computing that lower precision, a compiled model or larger batches may save. Of all else,
the whole may be saved."""
FULL = 0.90
"""If a device has work queued for this fraction of a step, what the host does is no matter."""
MAIN_PARTS = {
    "compiled": "compiled functions",
    "forward": "forward",
    "gradients": "gradients",
    "backward": "backward",
    "optimizer": "optimizer",
}
"""The regions that a sentence about computing names, and how."""
UNSEEN_FORWARD = 0.1
"""A backward takes about twice as long as its forward: below this fraction of it, that was not seen."""
_UNTIL_BACKWARD = ("forward", "zero_grad", "backward")
NAMED = 0.005
"""The fraction of a step from which on a sentence names a region."""
HANDED_OVER = (
    "nothing waits in a step: where a call of what is compiled returns before the device is done, "
    "it took as long as handing the work over"
)


def savings(evidence: Evidence, shares: Shares) -> dict[str, float]:
    """The fraction of a step that could be saved, by region, or ``compute``, ``launch`` or ``straggler``."""
    loop, device = evidence.loop, evidence.device
    saved = {name: share for name, share in shares.items() if name not in COMPUTING}
    computing, waiting = sum(shares.get(name, 0.0) for name in COMPUTING), 0.0
    if loop.straggler is not None:
        saved["straggler"] = loop.straggler.score
        # The others' waiting for the straggler is no communication. If no collectives were recorded, it is a
        # part of backward, and so of computing.
        ranks = max(len(loop.ranks), 2)
        waiting = loop.straggler.score * (ranks - 1) / ranks
        if "comm" in saved:
            saved["comm"], waiting = max(saved["comm"] - waiting, 0.0), 0.0
    if device is not None:
        # What the host does while the device has work costs nothing.
        saved = {name: saving * device.idle.get(name, 1.0) for name, saving in saved.items()}
        if device.copying:
            saved[TRANSFER] = saved.get(TRANSFER, 0.0) + device.copying
        saved["launch"], computing = _launching(device, shares)
    return {**saved, "compute": max(computing - waiting, 0.0) * COMPUTE}


def _launching(device: DeviceWork, shares: Shares) -> tuple[float, float]:
    """The fractions of a step in which the host launches for an idle device, and a device computes."""
    idle = sum(
        shares.get(name, 0.0) * device.idle.get(name, 1.0)
        for name in COMPUTING
        if name != SYNC  # waiting for the device, the host launches nothing
    )
    computing = max(device.queued(shares) - device.copying, 0.0)
    # While the queue is empty, the device may compute what it was handed just then: the load that its
    # driver reports tells how much.
    meanwhile = min(max((device.load or 0.0) - computing, 0.0), idle)
    return idle - meanwhile, computing + meanwhile


class Bottleneck(NamedTuple):
    """One kind of verdict with its words."""

    kind: str
    share: float
    """Fraction of a step, as in the table of the report."""
    text: str
    """The sentence after the kind."""
    facts: tuple[str, ...]
    advice: tuple[str, ...]


_KINDS = {
    "io": ("input-bound", "waits"),
    TRANSFER: ("transfer-bound", "copies to the device"),
    "comm": ("communication-bound", "is spent in collectives"),
    "env": ("environment-bound", "is spent in environments"),
    "wait": ("wait-bound", "is blocked"),
}


def kind_of(name: str) -> str:
    """The kind of verdict that a saving leads to: ``input-bound`` for ``io``."""
    if name == "straggler":
        return name
    return _KINDS[name][0] if name in _KINDS else f"{'overhead' if name == 'other' else name}-bound"


def bottleneck(evidence: Evidence, shares: Shares, name: str) -> Bottleneck:
    """The words for the saving ``name``, one of :func:`savings`."""
    if name == "compute":
        return _compute_bound(evidence, shares)
    if name == "launch":
        return _launch_bound(evidence, shares)
    if name == "straggler":
        return _straggler(evidence)
    named = _region_bound(evidence, shares, name)
    idle = evidence.device.idle.get(name, 1.0) if evidence.device else 1.0
    if idle >= FULL or name == TRANSFER:
        return named
    text = f"{named.text}; the device has nothing queued in {whole_percent(named.share * idle)} of the step"
    return named._replace(share=named.share * idle, text=text)


def _line(node: Node | None) -> str:
    return line_of(node.place if node else None, "an unknown line")


def _region_bound(evidence: Evidence, shares: Shares, name: str) -> Bottleneck:
    """A region of the host, or copies by the device."""
    loop, share = evidence.loop, shares.get(name, 0.0)
    facts = [
        f"{name} takes {whole_percent(share)} of a step, whose median is {rough(loop.step.median)}"
    ]
    if name == "other":
        return _overhead_bound(evidence, shares, facts)
    node = heaviest(loop, *(READING if name == "io" else (name,)))
    if node is not None and node.place is not None:
        host = node.host
        facts.append(f"{node.name} at {_line(node)}: median {rough(host.median)}, "
                     f"95th percentile {rough(host.p95)} a step")  # fmt: skip
    verb = _KINDS.get(name, ("", f"is {name}"))[1]
    tips = advice.OF_REGIONS.get(name, ())
    if name == "io":
        tips = advice.reading(loop, evidence.host)
    elif name == "comm" and evidence.shares_batches:
        tips = advice.PARTS
    elif name == TRANSFER:
        tips = advice.moving(loop)
        copying = evidence.device.copying if evidence.device else 0.0
        if copying > share:  # the copy was queued, and the host went on
            verb, share = "is spent in copies to the device, which it was handed", copying
            facts.append(f"the device copies for {whole_percent(copying)} of a step")
    elif name == "wait" and node is not None and node.what:
        verb += f" in {node.what}"
        if node.what.rpartition(".")[2] == "sleep":  # nothing that it waits for could come earlier
            name, verb, tips = "other", "is spent in sleep", advice.BESIDE
    text = f"{whole_percent(share)} of a step {verb} at {_line(node)}"
    return Bottleneck(kind_of(name), share, text, tuple(facts), tips)


def _overhead_bound(evidence: Evidence, shares: Shares, facts: list[str]) -> Bottleneck:
    share, between = shares.get("other", 0.0), evidence.between
    text = f"{whole_percent(share)} of a step is in no region"
    tips: tuple[str, ...] = advice.BESIDE
    if between:
        facts.append(f"{whole_percent(between.share)} of that passes {between.text}")
        if between.is_most:
            text += f", mostly {between.text}"
        if between.batch:
            tips = advice.making_batches(between.batch, evidence.loop.place, evidence.command)
    if _hides_forward(evidence, shares):
        text += (
            "; what the model computes is in there, as no call of it was recorded before backward"
        )
        return Bottleneck("none", share, text, tuple(facts), advice.FORWARD)
    return Bottleneck(kind_of("other"), share, text, tuple(facts), tips)


def _hides_forward(evidence: Evidence, shares: Shares) -> bool:
    """Whether the time in no region may be the forward, by methods of a model that is not called itself.

    Something computed what backward derives, and most of that time passes before it.
    """
    backward, between = shares.get("backward", 0.0), evidence.between
    is_unseen = backward > 0 and shares.get("forward", 0.0) < UNSEEN_FORWARD * backward
    return is_unseen and (between is None or between.until in _UNTIL_BACKWARD)


def _computing_regions(loop: TrainingLoop, shares: Shares) -> str:
    """The names of the main regions that compute; where the loop has none of them, of all or those of
    inference.
    """
    usual = ["forward"] if loop.task == INFERENCE else ["forward", "backward", "optimizer"]
    seen = [text for name, text in MAIN_PARTS.items() if shares.get(name, 0.0) >= NAMED]
    *others, last = seen or usual
    return f"{', '.join(others)} and {last}" if others else last


def _compute_bound(evidence: Evidence, shares: Shares) -> Bottleneck:
    """Computing: the regions that compute, or the device's own time where that says more."""
    loop, device = evidence.loop, evidence.device
    parts = [name for name in COMPUTING if name in shares]
    share = sum(shares[name] for name in parts)
    largest = max(parts, key=lambda name: shares[name], default="forward")
    what = _computing_regions(loop, shares)
    if largest in BOOSTING:
        share, what = shares[largest], f"{largest}: the inside of compiled code is not recorded"
    elif largest in UNSEEN_CALLS:
        where = _line(heaviest(loop, largest))
        share, what = shares[largest], f"{largest} at {where}: its inside is not recorded"
    elif largest == SYNC:
        what = f"computing: the host waits for the device at {_line(heaviest(loop, SYNC))}"
    text = f"{whole_percent(share)} of a step is {what}"
    parts_text = ", ".join(f"{n} {whole_percent(shares[n])}" for n in parts if shares[n] >= NAMED)
    facts = [f"{parts_text} of a step, whose median is {rough(loop.step.median)}"]
    if largest == "compiled" and device is None and SYNC not in shares:
        facts.append(HANDED_OVER)
    if device is not None:
        facts += _device_facts(device, shares)
        # The host hands work over and goes on: the device's time says more than the host's.
        if share < device.queued(shares) >= FULL:
            text = facts[-1]
    return Bottleneck("compute-bound", share, text, tuple(facts), advice.computing(loop, largest))


def _launch_bound(evidence: Evidence, shares: Shares) -> Bottleneck:
    """A device that does nothing while the host launches its work."""
    assert evidence.device is not None
    computed = sum(shares.get(name, 0.0) for name in COMPUTING if name != SYNC)
    idle = _launching(evidence.device, shares)[0]
    text = f"the device does nothing in {whole_percent(idle)} of a step, while the host launches its work"
    facts = (
        f"host in {_computing_regions(evidence.loop, shares)} {whole_percent(computed)} of a step, whose "
        f"median is {rough(evidence.loop.step.median)}",
        *_device_facts(evidence.device, shares),
    )
    return Bottleneck("launch-bound", idle, text, facts, advice.launching(evidence.loop))


def _device_facts(device: DeviceWork, shares: Shares) -> list[str]:
    """What is known of the devices in a step, as sentences."""
    facts = []
    meanwhile = {
        name: share * (1 - device.idle.get(name, 1.0))
        for name, share in shares.items()
        if name not in COMPUTING
    }
    most = max(meanwhile, key=lambda name: meanwhile[name], default="")
    if meanwhile.get(most, 0.0) >= WARNING:  # what the host does meanwhile is hidden
        where, spent = "no region" if most == "other" else most, whole_percent(meanwhile[most])
        facts.append(f"the host is in {where} for {spent} of a step while the device works")
    if device.load is not None:
        load = whole_percent(device.load)
        facts.append(f"by its driver, the device computes for {load} of the time")
    queued = whole_percent(device.queued(shares))
    return [*facts, f"the device has work queued in {queued} of a step"]


def _straggler(evidence: Evidence) -> Bottleneck:
    """The rank that the others wait for."""
    loop, straggler = evidence.loop, evidence.loop.straggler
    assert straggler is not None
    slow = f", slow in {straggler.slow_at}" if straggler.slow_at else ""
    score = whole_percent(straggler.score)
    text = f"the other ranks wait for rank {straggler.rank} for {score} of a step{slow}"
    facts = [
        f"rank {each.rank} waits {rough(each.waits)} of a step of {rough(each.step.median)}"
        for each in loop.ranks
    ][:8]
    if straggler.slow_at:
        longer = f"{rough(straggler.excess)} longer than the others"
        facts.append(f"rank {straggler.rank} takes {longer} in {straggler.slow_at}")
    culprit = next((ranked for ranked in loop.ranks if ranked.rank == straggler.rank), None)
    at = f" ({culprit.host}{', ' + culprit.device if culprit.device else ''})" if culprit else ""
    tips = (
        f"look at rank {straggler.rank}{at}: its share of the data, its device's clocks and "
        "temperature, other programs on its host",
    )
    return Bottleneck("straggler", straggler.score, text, tuple(facts), tips)
