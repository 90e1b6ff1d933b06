"""What limits a program: one verdict, how sure it is, what it rests on and what to try."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite
from typing import NamedTuple

from ..store.call_sites import INFERENCE
from ..store.folder import Run
from ..value_class import replace
from . import evidence as advice
from .evidence import GROWTH, IN_WINDOW, DeviceWork, Evidence, Shares, heaviest, nodes
from .profile import (
    BOOSTING,
    COMPUTING,
    OTHER_THREAD,
    READING,
    SYNC,
    TRANSFER,
    UNSEEN_CALLS,
    Node,
    TrainingLoop,
    Verdict,
)
from .recorded import ValueSeries, number
from .runs import missing_of
from .wording import count, line_of

WARNING, CRITICAL = 0.10, 0.20
"""Parts of a step from which something is worth a word; TraceML's."""
COMPUTE = 1 / 3
"""Of what is computed, the part that lower precision, a compiled model or larger batches may save; of all
else the whole may be saved."""
FULL = 0.90
"""The part of a step for which a device has work queued, from which its host is no matter."""
NEAR = 0.8
"""Of the largest saving, what another one has to reach to be as large, for all that can be known."""
ENOUGH = 2 * IN_WINDOW
"""Measured steps without which nothing is sure: what is seen once may be chance."""
AGREE = 0.75
"""The part of the windows that has to say the same."""
QUEUED, FEW = 0.5, 0.1
"""Of the time of all steps, the waits of a few beyond which the others say nothing of what they take; the
median wait by the mean one, up to which it is few that wait."""
DWARFS = 0.2
"""Of the run, what beside training is worth a word where it is longer than that."""
FITTING = ("fit", "grow", "candidate")
"""A region with those that lie in it, be it in other threads."""
UNSEEN = (
    "nothing was recorded inside that fit: the inside of one call of compiled code is not recorded"
)
HANDED_OVER = (
    "nothing waits in a step: where a call of what is compiled returns before the device is done, "
    "it took as long as handing the work over"
)
UNCOUNTED = "steps inside of a compiled function are not recorded: whether it trains is not known"
NOTHING_TRAINED = "no training steps were recorded: injector recognised no training in this program"
FAILED_BEFORE = "no training steps were recorded before the program failed"
UNSAMPLED = "the load of the device was sampled too seldom to tell launching from waiting for it"
_THRESHOLD = (
    "the verdict names the largest possible saving: all of a region, or a third of computing; "
    "warning from 10 % of a step, critical from 20 %"
)


# --- what could be saved --------------------------------------------------------------------------


def savings(evidence: Evidence, shares: Shares) -> dict[str, float]:
    """By region, ``compute``, ``launch`` and ``straggler``: the part of a step that could be saved."""
    loop, device = evidence.loop, evidence.device
    found = {name: share for name, share in shares.items() if name not in COMPUTING}
    computed, waited = sum(shares.get(name, 0.0) for name in COMPUTING), 0.0
    if loop.straggler is not None:
        found["straggler"] = loop.straggler.score
        # What the others wait is no communication; without collectives it is a part of backward.
        ranks = max(len(loop.ranks), 2)
        waited = loop.straggler.score * (ranks - 1) / ranks
        if "comm" in found:
            found["comm"], waited = max(found["comm"] - waited, 0.0), 0.0
    if device is not None:
        # The host may wait as it likes as long as the device has work.
        found = {name: saving * device.idle.get(name, 1.0) for name, saving in found.items()}
        if device.copying:
            found[TRANSFER] = found.get(TRANSFER, 0.0) + device.copying
        found["launch"], computed = _launched(device, shares)
    return {**found, "compute": max(computed - waited, 0.0) * COMPUTE}


def _launched(device: DeviceWork, shares: Shares) -> tuple[float, float]:
    """In which parts of a step the host launches for a device that does nothing, and the device computes."""
    launching = sum(
        shares.get(name, 0.0) * device.idle.get(name, 1.0)
        for name in COMPUTING
        if name != SYNC  # a host that waits for its device launches nothing
    )
    computed = max(device.queued(shares) - device.copying, 0.0)
    # Of what it was handed just then it computes some; only its driver knows how much.
    within = min(max((device.load or 0.0) - computed, 0.0), launching)
    return launching - within, computed + within


