"""One row a rank, and the one that the others wait for."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..analysis.profile import Loop, Straggler, Track
from ..analysis.recorded import percentile
from .text import UNKNOWN, Unit, clean, count, figure, fit, labelled, percent, short, table

_SHOWN = 16
"""Ranks beyond which only the fastest, the slowest and the straggler are shown."""
_NAMED = 0.1
"""Of a step: the score from which the verdict warns of a rank. Someone always waits least."""


def lines(loop: Loop) -> list[str]:
    """The table of the ranks of ``loop``; nothing when there is one."""
    tracks = loop.tracks
    if len(tracks) < 2:
        return []
    shown = _chosen(loop)
    columns = _columns(loop)
    heads = [*(head for head, _ in columns), "longer than the others in:"]
    rows = [
        [who(track), *(cell(track) for _, cell in columns), _longest(track, tracks)]
        for track in shown
    ]
    found = table("  ranks", heads, rows, indent=4)[:-1]
    if len(shown) < len(tracks):
        found.append(f"    … and {count(len(tracks) - len(shown), 'rank')} between these")
    return [*found, *_named(loop.straggler), ""]


def _columns(loop: Loop) -> list[tuple[str, Callable[[Track], str]]]:
    """Head and cell of the columns that say something."""
    tracks = loop.tracks
    unit = Unit(loop.step.median)
    found: list[tuple[str, Callable[[Track], str]]] = []
    if len({track.host for track in tracks}) > 1:
        found.append(("host", lambda track: fit(track.host, 16)))
    if any(track.device for track in tracks):
        found.append(("device", lambda track: fit(track.device or "", 12)))
    found += [
        ("steps", lambda track: str(track.steps)),
        (f"step {unit.name}", lambda track: unit(track.step.median)),
        ("p95", lambda track: unit(track.step.p95)),
    ]
    if any(track.throughput.items is not None for track in tracks):
        found.append(("items/s", lambda track: _figure(track.throughput.items)))
    else:
        found.append(("steps/s", lambda track: _figure(track.throughput.steps)))
    if any(track.waits > 0 for track in tracks):
        found.append(("waits", lambda track: unit(track.waits)))
    return found


def _figure(value: float | None) -> str:
    return UNKNOWN if value is None else figure(value)


def who(track: Track) -> str:
    """``rank 3``, else the index of the process."""
    return f"process {track.process}" if track.rank is None else f"rank {track.rank}"


def _chosen(loop: Loop) -> list[Track]:
    tracks = list(loop.tracks)
    if len(tracks) <= _SHOWN:
        return tracks
    order = sorted(range(len(tracks)), key=lambda at: tracks[at].step.median)
    half = _SHOWN // 2
    kept = {*order[:half], *order[-half:]}
    culprit = loop.straggler.rank if loop.straggler else None
    kept |= {at for at, track in enumerate(tracks) if track.rank == culprit is not None}
    return [tracks[at] for at in sorted(kept)]


def _longest(track: Track, tracks: Sequence[Track]) -> str:
    """The region in which this rank exceeds the median of the others most."""
    most, where = 0.0, ""
    for region, seconds in track.regions.items():
        others = [each.regions.get(region, 0.0) for each in tracks if each is not track]
        excess = seconds - percentile(sorted(others), 0.5)
        # Less than a hundredth of a step is nobody's business.
        if region != "comm" and excess > most and excess >= 0.01 * track.step.median:
            most, where = excess, region
    return f"{fit(clean(where), 20)} +{short(most)}" if where else ""


def _named(straggler: Straggler | None) -> list[str]:
    if straggler is None or not straggler.score >= _NAMED:
        return []
    text = f"the others wait for rank {straggler.rank}, {percent(straggler.score)} of a step"
    if straggler.slow_at:
        excess = short(straggler.excess)
        text += f"; slow at {clean(straggler.slow_at)}, {excess} over their median"
    return labelled("", [text], indent=4, width=0)
