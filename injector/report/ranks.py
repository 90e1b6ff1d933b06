"""The ranks of a training loop: a table of them, and which one the others wait for."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..analysis.statistics import percentile
from .text import (
    UNKNOWN,
    TimeUnit,
    clean,
    count,
    figure,
    fit,
    labelled,
    percent,
    rank_name,
    short,
    table,
)

TYPE_CHECKING = False  # importing typing would cost 5 ms
if TYPE_CHECKING:
    from ..analysis.training_loop import LoopRank, Straggler, TrainingLoop

_SHOWN = 16
"""The most ranks that are all shown. Of more, the fastest, the slowest and the straggler are."""
_NAMED = 0.1
"""The share of a step that others wait for a straggler if it is named: one rank always waits least."""


def rank_table(loop: TrainingLoop) -> list[str]:
    """The table of the ranks of a loop; nothing if there is one."""
    tracks = loop.ranks
    if len(tracks) < 2:
        return []
    shown = _shown_ranks(loop)
    columns = rank_columns(loop)
    heads = [*(head for head, _ in columns), "longer than the others in:"]
    names = dict(zip(map(id, tracks), member_names(loop), strict=True))
    rows = [
        [names[id(track)], *(cell(track) for _, cell in columns), slow_region(track, tracks)]
        for track in shown
    ]
    lines = table(f"  {member(loop)}s", heads, rows, indent=4)[:-1]
    if len(shown) < len(tracks):
        lines.append(f"    … and {count(len(tracks) - len(shown), member(loop))} between these")
    return [*lines, *straggler_lines(loop.straggler), ""]


def member(loop: TrainingLoop) -> str:
    """The word for a member of a loop: ``thread`` if a process has several of them, else ``rank``."""
    processes = {track.process for track in loop.ranks}
    return "thread" if len(processes) < len(loop.ranks) else "rank"


def member_names(loop: TrainingLoop) -> list[str]:
    """The names of ``loop.ranks``: ``rank 3``, ``process 4``, ``thread 0`` or ``process 4, thread 0``."""
    names = [rank_name(track.rank, track.process) for track in loop.ranks]
    if member(loop) == "rank":
        return names
    last_thread: dict[str, int] = {}
    threads = []
    for name in names:
        number = last_thread[name] = last_thread.get(name, -1) + 1
        threads.append((name, f"thread {number}"))
    return [", ".join(pair if len(last_thread) > 1 else pair[1:]) for pair in threads]


def rank_columns(loop: TrainingLoop) -> list[tuple[str, Callable[[LoopRank], str]]]:
    """The columns of a table of ranks, without those that have no content: head, and the cell of a rank."""
    tracks = loop.ranks
    unit = TimeUnit(loop.step.median)
    result: list[tuple[str, Callable[[LoopRank], str]]] = []
    if len({track.host for track in tracks}) > 1:
        result.append(("host", lambda track: fit(track.host, 16)))
    if any(track.device for track in tracks):
        result.append(("device", lambda track: fit(track.device or "", 12)))
    result += [
        ("steps", lambda track: str(track.steps)),
        (f"step {unit.name}", lambda track: unit(track.step.median)),
        ("p95", lambda track: unit(track.step.p95)),
    ]
    if any(track.throughput.items is not None for track in tracks):
        result.append(("items/s", lambda track: _figure(track.throughput.items)))
    else:
        result.append(("steps/s", lambda track: _figure(track.throughput.steps)))
    if any(track.waits > 0 for track in tracks):
        result.append(("waits", lambda track: unit(track.waits)))
    return result


def _figure(value: float | None) -> str:
    return UNKNOWN if value is None else figure(value)


def _shown_ranks(loop: TrainingLoop) -> list[LoopRank]:
    """The ranks that have a row, in their order."""
    tracks = list(loop.ranks)
    if len(tracks) <= _SHOWN:
        return tracks
    order = sorted(range(len(tracks)), key=lambda at: tracks[at].step.median)
    half = _SHOWN // 2
    kept = {*order[:half], *order[-half:]}
    straggler = loop.straggler.rank if loop.straggler else None
    kept |= {at for at, track in enumerate(tracks) if track.rank == straggler is not None}
    return [tracks[at] for at in sorted(kept)]


def slow_region(track: LoopRank, tracks: Sequence[LoopRank]) -> str:
    """The region in which a rank exceeds the median of the others most, and by how much; empty if none does.

    Time in ``comm`` is no sign of slowness: there a fast rank waits for the others.
    """
    most, where = 0.0, ""
    for region, seconds in track.regions.items():
        others = [other.regions.get(region, 0.0) for other in tracks if other is not track]
        excess = seconds - percentile(sorted(others), 0.5)
        # Less than a hundredth of a step is noise.
        if region != "comm" and excess > most and excess >= 0.01 * track.step.median:
            most, where = excess, region
    return f"{fit(clean(where), 20)} +{short(most)}" if where else ""


def straggler_lines(straggler: Straggler | None) -> list[str]:
    """A sentence on a straggler, if there is one: how long others wait for it, and where it is slow."""
    if straggler is None or not straggler.score >= _NAMED:
        return []
    text = (
        f"the other ranks wait for rank {straggler.rank} for {percent(straggler.score)} of a step"
    )
    if straggler.slow_at:
        excess = short(straggler.excess)
        text += f"; it is slow in {clean(straggler.slow_at)}, {excess} above their median"
    return labelled("", [text], indent=4, width=0)