class Bottleneck(NamedTuple):
    """A verdict's kind with what it says."""

    kind: str
    share: float
    """Of a step, as the table has it."""
    text: str
    """What comes after the kind."""
    facts: tuple[str, ...]
    advice: tuple[str, ...]


_DOES = {
    "io": ("input-bound", "waits"),
    TRANSFER: ("transfer-bound", "copies to the device"),
    "comm": ("communication-bound", "is spent in collectives"),
    "env": ("environment-bound", "is spent in environments"),
    "wait": ("wait-bound", "is blocked"),
}


def _kind(name: str) -> str:
    if name == "straggler":
        return name
    return _DOES[name][0] if name in _DOES else f"{'overhead' if name == 'other' else name}-bound"


def bottleneck(evidence: Evidence, shares: Shares, name: str) -> Bottleneck:
    """What there is to say of one of the :func:`savings`."""
    if name == "compute":
        return _compute(evidence, shares)
    if name == "launch":
        return _launch(evidence, shares)
    if name == "straggler":
        return _straggler(evidence)
    found = _region(evidence, shares, name)
    idle = evidence.device.idle.get(name, 1.0) if evidence.device else 1.0
    if idle >= FULL or name == TRANSFER:
        return found
    text = (
        f"{found.text}; the device has nothing queued in {_percent(found.share * idle)} of the step"
    )
    return found._replace(share=found.share * idle, text=text)


def _region(evidence: Evidence, shares: Shares, name: str) -> Bottleneck:
    loop, share = evidence.loop, shares.get(name, 0.0)
    facts = [f"{name} takes {_percent(share)} of a step, whose median is {_time(loop.step.median)}"]
    if name == "other":
        return _overhead(evidence, share, facts)
    node = heaviest(loop, *(READING if name == "io" else (name,)))
    where = line_of(node.place if node else None, "an unknown line")
    if node is not None and node.place is not None:
        facts.append(f"{node.name} at {where}: median {_time(node.host.median)}, "
                     f"95th percentile {_time(node.host.p95)} a step")  # fmt: skip
    does = _DOES.get(name, ("", f"is {name}"))[1]
    tries = advice.OF_REGIONS.get(name, ())
    if name == "io":
        tries = advice.reading(loop, evidence.host)
    elif name == TRANSFER:
        tries = advice.moving(loop)
        copying = evidence.device.copying if evidence.device else 0.0
        if copying > share:  # the host has long gone on
            does, share = "is spent in copies to the device, which it was handed", copying
            facts.append(f"the device copies for {_percent(copying)} of a step")
    elif name == "wait" and node is not None and node.what:
        does += f" in {node.what}"
        if node.what.rpartition(".")[2] == "sleep":  # for nothing that could come earlier
            text = f"{_percent(share)} of a step is spent in sleep at {where}"
            return Bottleneck("overhead-bound", share, text, tuple(facts), advice.BESIDE)
    text = f"{_percent(share)} of a step {does} at {where}"
    return Bottleneck(_kind(name), share, text, tuple(facts), tries)


def _overhead(evidence: Evidence, share: float, facts: list[str]) -> Bottleneck:
    text, between = f"{_percent(share)} of a step is in no region", evidence.between
    if between:
        facts.append(f"{_percent(between.share)} of that passes {between.text}")
        if between.is_most:
            text += f", mostly {between.text}"
    tries: tuple[str, ...] = advice.BESIDE
    if between and between.batch:
        tries = advice.made(between.batch, evidence.loop.place, evidence.command)
    return Bottleneck("overhead-bound", share, text, tuple(facts), tries)


def _computed(loop: TrainingLoop) -> str:
    return "forward" if loop.task == INFERENCE else "forward, backward and optimizer"


