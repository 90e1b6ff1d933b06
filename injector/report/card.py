"""The report card: what the spans of a run say, verdict first."""

from __future__ import annotations

from ..analysis.profile import Profile
from . import loops, stretches, verdict


def lines(profile: Profile) -> list[str]:
    """The card of ``profile`` in lines; sections without content are left out."""
    return [
        *verdict.lines(profile.verdict),
        *loops.lines(profile.loops),
        *stretches.evaluations(profile.evaluations),
        *stretches.outside(profile.others, whole=not profile.loops),
        *stretches.wall(profile.stretches, profile.wall),
    ]
