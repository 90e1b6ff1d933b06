"""The verdict: what limits a program, how certain that is, what it rests on, and what to try.

Of each region, :func:`savings` says which fraction of a step could be saved at most, and the largest one is
the verdict: all of what waits, a third of what computes. For example::

    io 40 %, forward 30 %, backward 20 %, optimizer 10 %

    savings: io 40 %, compute 60 % / 3 = 20 %     =>  input-bound, critical

With a device clock, what the host does counts only while the device has nothing queued. The verdict is
uncertain if few steps were measured, if parts of the run disagree, or if a second saving is nearly as large.
"""

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
"""Fractions of a step from which on a saving is a warning, or critical; TraceML's."""
COMPUTE = 1 / 3
"""The fraction of computing that lower precision, a compiled model or larger batches may save. Of all else,
the whole may be saved."""
FULL = 0.90
"""If a device has work queued for this fraction of a step, what the host does is no matter."""
NEAR = 0.8
"""A saving of at least this fraction of the largest one may be as large."""
ENOUGH = 2 * IN_WINDOW
"""Fewer measured steps make a verdict uncertain."""
AGREE = 0.75
"""The fraction of the windows that have to agree."""
QUEUED, FEW = 0.5, 0.1
"""Few steps wait for the device if the median wait is less than ``FEW`` of the mean. If these waits take more
than ``QUEUED`` of all time, the other steps only hand over work, and their lengths say nothing."""
DWARFS = 0.2
"""Anything beside training is mentioned if it takes longer than training, and this part of the run."""
FITTING = ("fit", "grow", "candidate")
"""A region, and those that lie in it, be it in other threads."""
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


def _kind(name: str) -> str:
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
    text = (
        f"{named.text}; the device has nothing queued in {_percent(named.share * idle)} of the step"
    )
    return named._replace(share=named.share * idle, text=text)


def _region_bound(evidence: Evidence, shares: Shares, name: str) -> Bottleneck:
    """A region of the host, or copies by the device."""
    loop, share = evidence.loop, shares.get(name, 0.0)
    facts = [f"{name} takes {_percent(share)} of a step, whose median is {_time(loop.step.median)}"]
    if name == "other":
        return _overhead_bound(evidence, share, facts)
    node = heaviest(loop, *(READING if name == "io" else (name,)))
    where = line_of(node.place if node else None, "an unknown line")
    if node is not None and node.place is not None:
        facts.append(f"{node.name} at {where}: median {_time(node.host.median)}, "
                     f"95th percentile {_time(node.host.p95)} a step")  # fmt: skip
    verb = _KINDS.get(name, ("", f"is {name}"))[1]
    tips = advice.OF_REGIONS.get(name, ())
    if name == "io":
        tips = advice.reading(loop, evidence.host)
    elif name == TRANSFER:
        tips = advice.moving(loop)
        copying = evidence.device.copying if evidence.device else 0.0
        if copying > share:  # the copy was queued, and the host went on
            verb, share = "is spent in copies to the device, which it was handed", copying
            facts.append(f"the device copies for {_percent(copying)} of a step")
    elif name == "wait" and node is not None and node.what:
        verb += f" in {node.what}"
        if node.what.rpartition(".")[2] == "sleep":  # nothing that it waits for could come earlier
            text = f"{_percent(share)} of a step is spent in sleep at {where}"
            return Bottleneck("overhead-bound", share, text, tuple(facts), advice.BESIDE)
    text = f"{_percent(share)} of a step {verb} at {where}"
    return Bottleneck(_kind(name), share, text, tuple(facts), tips)


def _overhead_bound(evidence: Evidence, share: float, facts: list[str]) -> Bottleneck:
    text, between = f"{_percent(share)} of a step is in no region", evidence.between
    if between:
        facts.append(f"{_percent(between.share)} of that passes {between.text}")
        if between.is_most:
            text += f", mostly {between.text}"
    tips: tuple[str, ...] = advice.BESIDE
    if between and between.batch:
        tips = advice.making_batches(between.batch, evidence.loop.place, evidence.command)
    return Bottleneck("overhead-bound", share, text, tuple(facts), tips)