def _compute(evidence: Evidence, shares: Shares) -> Bottleneck:
    parts = [name for name in COMPUTING if name in shares]
    share = sum(shares[name] for name in parts)
    largest = max(parts, key=lambda name: shares[name], default="forward")
    does = _computed(evidence.loop)
    if largest in BOOSTING:
        does = f"{largest}: the inside of compiled code is not recorded"
        share = shares[largest]
    elif largest in UNSEEN_CALLS:
        node = heaviest(evidence.loop, largest)
        where = line_of(node.place if node else None, "an unknown line")
        does = f"{largest} at {where}: its inside is not recorded"
        share = shares[largest]
    elif largest == "compiled":
        does = "compiled functions, forward, backward and optimizer"
    elif largest == SYNC:
        node = heaviest(evidence.loop, SYNC)
        where = line_of(node.place if node else None, "an unknown line")
        does = f"computing: the host waits for the device at {where}"
    text = f"{_percent(share)} of a step is {does}"
    text_of = ", ".join(f"{n} {_percent(shares[n])}" for n in parts if shares[n] >= 0.005)
    facts = [f"{text_of} of a step, whose median is {_time(evidence.loop.step.median)}"]
    if largest == "compiled" and evidence.device is None and SYNC not in shares:
        facts.append(HANDED_OVER)
    if evidence.device is not None:
        queued = evidence.device.queued(shares)
        facts += _of_device(evidence.device, shares)
        if queued >= FULL and share < queued:
            text = facts[-1]
    tries = advice.computing(evidence.loop, largest)
    return Bottleneck("compute-bound", share, text, tuple(facts), tries)


def _launch(evidence: Evidence, shares: Shares) -> Bottleneck:
    assert evidence.device is not None
    computed = sum(shares.get(name, 0.0) for name in COMPUTING if name != SYNC)
    idle = _launched(evidence.device, shares)[0]
    text = (
        f"the device does nothing in {_percent(idle)} of a step, while the host launches its work"
    )
    facts = (
        f"host in {_computed(evidence.loop)} {_percent(computed)} of a step, whose median is "
        f"{_time(evidence.loop.step.median)}",
        *_of_device(evidence.device, shares),
    )
    return Bottleneck("launch-bound", idle, text, facts, advice.launching(evidence.loop))


def _of_device(device: DeviceWork, shares: Shares) -> list[str]:
    facts = [f"the device has work queued in {_percent(device.queued(shares))} of a step"]
    if device.load is not None:
        facts.insert(
            0, f"by its driver, the device computes for {_percent(device.load)} of the time"
        )
    meanwhile = {
        name: share * (1 - device.idle.get(name, 1.0))
        for name, share in shares.items()
        if name not in COMPUTING
    }
    most = max(meanwhile, key=lambda name: meanwhile[name], default="")
    if meanwhile.get(most, 0.0) >= WARNING:  # a wait for the device, or what goes on beside it
        where = "no region" if most == "other" else most
        facts.insert(
            0,
            f"the host is in {where} for {_percent(meanwhile[most])} of a step while the device works",
        )
    return facts


def _straggler(evidence: Evidence) -> Bottleneck:
    loop, found = evidence.loop, evidence.loop.straggler
    assert found is not None
    slow = f", slow in {found.slow_at}" if found.slow_at else ""
    text = f"the other ranks wait for rank {found.rank} for {_percent(found.score)} of a step{slow}"
    facts = [
        f"rank {each.rank} waits {_time(each.waits)} of a step of {_time(each.step.median)}"
        for each in loop.ranks
    ][:8]
    if found.slow_at:
        facts.append(
            f"rank {found.rank} takes {_time(found.excess)} longer than the others in {found.slow_at}"
        )
    culprit = next((t for t in loop.ranks if t.rank == found.rank), None)
    at = f" ({culprit.host}{', ' + culprit.device if culprit.device else ''})" if culprit else ""
    tries = (
        f"look at rank {found.rank}{at}: its share of the data, its device's clocks and "
        "temperature, other programs on its host",
    )
    return Bottleneck("straggler", found.score, text, tuple(facts), tries)


