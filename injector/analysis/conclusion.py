"""What a run comes to in a few figures: kept in ``run.json``, so that lists need not read spans."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite
from typing import Any

from ..store.folder import Run, write_info
from .profile import Fate, Loop, Place, Profile

RANKS = "ranks"
"""The kind of warning about ranks that died or hung."""


def conclude(
    run: Run, profile: Profile | None, fates: Sequence[Fate] = (), said: Sequence[str] = ()
) -> Run:
    """Write ``verdict``, ``training`` and ``broken`` into the ``run.json`` of ``run``. Raises OSError.

    ``fates`` are those of its ranks, ``said`` the same as sentences: these become warnings.
    """
    others = [each for each in run.info.get("warnings") or () if each.get("kind") != RANKS]
    info = {
        **run.info,
        **({} if profile is None else _figures_of(profile)),
        "broken": [_fate(fate) for fate in fates],
        "warnings": [*({"kind": RANKS, "text": text} for text in said), *others],
    }
    write_info(run.path, {key: value for key, value in info.items() if key != "schema"})
    return run._replace(info=info)


def _figures_of(profile: Profile) -> dict[str, Any]:
    verdict = profile.verdict
    kept = {"kind": verdict.kind, "severity": verdict.severity, "sentence": verdict.sentence}
    return {"verdict": kept, "training": [_figures(loop) for loop in profile.loops]}


def _fate(fate: Fate) -> dict[str, Any]:
    return {
        "rank": fate.rank,
        "attempt": fate.attempt,
        "process": fate.process,
        "kind": fate.kind,
        "how": fate.how,
        "steps": fate.steps,
        "last": _region(fate.last, fate.place) if fate.last else None,
        "inside": [_region(name, place) for name, place in fate.inside],
        "silent": fate.seconds,
        "ended": fate.ended,
        "restarted": fate.restarted,
    }


def _region(name: str, place: Place | None) -> dict[str, Any]:
    return {
        "region": name,
        "file": place.file if place else None,
        "line": place.line if place else None,
    }


def _figures(loop: Loop) -> dict[str, Any]:
    """Seconds and per second; null for what is not known."""
    speed = loop.throughput
    return {
        "task": loop.task,
        "attempt": loop.attempt,
        "ranks": len(loop.tracks),
        "steps": loop.steps,
        "warmup": loop.warmup.steps,
        "step": _known(loop.step.median),
        "steps_per_second": _known(speed.steps),
        "items_per_second": _known(speed.items),
        "tokens_per_second": _known(speed.tokens),
    }


def _known(value: float | None) -> float | None:
    return value if value is not None and isfinite(value) else None