def _computing_regions(loop: TrainingLoop) -> str:
    if loop.task != INFERENCE:
        return "forward, backward and optimizer"
    derives = any(node.name == "backward" for node in loop.tree.children)
    return "forward and backward" if derives else "forward"


def _compute_bound(evidence: Evidence, shares: Shares) -> Bottleneck:
    """Computing: the regions that compute, or the device's own time where that says more."""
    parts = [name for name in COMPUTING if name in shares]
    share = sum(shares[name] for name in parts)
    largest = max(parts, key=lambda name: shares[name], default="forward")
    what = _computing_regions(evidence.loop)
    if largest in BOOSTING:
        what = f"{largest}: the inside of compiled code is not recorded"
        share = shares[largest]
    elif largest in UNSEEN_CALLS:
        node = heaviest(evidence.loop, largest)
        where = line_of(node.place if node else None, "an unknown line")
        what = f"{largest} at {where}: its inside is not recorded"
        share = shares[largest]
    elif largest == "compiled":
        what = "compiled functions, forward, backward and optimizer"
    elif largest == SYNC:
        node = heaviest(evidence.loop, SYNC)
        where = line_of(node.place if node else None, "an unknown line")
        what = f"computing: the host waits for the device at {where}"
    text = f"{_percent(share)} of a step is {what}"
    parts_text = ", ".join(f"{n} {_percent(shares[n])}" for n in parts if shares[n] >= 0.005)
    facts = [f"{parts_text} of a step, whose median is {_time(evidence.loop.step.median)}"]
    if largest == "compiled" and evidence.device is None and SYNC not in shares:
        facts.append(HANDED_OVER)
    if evidence.device is not None:
        queued = evidence.device.queued(shares)
        facts += _device_facts(evidence.device, shares)
        # The host hands work over and goes on: the device's time says more than the host's.
        if queued >= FULL and share < queued:
            text = facts[-1]
    tips = advice.computing(evidence.loop, largest)
    return Bottleneck("compute-bound", share, text, tuple(facts), tips)


def _launch_bound(evidence: Evidence, shares: Shares) -> Bottleneck:
    """A device that does nothing while the host launches its work."""
    assert evidence.device is not None
    computed = sum(shares.get(name, 0.0) for name in COMPUTING if name != SYNC)
    idle = _launching(evidence.device, shares)[0]
    text = (
        f"the device does nothing in {_percent(idle)} of a step, while the host launches its work"
    )
    facts = (
        f"host in {_computing_regions(evidence.loop)} {_percent(computed)} of a step, whose median is "
        f"{_time(evidence.loop.step.median)}",
        *_device_facts(evidence.device, shares),
    )
    return Bottleneck("launch-bound", idle, text, facts, advice.launching(evidence.loop))


def _device_facts(device: DeviceWork, shares: Shares) -> list[str]:
    """What is known of the devices in a step, as sentences."""
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
    if meanwhile.get(most, 0.0) >= WARNING:  # what the host does meanwhile is hidden
        where = "no region" if most == "other" else most
        facts.insert(
            0,
            f"the host is in {where} for {_percent(meanwhile[most])} of a step while the device works",
        )
    return facts


