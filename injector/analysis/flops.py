"""Operations of a step, a second, and as a part of what devices can do (``--flops``)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from ..plain_json import loads
from ..store.folder import Run
from ..value_class import value_class
from .profile import LoopRank, Profile, TrainingLoop
from .recorded import number

TYPE_CHECKING = False  # importing typing would cost 5 ms
if TYPE_CHECKING:
    from typing import Any

LOWER_BOUND = (
    "counted in one step of a second run by PyTorch's counter, which takes operations without a formula "
    "(custom kernels, all that is no product, convolution or attention) for 0: a lower bound"
)
COMPILED = "the program compiles graphs, whose own kernels are not counted: it may be far too low"
NO_PEAK = "what a device does at best is not known; --peak-flops names it"
HOST = "cpu"
"""A device that all ranks of a host share; of others, each rank has one."""


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
    """FLOP/s of one device at best."""
    peak_from: str = ""
    """Where ``peak`` comes from: ``--peak-flops``, or a run of products of matrices."""
    devices: int = 1
    mfu: float | None = None
    """``rate`` by devices times ``peak``, 0…1; as in Chowdhery et al., "PaLM", 2022, of counted FLOPs."""
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
        notes.append(f"no MFU: {found.get('no_peak') or NO_PEAK}")
    devices = 1 if found.get("device") == HOST else len(ranks)
    return Flops(
        ranks=ranks,
        step=sum(each.step for each in ranks),
        rate=rate,
        peak=peak,
        peak_from=str(found.get("peak_from") or "--peak-flops") if peak else "",
        devices=devices,
        mfu=rate / (peak * devices) if rate is not None and peak else None,
        notes=tuple(notes),
    )


def counted(run: Run, tag: str, failure: str) -> dict[str, Any]:
    """``flops`` of run.json: what the brief second ``run`` counted, and the loop it is of; or ``why`` not.

    Keys of its tags begin with ``tag``; ``failure`` is how it ended, empty for in order.
    """
    tags: Mapping[str, str] = run.info.get("tags") or {}
    found = [loads(text) for key, text in tags.items() if key.split()[0] == tag]
    failed = [each["why"] for each in found if "why" in each]
    if failed:
        return {"why": f"PyTorch's counter failed: {failed[0]}"}
    if not found:
        return {"why": failure or "its second run had too few steps of PyTorch"}
    from .profiling import profile  # numpy, which no run without spans needs

    known = profile(run)
    loop = known.loops[0] if known is not None and len(known.loops) == 1 else None
    precisions: Counter[str] = Counter()
    for each in found:
        precisions.update(each["precisions"])
    return {
        "ranks": [
            {key: each[key] for key in ("rank", "flops")} for each in sorted(found, key=_rank)
        ],
        "compiled": any(each["compiled"] for each in found),
        "device": found[0]["device"],
        "precisions": dict(precisions),
        "task": loop and loop.task,
        "place": loop and loop.place and [loop.place.file, loop.place.line],
    }


def _rank(one: Mapping[str, Any]) -> int:
    return -1 if one["rank"] is None else int(one["rank"])


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