# --- the verdict ----------------------------------------------------------------------------------


def verdict_of(evidence: Evidence) -> Verdict:
    """What could be saved most of, how sure that is, and what is larger still."""
    loop = evidence.loop
    dwarfs = tuple(_steps_apart(evidence)), tuple(_segments(evidence))
    if not loop.tree.children:
        return _undivided(loop, dwarfs)
    shares = loop.tree.shares()
    waited = _waited_in_few(loop, shares)
    if waited > QUEUED:
        return _queued(loop, waited, dwarfs)
    saved = savings(evidence, shares)
    order = sorted(saved, key=lambda name: -saved[name])
    found = bottleneck(evidence, shares, order[0])
    others = [
        bottleneck(evidence, shares, name)
        for name in order[1:]
        if name != "compute" and saved[name] >= WARNING
    ]
    besides = [f"also {each.kind}: {each.text}" for each in others]
    unsure = _doubts(evidence, saved, order)
    severity = "info"
    if order[0] != "compute":
        severity = "critical" if found.share >= CRITICAL and not unsure else "warning"
    elif len(order) > 1 and saved[order[1]] >= NEAR * saved[order[0]]:
        largest = sorted(shares, key=lambda name: -shares[name])[:3]
        text = ", ".join(f"{name} {_percent(shares[name])}" for name in largest)
        found = found._replace(kind="balanced", text=f"nothing stands out ({text})", advice=())
    if evidence.growth is not None:
        process, grown = evidence.growth
        text = f"the memory of process {process} grew by {grown / GROWTH:.1f} GiB during training"
        if order[0] == "compute":
            besides.insert(0, f"{found.kind}: {found.text}")
            facts = ("its memory rose from each third of the steps to the next", *found.facts)
            found, severity = Bottleneck("memory-growth", 0.0, text, facts, advice.KEPT), "warning"
        else:
            besides.append(f"also memory-growth: {text}")
    measured = (
        f"over {loop.step.n} measured steps, without {count(loop.warmup.steps, 'step')} of warm-up"
    )
    sentence = f"{found.kind}: {found.text}"
    if dwarfs[0]:
        sentence += f"; but {dwarfs[0][0]}"
    if unsure:
        sentence += f"; uncertain: {unsure[0]}"
    confidence = _confidence(evidence, order[0], unsure)
    bounds = sorted(evidence.bounds, key=lambda bound: bound.kind != order[0])
    return Verdict(found.kind, severity, sentence, (*found.facts, measured), _THRESHOLD, found.advice,
                   confidence, (*dwarfs[0], *dwarfs[1], *besides), tuple(bounds))  # fmt: skip


def _undivided(loop: TrainingLoop, dwarfs: tuple[tuple[str, ...], tuple[str, ...]]) -> Verdict:
    """Steps in which nothing was recorded say how long they took, and no more."""
    sentence = (
        f"none: a step takes {_time(loop.step.median)}, and nothing was recorded inside of it"
    )
    fact = (
        f"over {loop.step.n} measured steps, without {count(loop.warmup.steps, 'step')} of warm-up"
    )
    return Verdict(
        "none", "info", sentence, (fact,), "", advice.UNDIVIDED, "", (*dwarfs[0], *dwarfs[1])
    )


def _waited_in_few(loop: TrainingLoop, shares: Shares) -> float:
    """The part of all steps' time in which a few wait for a device, where steps call what is compiled."""
    if "compiled" not in shares:
        return 0.0
    one = loop.exceptional
    if one is not None and one.mostly == SYNC:
        return one.part
    waits = [node.host for node in nodes(loop.tree, SYNC)]
    few = sum(each.median for each in waits) < FEW * sum(each.mean for each in waits)
    return shares.get(SYNC, 0.0) if few else 0.0