def _straggler(evidence: Evidence) -> Bottleneck:
    """The rank that the others wait for."""
    loop, straggler = evidence.loop, evidence.loop.straggler
    assert straggler is not None
    slow = f", slow in {straggler.slow_at}" if straggler.slow_at else ""
    text = f"the other ranks wait for rank {straggler.rank} for {_percent(straggler.score)} of a step{slow}"
    facts = [
        f"rank {each.rank} waits {_time(each.waits)} of a step of {_time(each.step.median)}"
        for each in loop.ranks
    ][:8]
    if straggler.slow_at:
        longer = f"{_time(straggler.excess)} longer than the others"
        facts.append(f"rank {straggler.rank} takes {longer} in {straggler.slow_at}")
    culprit = next((ranked for ranked in loop.ranks if ranked.rank == straggler.rank), None)
    at = f" ({culprit.host}{', ' + culprit.device if culprit.device else ''})" if culprit else ""
    tips = (
        f"look at rank {straggler.rank}{at}: its share of the data, its device's clocks and "
        "temperature, other programs on its host",
    )
    return Bottleneck("straggler", straggler.score, text, tuple(facts), tips)


# --- the verdict ----------------------------------------------------------------------------------


def verdict_of(evidence: Evidence) -> Verdict:
    """The verdict on a loop: the largest saving, how certain it is, and what takes longer than steps do."""
    loop = evidence.loop
    single_steps, outside = tuple(_steps_apart(evidence)), tuple(_segments(evidence))
    if not loop.tree.children:
        return _undivided(loop, (*single_steps, *outside))
    shares = loop.tree.shares()
    waiting = _waited_in_few(loop, shares)
    if waiting > QUEUED:
        return _queued(loop, waiting, outside)
    saved = savings(evidence, shares)
    order = sorted(saved, key=lambda name: -saved[name])
    doubts = _doubts(evidence, saved, order)
    main, severity = _largest_saving(evidence, shares, saved, order, certain=not doubts)
    others = [
        bottleneck(evidence, shares, name)
        for name in order[1:]
        if name != "compute" and saved[name] >= WARNING
    ]
    besides = [f"also {other.kind}: {other.text}" for other in others]
    if evidence.growth is not None:
        growth = _growth(*evidence.growth, main.facts)
        if order[0] == "compute":  # nothing waits: memory that grows is worth more than that
            besides.insert(0, f"{main.kind}: {main.text}")
            main, severity = growth, "warning"
        else:
            besides.append(f"also {growth.kind}: {growth.text}")
    sentence = f"{main.kind}: {main.text}"
    if single_steps:
        sentence += f"; but {single_steps[0]}"
    if doubts:
        sentence += f"; uncertain: {doubts[0]}"
    return Verdict(
        main.kind,
        severity,
        sentence,
        (*main.facts, _measured_steps(loop)),
        _THRESHOLD,
        main.advice,
        _confidence(evidence, order[0], doubts),
        (*single_steps, *outside, *besides),
        tuple(sorted(evidence.bounds, key=lambda bound: bound.kind != order[0])),
    )


def _largest_saving(
    evidence: Evidence, shares: Shares, saved: Shares, order: Sequence[str], certain: bool
) -> tuple[Bottleneck, str]:
    """What the first of ``order`` is called, and how severe it is."""
    main = bottleneck(evidence, shares, order[0])
    if order[0] != "compute":
        return main, "critical" if main.share >= CRITICAL and certain else "warning"
    if len(order) > 1 and saved[order[1]] >= NEAR * saved[order[0]]:
        top_regions = sorted(shares, key=lambda name: -shares[name])[:3]
        text = ", ".join(f"{name} {_percent(shares[name])}" for name in top_regions)
        main = main._replace(kind="balanced", text=f"nothing stands out ({text})", advice=())
    return main, "info"


def _growth(process: int, grown: float, facts: tuple[str, ...]) -> Bottleneck:
    text = f"the memory of process {process} grew by {grown / GROWTH:.1f} GiB during training"
    facts = ("its memory rose from each third of the steps to the next", *facts)
    return Bottleneck("memory-growth", 0.0, text, facts, advice.KEPT)


def _measured_steps(loop: TrainingLoop) -> str:
    return (
        f"over {loop.step.n} measured steps, without {count(loop.warmup.steps, 'step')} of warm-up"
    )


