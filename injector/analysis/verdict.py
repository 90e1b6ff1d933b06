"""The verdict: what limits a program, how certain that is, what it rests on, and what to try.

Of each region, :func:`.bottlenecks.savings` says which fraction of a step could be saved at most, and the
largest one is the verdict: all of what waits, a third of what computes. For example::

    io 40 %, forward 30 %, backward 20 %, optimizer 10 %

    savings: io 40 %, compute 60 % / 3 = 20 %     =>  input-bound, critical

With a device clock, what the host does counts only while the device has nothing queued. The verdict is
uncertain if few steps were measured, if parts of the run disagree, or if a second saving is nearly as large.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite

from ..exit_status import code_of
from ..store.call_sites import INFERENCE
from ..store.folder import Run
from ..value_class import replace
from . import advice
from .advice import heaviest, nodes
from .bottlenecks import CRITICAL, WARNING, Bottleneck, bottleneck, kind_of, savings
from .evidence import GROWTH, IN_WINDOW, Evidence, Shares
from .profile import Verdict
from .recorded import ValueSeries
from .runs import missing_of
from .statistics import number
from .training_loop import COMPUTING, OTHER_THREAD, READING, SYNC, Node, TrainingLoop
from .wording import count, line_of, rough, whole_percent

NEAR = 0.8
"""A saving of at least this fraction of the largest one may be as large."""
ENOUGH = 2 * IN_WINDOW
"""Fewer measured steps make a verdict uncertain."""
PROFILED = 0.1
"""The fraction of the measured steps from which on those under torch.profiler may decide the verdict."""
AGREE = 0.75
"""The fraction of the windows that have to agree."""
QUEUED, FEW = 0.5, 0.1
"""Few steps wait for the device if the median wait is less than ``FEW`` of the mean. If these waits take more
than ``QUEUED`` of all time, the other steps only hand over work, and their lengths say nothing."""
DWARFS = 0.2
"""Anything beside training is mentioned if it takes longer than training, and this part of the run."""
NEVER_BESIDE = ("warm-up", "other attempts", "other processes")
"""Time segments that are no matter beside the steps."""
FITTING = ("fit", "grow", "candidate")
"""A region, and those that lie in it, be it in other threads."""
UNSEEN = (
    "nothing was recorded inside that fit: the inside of one call of compiled code is not recorded"
)
UNCOUNTED = "steps inside of a compiled function are not recorded: whether it trains is not known"
NOTHING_TRAINED = "no training steps were recorded: injector recognised no training in this program"
FAILED_BEFORE = "no training steps were recorded before the program failed"
UNSAMPLED = "the load of the device was sampled too seldom to tell launching from waiting for it"
_THRESHOLD = (
    "the verdict names the largest possible saving: all of a region, or a third of computing; "
    "warning from 10 % of a step, critical from 20 %"
)


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
    main, severity, besides = _limits(evidence, shares, saved, order, certain=not doubts)
    sentence = f"{main.kind}: {main.text}"
    if single_steps:
        sentence += f"; but {single_steps[0]}"
    if main.kind == "none":
        facts = (*main.facts, _measured_steps(loop))
        return _none(sentence, facts, main.advice, (*single_steps, *outside, *besides))
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


def _limits(
    evidence: Evidence, shares: Shares, saved: Shares, order: Sequence[str], certain: bool
) -> tuple[Bottleneck, str, list[str]]:
    """What limits the loop, how severe that is, and sentences on what could be saved besides."""
    main, severity = _largest_saving(evidence, shares, saved, order, certain)
    others = [
        bottleneck(evidence, shares, name)
        for name in order[1:]
        if name != "compute" and saved[name] >= WARNING
    ]
    besides = [f"also {other.kind}: {other.text}" for other in others if other.kind != "none"]
    if evidence.growth is None:
        return main, severity, besides
    growth = _growth(*evidence.growth, main.facts)
    if order[0] == "compute":  # nothing waits: memory that grows is worth more than that
        return growth, "warning", [f"{main.kind}: {main.text}", *besides]
    return main, severity, [*besides, f"also {growth.kind}: {growth.text}"]


def _largest_saving(
    evidence: Evidence, shares: Shares, saved: Shares, order: Sequence[str], certain: bool
) -> tuple[Bottleneck, str]:
    """What the first of ``order`` is called, and how severe it is."""
    main = bottleneck(evidence, shares, order[0])
    if order[0] != "compute":
        return main, "critical" if main.share >= CRITICAL and certain else "warning"
    if len(order) > 1 and saved[order[1]] >= NEAR * saved[order[0]]:
        top_regions = sorted(shares, key=lambda name: -shares[name])[:3]
        text = ", ".join(f"{name} {whole_percent(shares[name])}" for name in top_regions)
        main = main._replace(kind="balanced", text=f"nothing stands out ({text})", advice=())
    return main, "info"


def _growth(process: int, grown: float, facts: tuple[str, ...]) -> Bottleneck:
    text = f"the memory of process {process} grew by {grown / GROWTH:.1f} GiB during training"
    facts = ("its memory rose from each third of the steps to the next", *facts)
    return Bottleneck("memory-growth", 0.0, text, facts, advice.KEPT)


def _measured_steps(loop: TrainingLoop) -> str:
    warmup = count(loop.warmup.steps, "step")
    without = f", without {warmup} of warm-up" if loop.warmup.steps else ""
    return f"over {loop.step.n} measured steps{without}"


def _none(
    sentence: str,
    facts: tuple[str, ...] = (),
    advice: tuple[str, ...] = (),
    besides: tuple[str, ...] = (),
) -> Verdict:
    """The verdict that nothing is known to limit the program."""
    return Verdict("none", "info", sentence, facts, "", advice, besides=besides)


def _undivided(loop: TrainingLoop, besides: tuple[str, ...]) -> Verdict:
    """The verdict on steps in which nothing was recorded: only how long they took is known."""
    median = rough(loop.step.median)
    sentence = f"none: a step takes {median}, and nothing was recorded inside of it"
    return _none(sentence, (_measured_steps(loop),), advice.UNDIVIDED, besides)


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
        f"none: few of the steps wait, for {whole_percent(waited)} of the time of all of them; where the "
        "others hand work to a device and do not wait for it, what one step takes is not known, but what all "
        "take"
    )
    node = heaviest(loop, SYNC)
    where = f", {node.what}" if node and node.what else ""
    waits = f"the host waits at {line_of(node.place if node else None, 'an unknown line')}{where}"
    return _none(sentence, (waits, f"over {loop.step.n} measured steps"), besides=besides)


def nothing_trained(others: Sequence[Node], wall: float) -> Verdict:
    """The verdict on a run without steps: in what most of its ``wall`` seconds passed."""
    longest = [node for node in others if node.share >= 0.01]
    if all(node.name in (*READING, "forward") for node in longest):
        return _none(NOTHING_TRAINED, advice=advice.UNNAMED)
    outer, *inner = FITTING
    if longest[0].name in inner:
        # A thread pool's inner regions may add up to more than the fit that they lie in.
        longest.sort(key=lambda node: node.name != outer)
    sentence, *facts = (_spent(node, wall) for node in longest[:4])
    if longest[0].name == outer and not any(node.name in inner for node in others):
        facts.append(UNSEEN)
    if any(node.name == "compiled" for node in longest[:4]):
        return _none(sentence, (*facts, UNCOUNTED), advice.UNNAMED)
    return _none(sentence, tuple(facts))


def _spent(node: Node, wall: float) -> str:
    """``8.1 s, 44 %: fit of RandomForestClassifier, lgb.py:10``."""
    what = node.name + (f" of {node.what}" if node.what else "")
    where = f", {line_of(node.place)}" if node.place else ""
    return f"{rough(node.share * wall)}, {whole_percent(node.share)}: {what}{where}"


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
    if verdict.sentence == NOTHING_TRAINED and code_of(run.info.get("exit")):
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
    if evidence.profiled >= PROFILED * measured and evidence.profiled:
        were = "step was" if evidence.profiled == 1 else "steps were"
        doubts.append(
            f"{evidence.profiled} {were} recorded with torch.profiler, and took longer for it"
        )
    if measured < ENOUGH:
        doubts.append(f"only {measured} {'step was' if measured == 1 else 'steps were'} measured")
    names = [_largest(evidence, window) for window in evidence.windows]
    agreeing = names.count(order[0])
    if agreeing < AGREE * len(names):
        rival = max({*names} - {order[0]}, key=names.count)
        rest = f"{kind_of(rival)} in {names.count(rival)}"
        doubts.append(f"the same in only {agreeing} of {len(names)} parts of the run, {rest}")
    elif order[0] != "compute" and len(order) > 1 and saved[order[1]] >= NEAR * saved[order[0]]:
        doubts.append(f"{kind_of(order[1])} is nearly as large")
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
        share = whole_percent(warmup.slowest / wall)
        sentences.append(
            f"one warm-up step takes {rough(warmup.slowest)}, {share} of the run{compiling}"
        )
    if loop.exceptional:
        exceptional = loop.exceptional
        subject = "1 step takes" if exceptional.steps == 1 else f"{exceptional.steps} steps take"
        reason = compiling if exceptional.mostly in COMPUTING and exceptional.mostly != SYNC else ""
        sentences.append(
            f"{subject} {rough(exceptional.seconds)}, {whole_percent(exceptional.part)} of the loop's "
            f"time, mostly {exceptional.mostly}{reason}; all shares exclude it"
        )
    return sentences


def _segments(evidence: Evidence) -> list[str]:
    """What takes longer than the steps: a region outside of them, else a kind of time segment."""
    sums: dict[str, float] = {}
    for segment in evidence.segments:
        sums[segment.name] = sums.get(segment.name, 0.0) + segment.seconds
    wall = evidence.wall
    if not wall:
        return []
    steps_name = INFERENCE if INFERENCE in sums else "training"
    steps = sums.pop(steps_name, 0.0)
    steps_take = f"{steps_name} takes {whole_percent(steps / wall)}"
    # A region at the loop's own line is the call that holds the loop: it is not beside the steps.
    around = evidence.loop.place
    # Threads of a pool add up to more than the run, and the steps go on beside them.
    outside = [
        n
        for n in evidence.others
        if n.name not in READING and n.place != around and n.what != OTHER_THREAD and n.share <= 1
    ][:1]
    if outside and outside[0].share > max(steps / wall, DWARFS):
        return [f"outside of steps {_spent(outside[0], wall)}; {steps_take}"]
    return [
        f"{_segments_take(evidence, name)} {rough(seconds)}, {whole_percent(seconds / wall)} of the run; "
        f"{steps_take}"
        for name, seconds in sums.items()
        if name not in NEVER_BESIDE and seconds > max(steps, DWARFS * wall)
    ]


def _segments_take(evidence: Evidence, name: str) -> str:
    """A kind of time segment with its verb; a single kind of gap is named."""
    if name != "gap":
        return f"{name} takes"
    notes = {each.note for each in evidence.segments if each.name == name}
    return f"the gap {notes.pop()} takes" if len(notes) == 1 else "gaps between steps take"
