"""What became of each rank, in words: sentences for reports, and what the live view says beside a rank."""

from __future__ import annotations

from collections.abc import Sequence

from ..value_class import replace
from .profile import RankOutcome, SourceLine
from .wording import duration, leading, line_of, short

RANKS = "ranks"
"""The kind of warning about ranks that died or hung."""


def is_broken(outcomes: Sequence[RankOutcome]) -> bool:
    """Whether the job as a whole failed: some rank broke and was not started again."""
    return any(outcome.restarted is None for outcome in outcomes)


def sentences(outcomes: Sequence[RankOutcome]) -> list[str]:
    """One sentence for each outcome; ranks with the same outcome share a sentence."""
    several_attempts = any(outcome.attempt or outcome.restarted is not None for outcome in outcomes)
    groups: dict[tuple[object, ...], list[RankOutcome]] = {}
    for outcome in outcomes:
        groups.setdefault(_sharing_key(outcome), []).append(outcome)
    return [
        (f"attempt {group[0].attempt}: " if several_attempts else "") + _sentence(group)
        for group in groups.values()
    ]


def _sharing_key(outcome: RankOutcome) -> tuple[object, ...]:
    """Outcomes with the same key share a sentence; only consequences do, a cause is worth its own."""
    same = replace(outcome, rank=0, process=0, usual=0.0, seconds=0.0, ended=None)
    return (same,) if outcome.kind in ("followed", "waited") else (same, outcome.rank)


def _sentence(group: Sequence[RankOutcome]) -> str:
    # They differ in little more than seconds, of which the most are what the job lost.
    longest = max(group, key=lambda outcome: outcome.seconds)
    numbers = sorted(outcome.rank for outcome in group)
    ranks = leading(numbers, 16)
    restarted = longest.restarted
    again = "" if restarted is None else f"; started again as attempt {restarted}"
    return f"rank{'s' if len(numbers) > 1 else ''} {ranks} {predicate(longest)}{again}"


def predicate(outcome: RankOutcome, now: bool = False) -> str:
    """What became of a rank, in words that follow its name; with ``now``, the run goes on."""
    has = "has " if now else ""
    kind, spent, steps = outcome.kind, duration(outcome.seconds), outcome.steps
    if kind == "waited":
        return f"{has}waited {spent} in {_calls(outcome)}, after step {steps}"
    if kind in ("hung", "stuck"):
        usual = f" (a step usually takes {short(outcome.usual)})" if outcome.usual else ""
        cause = "; which rank is the cause is not known" if kind == "stuck" else ""
        return f"{has}hung for {spent} after step {steps}{usual}; {_where(outcome, now)}{cause}"
    if kind == "silent":
        return f"has recorded nothing for {spent} after step {steps}; {_where(outcome, now)}"
    if kind == "followed":
        inside = f", in {_calls(outcome)}" if outcome.inside else ""
        return f"ended after that, at step {steps}: {outcome.how}{inside}"
    return f"died at step {steps}: {outcome.how}; {_where(outcome)}"


def _where(outcome: RankOutcome, now: bool = False) -> str:
    """What the rank is in, or the last span that it recorded."""
    if outcome.inside:
        return f"it {'is' if now else 'was'} in {_calls(outcome)}"
    if not outcome.last:
        return "it recorded no span"
    return f"its last span: {_call(outcome.last, outcome.place)}"


def _calls(outcome: RankOutcome) -> str:
    return " and ".join(_call(name, place) for name, place in outcome.inside)


def _call(name: str, place: SourceLine | None) -> str:
    return f"{name} at {line_of(place)}" if place else name