def _undivided(loop: TrainingLoop, besides: tuple[str, ...]) -> Verdict:
    """The verdict on steps in which nothing was recorded: only how long they took is known."""
    sentence = (
        f"none: a step takes {_time(loop.step.median)}, and nothing was recorded inside of it"
    )
    return Verdict(
        "none", "info", sentence, (_measured_steps(loop),), "", advice.UNDIVIDED, "", besides
    )


def _waited_in_few(loop: TrainingLoop, shares: Shares) -> float:
    """The fraction of all steps' time in which a few of them wait for a device; 0 if nothing is compiled.

    Calls of compiled code return before the device is done. The host then waits only where it needs a value,
    such as the loss that is printed every hundred steps.
    """
    if "compiled" not in shares:
        return 0.0
    exceptional = loop.exceptional
    if exceptional is not None and exceptional.mostly == SYNC:
        return exceptional.part
    waits = [node.host for node in nodes(loop.tree, SYNC)]
    is_few = sum(wait.median for wait in waits) < FEW * sum(wait.mean for wait in waits)
    return shares.get(SYNC, 0.0) if is_few else 0.0


def _queued(loop: TrainingLoop, waited: float, besides: tuple[str, ...]) -> Verdict:
    """The verdict on steps that may only have handed work to a device, for which a few of them wait."""
    sentence = (
        f"none: few of the steps wait, for {_percent(waited)} of the time of all of them; where the others "
        "hand work to a device and do not wait for it, what one step takes is not known, but what all take"
    )
    node = heaviest(loop, SYNC)
    where = f", {node.what}" if node and node.what else ""
    facts = [f"the host waits at {line_of(node.place if node else None, 'an unknown line')}{where}"]
    facts.append(f"over {loop.step.n} measured steps")
    return Verdict("none", "info", sentence, tuple(facts), "", (), "", besides)


def nothing_trained(others: Sequence[Node] = (), wall: float = 0.0) -> Verdict:
    """The verdict on a run without steps: in what most of its ``wall`` seconds passed."""
    longest = [node for node in others if node.share >= 0.01]
    if all(node.name in READING for node in longest):
        return Verdict("none", "info", NOTHING_TRAINED, (), "", advice.UNNAMED)
    outer, *inner = FITTING
    if longest[0].name in inner:
        # A thread pool's inner regions may add up to more than the fit that they lie in.
        longest.sort(key=lambda node: node.name != outer)
    sentence, *facts = (_spent(node, wall) for node in longest[:4])
    if longest[0].name == outer and not any(node.name in inner for node in others):
        facts.append(UNSEEN)
    if longest[0].name == "compiled":
        return Verdict("none", "info", sentence, (*facts, UNCOUNTED), "", advice.UNNAMED)
    return Verdict("none", "info", sentence, tuple(facts), "", ())


def _spent(node: Node, wall: float) -> str:
    """``8.1 s, 44 %: fit of RandomForestClassifier, lgb.py:10``."""
    what = node.name + (f" of {node.what}" if node.what else "")
    where = f", {line_of(node.place)}" if node.place else ""
    return f"{_time(node.share * wall)}, {_percent(node.share)}: {what}{where}"


def with_losses(verdict: Verdict, series: Sequence[ValueSeries]) -> Verdict:
    """``verdict`` with a warning if losses were not finite."""
    not_finite = [each for each in series if each.is_loss and each.odd]
    if not not_finite:
        return verdict
    worst = max(not_finite, key=lambda each: each.odd / each.n)
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
    """``verdict`` with what is missing of the record, and without advice for a program that failed."""
    exit_status = run.info.get("exit") or {}
    if verdict.sentence == NOTHING_TRAINED and (
        exit_status.get("code") or exit_status.get("signal") is not None
    ):
        # The program has to work before it can be measured, so that there is no advice.
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
    """How certain the verdict is, with the reasons, as the report has it."""
    crowded = evidence.host.crowded
    if doubts:
        return "low: " + "; ".join([*doubts, *([crowded] if crowded else [])])
    agreeing = sum(_largest(evidence, window) == name for window in evidence.windows)
    parts = f"the same in {agreeing} of {len(evidence.windows)} parts of the run"
    return f"medium: {parts}, but {crowded}" if crowded else f"high: {parts}"


