"""Floating-point operations of a step, per second, and as a fraction of what devices can do (``--flops``).

PyTorch's counter slows a program down a lot, so operations are not counted in the measured run. A brief
second run counts those of one step, which :func:`counted` puts into ``run.json``. :func:`flops_of` combines
them with the steps per second of the measured run: 6 TFLOP in a step and 10 steps a second are 60 TFLOP/s,
which is an MFU of 0.2 on a device of 300 TFLOP/s.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from ..plain_json import loads
from ..store.folder import Run
from ..value_class import value_class
from .profile import Profile
from .statistics import number

TYPE_CHECKING = False  # importing typing would cost 5 ms
if TYPE_CHECKING:
    from typing import Any

    from .training_loop import LoopRank, TrainingLoop

LOWER_BOUND = (
    "counted in one step of a second run by PyTorch's counter, which takes operations without a formula "
    "(custom kernels, all that is no product, convolution or attention) for 0: a lower bound"
)
COMPILED = "the program compiles graphs, whose own kernels are not counted: it may be far too low"
NO_PEAK = "what a device does at best is not known; --peak-flops names it"
HOST = "cpu"
"""The device that all ranks of a host share; of any other kind, each rank has one of its own."""


@value_class
class RankFlops:
    """The operations of one rank."""

    rank: int | None
    step: int
    """FLOPs of a step; a multiplication with an addition counts as two."""
    rate: float | None
    """FLOP/s: those of a step times its measured steps per second."""


@value_class
class Flops:
    """The operations of one training loop."""

    ranks: tuple[RankFlops, ...] = ()
    step: int | None = None
    """FLOPs of a step, summed over ranks."""
    rate: float | None = None
    """FLOP/s, summed over ranks."""
    peak: float | None = None
    """FLOP/s that one device reaches at best."""
    peak_from: str = ""
    """Where ``peak`` comes from: ``--peak-flops``, or a measurement of matrix products."""
    devices: int = 1
    mfu: float | None = None
    """``rate`` divided by the peak of all devices, 0…1.

    As in Chowdhery et al., "PaLM", 2022, but with counted FLOPs.
    """
    notes: tuple[str, ...] = ()
    """Sentences that say what the figures are, or why there are none."""


def flops_of(info: Mapping[str, Any], profile: Profile | None) -> Flops | None:
    """The operations of the loop that ``run.json`` has counts of; None for a run without ``--flops``."""
    counts = info.get("flops")
    if counts is None:
        return None
    if "why" in counts:
        return Flops(notes=(f"no FLOPs: {counts['why']}",))
    loop = _measured_loop(counts, profile)
    ranks = tuple(
        RankFlops(of_rank.get("rank"), int(of_rank["flops"]), _rate(of_rank, loop))
        for of_rank in counts["ranks"]
    )
    rates = [rank.rate for rank in ranks if rank.rate is not None]
    # The sum is only known if the pace of each rank is.
    rate = sum(rates) if rates and len(rates) == len(ranks) else None
    peak = number(counts.get("peak"))
    notes = [LOWER_BOUND, *([COMPILED] if counts.get("compiled") else [])]
    if rate is None:
        notes.append(
            "no FLOP/s: the counted step is of no loop that the measured run went through alike"
        )
    elif not peak:
        notes.append(f"no MFU: {counts.get('no_peak') or NO_PEAK}")
    devices = 1 if counts.get("device") == HOST else len(ranks)
    return Flops(
        ranks=ranks,
        step=sum(rank.step for rank in ranks),
        rate=rate,
        peak=peak,
        peak_from=str(counts.get("peak_from") or "--peak-flops") if peak else "",
        devices=devices,
        mfu=rate / (peak * devices) if rate is not None and peak else None,
        notes=tuple(notes),
    )


def counted(run: Run, tag: str, failure: str) -> dict[str, Any]:
    """The entry ``flops`` for run.json: what the brief second ``run`` counted, in which loop; or ``why`` not.

    Each rank of that run left its counts as a tag, whose key begins with ``tag``. ``failure`` is how the run
    ended, or empty if it ended in order.
    """
    tags: Mapping[str, str] = run.info.get("tags") or {}
    of_ranks = [loads(text) for key, text in tags.items() if key.split()[0] == tag]
    failures = [counts["why"] for counts in of_ranks if "why" in counts]
    if failures:
        return {"why": f"PyTorch's counter failed: {failures[0]}"}
    if not of_ranks:
        return {"why": failure or "its second run had too few steps of PyTorch"}
    from .profiling import profile  # imports numpy, which no run without spans needs

    profile_ = profile(run)
    loop = profile_.loops[0] if profile_ is not None and len(profile_.loops) == 1 else None
    precisions: Counter[str] = Counter()
    for counts in of_ranks:
        precisions.update(counts["precisions"])
    return {
        "ranks": [
            {key: counts[key] for key in ("rank", "flops")}
            for counts in sorted(of_ranks, key=_rank_or_first)
        ],
        "compiled": any(counts["compiled"] for counts in of_ranks),
        "device": of_ranks[0]["device"],
        "precisions": dict(precisions),
        "task": loop and loop.task,
        "place": loop and loop.place and [loop.place.file, loop.place.line],
    }


def _rank_or_first(counts: Mapping[str, Any]) -> int:
    return -1 if counts["rank"] is None else int(counts["rank"])


def _measured_loop(counts: Mapping[str, Any], profile: Profile | None) -> TrainingLoop | None:
    """The measured loop in which the counted step would be: same task, line and number of ranks.

    None if there are several, or none: operations of one loop say nothing about the rate of another.
    """
    same = [
        loop
        for loop in (profile.loops if profile else ())
        if loop.task == counts.get("task")
        and (loop.place and [loop.place.file, loop.place.line]) == counts.get("place")
        and len(loop.ranks) == len(counts["ranks"])
    ]
    return same[0] if len(same) == 1 else None


def _rate(of_rank: Mapping[str, Any], loop: TrainingLoop | None) -> float | None:
    """FLOP/s of one rank, at the pace of its measured steps."""
    ranks: list[LoopRank] = [
        rank for rank in (loop.ranks if loop else ()) if rank.rank == of_rank.get("rank")
    ]
    return int(of_rank["flops"]) * ranks[0].throughput.steps if len(ranks) == 1 else None
