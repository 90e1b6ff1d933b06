"""What ``run.json`` gets of the analysis: the verdict, the main figures of each loop, and what broke.

A list of runs has them from there, and reads no spans.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite

from .outcome_words import RANKS, sentences
from .profile import Profile, RankOutcome, SourceLine

TYPE_CHECKING = False  # importing typing would cost 5 ms
if TYPE_CHECKING:
    from typing import Any

    from .training_loop import TrainingLoop


def main_figures(
    info: Mapping[str, Any], profile: Profile | None, broken: tuple[RankOutcome, ...]
) -> dict[str, Any]:
    """The entries ``verdict``, ``training``, ``broken`` and ``warnings`` of run.json."""
    figures: dict[str, Any] = {}
    if profile is not None:
        verdict = profile.verdict
        figures["verdict"] = {
            "kind": verdict.kind,
            "severity": verdict.severity,
            "sentence": verdict.sentence,
        }
        figures["training"] = [_training_entry(loop) for loop in profile.loops]
    figures["broken"] = [_broken_entry(outcome) for outcome in broken]
    # A run may be summarised again: earlier warnings about ranks are replaced, not repeated.
    others = [warning for warning in info.get("warnings") or () if warning.get("kind") != RANKS]
    figures["warnings"] = [*({"kind": RANKS, "text": text} for text in sentences(broken)), *others]
    return figures


def _broken_entry(outcome: RankOutcome) -> dict[str, Any]:
    return {
        "rank": outcome.rank,
        "attempt": outcome.attempt,
        "process": outcome.process,
        "kind": outcome.kind,
        "how": outcome.how,
        "steps": outcome.steps,
        "last": _region_entry(outcome.last, outcome.place) if outcome.last else None,
        "inside": [_region_entry(name, place) for name, place in outcome.inside],
        "silent": outcome.seconds,
        "ended": outcome.ended,
        "restarted": outcome.restarted,
    }


def _region_entry(name: str, place: SourceLine | None) -> dict[str, Any]:
    return {
        "region": name,
        "file": place.file if place else None,
        "line": place.line if place else None,
    }


def _training_entry(loop: TrainingLoop) -> dict[str, Any]:
    """The figures of one loop, in seconds and per second; None for what is not known."""
    speed = loop.throughput
    return {
        "task": loop.task,
        "attempt": loop.attempt,
        "ranks": len(loop.ranks),
        "steps": loop.steps,
        "warmup": loop.warmup.steps,
        "step": _finite(loop.step.median),
        "steps_per_second": _finite(speed.steps),
        "items_per_second": _finite(speed.items),
        "tokens_per_second": _finite(speed.tokens),
    }


def _finite(value: float | None) -> float | None:
    return value if value is not None and isfinite(value) else None