def _doubts(evidence: Evidence, saved: Shares, order: Sequence[str]) -> list[str]:
    """The reasons why the verdict is uncertain."""
    doubts = []
    measured = evidence.loop.step.n // max(1, len(evidence.loop.ranks))
    if measured < ENOUGH:
        doubts.append(f"only {measured} {'step was' if measured == 1 else 'steps were'} measured")
    names = [_largest(evidence, window) for window in evidence.windows]
    agreeing = names.count(order[0])
    if agreeing < AGREE * len(names):
        rival = max({*names} - {order[0]}, key=names.count)
        rest = f"{_kind(rival)} in {names.count(rival)}"
        doubts.append(f"the same in only {agreeing} of {len(names)} parts of the run, {rest}")
    elif order[0] != "compute" and len(order) > 1 and saved[order[1]] >= NEAR * saved[order[0]]:
        doubts.append(f"{_kind(order[1])} is nearly as large")
    if order[0] == "launch" and evidence.device and evidence.device.load is None:
        doubts.append(UNSAMPLED)
    return doubts


def _steps_apart(evidence: Evidence) -> list[str]:
    """Single steps that took a large part of the run: a compilation, a pause."""
    loop, wall = evidence.loop, evidence.wall
    sentences = []
    compiling = ", most likely compiling" if advice.is_compiled(loop) else ""
    warmup = loop.warmup
    if wall and warmup.slowest > max(10 * loop.step.median, DWARFS * wall):
        share = _percent(warmup.slowest / wall)
        sentences.append(
            f"one warm-up step takes {_time(warmup.slowest)}, {share} of the run{compiling}"
        )
    if loop.exceptional:
        exceptional = loop.exceptional
        subject = "1 step takes" if exceptional.steps == 1 else f"{exceptional.steps} steps take"
        reason = compiling if exceptional.mostly in COMPUTING and exceptional.mostly != SYNC else ""
        sentences.append(
            f"{subject} {_time(exceptional.seconds)}, {_percent(exceptional.part)} of the loop's "
            f"time, mostly {exceptional.mostly}{reason}; all shares exclude it"
        )
    return sentences


def _segments(evidence: Evidence) -> list[str]:
    """What takes longer than the steps: a region outside of them, else a kind of time segment."""
    sums: dict[str, float] = {}
    for segment in evidence.segments:
        sums[segment.name] = sums.get(segment.name, 0.0) + segment.seconds
    steps_name = INFERENCE if INFERENCE in sums else "training"
    steps, wall = sums.pop(steps_name, 0.0), evidence.wall
    for segment_name in ("warm-up", "other attempts", "other processes"):
        sums.pop(segment_name, None)
    # A region at the loop's own line is the call that holds the loop: it is not beside the steps.
    around = evidence.loop.place
    # Threads of a pool add up to more than the run, and the steps go on beside them.
    outside = [
        n
        for n in evidence.others
        if n.name not in READING and n.place != around and n.what != OTHER_THREAD and n.share <= 1
    ][:1]
    if outside and wall and outside[0].share > max(steps / wall, DWARFS):
        return [
            f"outside of steps {_spent(outside[0], wall)}; {steps_name} takes {_percent(steps / wall)}"
        ]
    return [
        f"{_segments_take(evidence, segment_name)} {_time(seconds)}, {_percent(seconds / wall)} of the run; "
        f"{steps_name} takes {_percent(steps / wall)}"
        for segment_name, seconds in sums.items()
        if wall and seconds > max(steps, DWARFS * wall)
    ]


def _segments_take(evidence: Evidence, name: str) -> str:
    """A kind of time segment with its verb; a single kind of gap is named."""
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
