"""What limits the program, said first."""

from __future__ import annotations

from ..analysis.profile import Verdict
from .text import labelled


def lines(verdict: Verdict) -> list[str]:
    """The verdict: its sentence, what is larger, how sure it is and why, what to try."""
    sentence = verdict.sentence.strip() or "nothing limits it"
    known = verdict.kind not in ("", "none")
    if known and not sentence.lower().startswith(verdict.kind.lower()):
        sentence = f"{verdict.kind}: {sentence}"
    if known and verdict.severity in ("critical", "warning"):
        sentence += f"  ({verdict.severity})"
    return [
        *labelled("verdict", [sentence], indent=0, width=9),
        *labelled("besides", [each for each in verdict.besides if each not in verdict.sentence]),
        *labelled("certainty", [verdict.confidence]),
        *labelled("because", verdict.evidence),
        *labelled("threshold", [verdict.threshold]),
        *labelled("try", verdict.advice),
        "",
    ]