def _queued(
    loop: TrainingLoop, waited: float, dwarfs: tuple[tuple[str, ...], tuple[str, ...]]
) -> Verdict:
    """Steps that may only have handed work to a device, which a few of them wait for."""
    sentence = (
        f"none: few of the steps wait, for {_percent(waited)} of the time of all of them; where the others "
        "hand work to a device and do not wait for it, what one step takes is not known, but what all take"
    )
    node = heaviest(loop, SYNC)
    where = f", {node.what}" if node and node.what else ""
    facts = [f"the host waits at {line_of(node.place if node else None, 'an unknown line')}{where}"]
    facts.append(f"over {loop.step.n} measured steps")
    return Verdict("none", "info", sentence, tuple(facts), "", (), "", dwarfs[1])


def nothing_trained(others: Sequence[Node] = (), wall: float = 0.0) -> Verdict:
    """Where there are no steps: what the run, of ``wall`` seconds, spent most time in."""
    found = [node for node in others if node.share >= 0.01]
    if all(node.name in READING for node in found):
        return Verdict("none", "info", NOTHING_TRAINED, (), "", advice.UNNAMED)
    whole, *parts = FITTING
    if found[0].name in parts:
        found.sort(key=lambda node: node.name != whole)
    first, *rest = (_spent(node, wall) for node in found[:4])
    if found[0].name == whole and not any(node.name in parts for node in others):
        rest.append(UNSEEN)
    if found[0].name == "compiled":
        return Verdict("none", "info", first, (*rest, UNCOUNTED), "", advice.UNNAMED)
    return Verdict("none", "info", first, tuple(rest), "", ())


def _spent(node: Node, wall: float) -> str:
    """``8.1 s, 44 %: fit of RandomForestClassifier, lgb.py:10``."""
    what = node.name + (f" of {node.what}" if node.what else "")
    where = f", {line_of(node.place)}" if node.place else ""
    return f"{_time(node.share * wall)}, {_percent(node.share)}: {what}{where}"


def with_losses(verdict: Verdict, series: Sequence[ValueSeries]) -> Verdict:
    """The same, with what has to be known of losses that are not finite."""
    odd = [each for each in series if each.is_loss and each.odd]
    if not odd:
        return verdict
    worst = max(odd, key=lambda each: each.odd / each.n)
    last = number(worst.last)
    text = f"{worst.odd} of {worst.n} losses ({worst.name}) are not finite"
    if last is None or not isfinite(last):
        text += ", including the last one: the result of this training is useless"
    severity = "warning" if verdict.severity == "info" else verdict.severity
    return replace(
        verdict,
        severity=severity,
        sentence=f"{verdict.sentence}; but {text}",
        besides=(text, *verdict.besides),
    )


def qualified(verdict: Verdict, run: Run) -> Verdict:
    """``verdict`` as far as it holds for ``run``: of a record that is not whole, it is about what is left."""
    ended = run.info.get("exit") or {}
    if verdict.sentence == NOTHING_TRAINED and (
        ended.get("code") or ended.get("signal") is not None
    ):
        # It is to be mended before it can be measured: no advice.
        verdict = replace(verdict, sentence=FAILED_BEFORE, advice=())
    if not missing_of(run):
        return verdict
    if verdict.kind == "none":
        sentence = "what limits the run is not known: parts of its record are missing"
    else:
        sentence = f"{verdict.sentence}; parts of the record are missing, and the verdict is about the rest"
    return replace(verdict, sentence=sentence)


# --- how sure it is, and what is larger -----------------------------------------------------------


def _largest(evidence: Evidence, shares: Shares) -> str:
    saved = savings(evidence, shares)
    return max(saved, key=lambda name: saved[name])


def _confidence(evidence: Evidence, name: str, doubts: Sequence[str]) -> str:
    crowded = evidence.host.crowded
    if doubts:
        return "low: " + "; ".join([*doubts, *([crowded] if crowded else [])])
    same = sum(_largest(evidence, window) == name for window in evidence.windows)
    parts = f"the same in {same} of {len(evidence.windows)} parts of the run"
    return f"medium: {parts}, but {crowded}" if crowded else f"high: {parts}"


