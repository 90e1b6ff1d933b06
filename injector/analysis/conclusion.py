"""What a run comes to in a few figures: kept in ``run.json``, so that lists need not read spans."""

from __future__ import annotations

from math import isfinite
from typing import Any

from ..store.folder import Run, write_info
from .profile import Loop, Profile


def conclude(run: Run, profile: Profile) -> Run:
    """Write ``verdict`` and ``training`` into the ``run.json`` of ``run``. Raises OSError."""
    verdict = profile.verdict
    info = {
        **run.info,
        "verdict": {
            "kind": verdict.kind,
            "severity": verdict.severity,
            "sentence": verdict.sentence,
        },
        "training": [_figures(loop) for loop in profile.loops],
    }
    write_info(run.path, {key: value for key, value in info.items() if key != "schema"})
    return run._replace(info=info)


def _figures(loop: Loop) -> dict[str, Any]:
    """Seconds and per second; null for what is not known."""
    speed = loop.throughput
    return {
        "task": loop.task,
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
