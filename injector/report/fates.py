"""Ranks that died, hung or waited for those: sentences for the report, for run.json and for lists."""

from __future__ import annotations

from collections.abc import Sequence

from ..analysis.profile import Fate, Place
from .places import at
from .text import clean, crop, duration, labelled, short

_SHOWN = 8
"""Sentences beyond which only the number of ranks is said."""
_HOW = 100
"""Columns of an exception's message."""


def lines(fates: Sequence[Fate]) -> list[str]:
    """What to know before anything else is read; nothing of a run whose ranks all ended in order."""
    if not fates:
        return []
    found = sentences(fates)
    texts = found[:_SHOWN]
    if len(found) > _SHOWN:
        texts.append(f"… and {len(found) - _SHOWN} more")
    texts.append(_what_follows(fates))
    label = "broken" if broken(fates) else "restarted"
    return [*labelled(label, texts, indent=0, width=11), ""]


def broken(fates: Sequence[Fate]) -> bool:
    """Whether the job as a whole did not come to its end: some rank was not started again."""
    return any(fate.restarted is None for fate in fates)


def _what_follows(fates: Sequence[Fate]) -> str:
    if broken(fates):
        return "all that follows, the verdict too, is about what was recorded until then"
    return "steps of different attempts are kept apart: each is a loop of its own"


def sentences(fates: Sequence[Fate]) -> list[str]:
    """One for each rank; ranks of which the same is to be said share one."""
    several = any(fate.attempt or fate.restarted is not None for fate in fates)
    groups: dict[tuple[object, ...], list[Fate]] = {}
    for fate in fates:
        groups.setdefault(_alike(fate), []).append(fate)
    return [
        (f"attempt {group[0].attempt}: " if several else "") + sentence(group)
        for group in groups.values()
    ]


def _alike(fate: Fate) -> tuple[object, ...]:
    """What has to be the same of two ranks of which one sentence speaks."""
    told = fate._replace(rank=0, process=0, usual=0.0, seconds=0.0, ended=None)
    alone = fate.kind not in ("followed", "waited")
    return (told, fate.rank) if alone else (told,)


def sentence(group: Sequence[Fate]) -> str:
    """What became of ranks that are alike."""
    fate = max(group, key=lambda fate: fate.seconds)
    ranks = _ranks([each.rank for each in group])
    again = "" if fate.restarted is None else f"; started again as attempt {fate.restarted}"
    how = crop(fate.how, _HOW)
    if fate.kind == "waited":
        return f"{ranks} waited in {_inside(fate)} for {duration(fate.seconds)}, after step {fate.steps}"
    if fate.kind in ("hung", "stuck"):
        verb = "hung" if fate.kind == "hung" else "stood still, nobody knows for whom,"
        usual = f", of usually {short(fate.usual)}" if fate.usual else ""
        text = f"{ranks} {verb} for {duration(fate.seconds)} after step {fate.steps}{usual}"
        return f"{text}; {_where(fate)}{again}"
    if fate.kind == "followed":
        return f"{ranks} ended after that, at step {fate.steps}: {how}{_stuck_in(fate)}"
    return f"{ranks} died at step {fate.steps}: {how}; {_where(fate)}{again}"


def _ranks(numbers: list[int]) -> str:
    if len(numbers) == 1:
        return f"rank {numbers[0]}"
    shown = ", ".join(map(str, sorted(numbers)[:16]))
    return f"ranks {shown}" + (", …" if len(numbers) > 16 else "")


def _where(fate: Fate) -> str:
    """What it was in at its end, or the last that it came out of."""
    if fate.inside:
        return f"it was in {_inside(fate)}"
    if not fate.last:
        return "it had recorded nothing"
    return f"the last that ended was {_named(fate.last, fate.place)}"


def _inside(fate: Fate) -> str:
    return " and ".join(_named(name, place) for name, place in fate.inside)


def _stuck_in(fate: Fate) -> str:
    return f", in {_inside(fate)}" if fate.inside else ""


def _named(name: str, place: Place | None) -> str:
    return f"{clean(name)} at {at(place)}" if place else clean(name)