def _doubts(evidence: Evidence, saved: Shares, order: Sequence[str]) -> list[str]:
    """Why the verdict is not sure."""
    doubts = []
    measured = evidence.loop.step.n // max(1, len(evidence.loop.ranks))
    if measured < ENOUGH:
        doubts.append(f"only {measured} {'step was' if measured == 1 else 'steps were'} measured")
    names = [_largest(evidence, window) for window in evidence.windows]
    same = names.count(order[0])
    if same < AGREE * len(names):
        other = max({*names} - {order[0]}, key=names.count)
        rest = f"{_kind(other)} in {names.count(other)}"
        doubts.append(f"the same in only {same} of {len(names)} parts of the run, {rest}")
    elif order[0] != "compute" and len(order) > 1 and saved[order[1]] >= NEAR * saved[order[0]]:
        doubts.append(f"{_kind(order[1])} is nearly as large")
    if order[0] == "launch" and evidence.device and evidence.device.load is None:
        doubts.append(UNSAMPLED)
    return doubts


def _steps_apart(evidence: Evidence) -> list[str]:
    """Single steps that took a large part of the run: a compilation, a pause."""
    loop, wall = evidence.loop, evidence.wall
    found = []
    likely = ", most likely compiling" if advice.is_compiled(loop) else ""
    warmup = loop.warmup
    if wall and warmup.slowest > max(10 * loop.step.median, DWARFS * wall):
        part = _percent(warmup.slowest / wall)
        found.append(f"one warm-up step takes {_time(warmup.slowest)}, {part} of the run{likely}")
    if loop.exceptional:
        one = loop.exceptional
        which = "1 step takes" if one.steps == 1 else f"{one.steps} steps take"
        reason = likely if one.mostly in COMPUTING and one.mostly != SYNC else ""
        found.append(f"{which} {_time(one.seconds)}, {_percent(one.part)} of the loop's time, "
                     f"mostly {one.mostly}{reason}; all shares exclude it")  # fmt: skip
    return found


def _segments(evidence: Evidence) -> list[str]:
    """What takes longer than the steps do: regions outside of steps, or whatever it is."""
    sums: dict[str, float] = {}
    for each in evidence.segments:
        sums[each.name] = sums.get(each.name, 0.0) + each.seconds
    name = INFERENCE if INFERENCE in sums else "training"
    steps, wall = sums.pop(name, 0.0), evidence.wall
    for other in ("warm-up", "other attempts", "other processes"):
        sums.pop(other, None)
    # What has the loop's own line is the call that the loop is in: what it waits for is named by itself.
    around = evidence.loop.place
    # Threads of a pool take more than all the time there is, and the steps go on beside them.
    outside = [
        n
        for n in evidence.others
        if n.name not in READING and n.place != around and n.what != OTHER_THREAD and n.share <= 1
    ][:1]
    if outside and wall and outside[0].share > max(steps / wall, DWARFS):
        return [
            f"outside of steps {_spent(outside[0], wall)}; {name} takes {_percent(steps / wall)}"
        ]
    return [
        f"{_taking(evidence, other)} {_time(seconds)}, {_percent(seconds / wall)} of the run; "
        f"{name} takes {_percent(steps / wall)}"
        for other, seconds in sums.items()
        if wall and seconds > max(steps, DWARFS * wall)
    ]


def _taking(evidence: Evidence, name: str) -> str:
    """A kind of segments with its verb; of gaps which, if it is one."""
    if name != "gap":
        return f"{name} takes"
    notes = {each.note for each in evidence.segments if each.name == name}
    return f"the gap {notes.pop()} takes" if len(notes) == 1 else "gaps between steps take"


# --- words ----------------------------------------------------------------------------------------


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def _time(seconds: float) -> str:
    if seconds >= 1:
        return f"{seconds:.0f} s" if seconds >= 100 else f"{seconds:.1f} s"
    if seconds * 1e3 >= 1:
        return f"{seconds * 1e3:.3g} ms"
    return f"{seconds * 1e6:.3g} µs"
