"""Operations of a step, a second, and as a part of what devices can do (``--flops``)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .profile import LoopRank, Profile, TrainingLoop
from .recorded import number
from .value_class import value_class

LOWER_BOUND = (
    "counted in one step of a second run by PyTorch's counter, which takes operations without a formula "
    "(custom kernels, all that is no product, convolution or attention) for 0: a lower bound"
)
COMPILED = "the program compiles graphs, whose own kernels are not counted: it may be far too low"
NO_PEAK = "no MFU: what a device can do at best is not known; --peak-flops names it"


@value_class
class RankFlops:
    """Of one rank."""

    rank: int | None
    step: int
    """FLOPs of a step: a product and a sum are two."""
    rate: float | None
    """FLOP/s: those of a step by the mean seconds of its measured steps."""


@value_class
class Flops:
    """Of one training loop."""

    ranks: tuple[RankFlops, ...] = ()
    step: int | None = None
    """FLOPs of a step, of all ranks together."""
    rate: float | None = None
    """FLOP/s of all ranks together."""
    peak: float | None = None
    """FLOP/s of one device at best, by ``--peak-flops``."""
    mfu: float | None = None
    """``rate`` by ranks times ``peak``, 0…1; as in Chowdhery et al., "PaLM", 2022, of counted FLOPs."""
    notes: tuple[str, ...] = ()
    """What the figures are, or why there are none, as sentences."""


def flops_of(info: Mapping[str, Any], profile: Profile | None) -> Flops | None:
    """What ``run.json`` has of them and the measured steps make of it; None of a run without ``--flops``."""
    found = info.get("flops")
    if not isinstance(found, Mapping):
        return None
    if "why" in found:
        return Flops(notes=(f"no FLOPs: {found['why']}",))
    loop = _loop(found, profile)
    ranks = tuple(
        RankFlops(one.get("rank"), int(one["flops"]), _rate(one, loop)) for one in found["ranks"]
    )
    rates = [each.rate for each in ranks if each.rate is not None]
    rate = sum(rates) if rates and len(rates) == len(ranks) else None
    peak = number(found.get("peak"))
    notes = [LOWER_BOUND, *([COMPILED] if found.get("compiled") else [])]
    if rate is None:
        notes.append(
            "no FLOP/s: the counted step is of no loop that the measured run went through alike"
        )
    elif not peak:
        notes.append(NO_PEAK)
    return Flops(
        ranks=ranks,
        step=sum(each.step for each in ranks),
        rate=rate,
        peak=peak,
        mfu=rate / (peak * len(ranks)) if rate is not None and peak else None,
        notes=tuple(notes),
    )


def _loop(found: Mapping[str, Any], profile: Profile | None) -> TrainingLoop | None:
    """The measured loop that the counted step is of: its line and task are the same, and its ranks."""
    same = [
        loop
        for loop in (profile.loops if profile else ())
        if loop.task == found.get("task")
        and (loop.place and [loop.place.file, loop.place.line]) == found.get("place")
        and len(loop.ranks) == len(found["ranks"])
    ]
    return same[0] if len(same) == 1 else None


def _rate(one: Mapping[str, Any], loop: TrainingLoop | None) -> float | None:
    ranks: list[LoopRank] = [
        each for each in (loop.ranks if loop else ()) if each.rank == one.get("rank")
    ]
    return int(one["flops"]) * ranks[0].throughput.steps if len(ranks) == 1 else None
