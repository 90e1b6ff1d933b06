"""How far the clocks of hosts differ that recorded a job apart: by barriers that ranks passed together."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

from .clocks import ClockBounds, Tie, tie_of
from .parts import JobPart


def tie_all(parts: Sequence[JobPart]) -> None:
    """Tie the clock of each part to that of the first one.

    Where a rank is in several parts, a node may have had nothing in common with the first one: it is tied by
    others that have been. Those whose clocks may be equal come first, as they need no barriers to be right.
    """
    ranks = [{each.rank for each in part.members} for part in parts]
    if sum(map(len, ranks)) == len(set().union(*ranks)):
        for part in parts[1:]:
            _tie(parts[:1], part)
        return
    known, left = [parts[0]], list(parts[1:])
    while found := next(
        (part for moves in (False, True) for part in left if _tie(known, part, moves)), None
    ):
        known.append(found)
        left.remove(found)


def _tie(known: Sequence[JobPart], part: JobPart, moves: bool = True) -> bool:
    """Tie the clock of ``part`` to those of ``known``: by barriers that both passed, and as measured.

    False where nothing says how they differ, or without ``moves`` they do: it stays as it is.
    """
    first, there = known[0], part.named(part.host)
    here = first.named(first.host)
    hosts = {part.named(host) for host in part.hosts}
    for other in known:
        if hosts <= {other.named(host) for host in other.hosts}:
            part.tie, part.error = Tie(other.tie.shift, ""), other.error
            return True
    low, high, source = _bounds(known, part)
    if not source or not (moves or low <= 0 <= high):
        part.tie = Tie(
            0.0,
            f"the clock of {there} is taken as it is: no barriers of the program show by how much it "
            f"differs from that of {here}",
        )
        return False
    part.tie = tie_of(here, there, ClockBounds(low, high), source)
    part.error = max(high - part.tie.shift, part.tie.shift - low)
    return True


def _bounds(known: Sequence[JobPart], part: JobPart) -> tuple[float, float, str]:
    """Seconds to add to the clock of ``part``, at least and at most, and what says so, if anything does."""
    measured, first = None, known[0]
    if first.clock is not None and part.clock is not None:
        least, most = first.clock.low - part.clock.high, first.clock.high - part.clock.low
        measured = ClockBounds(least, most)
    found = _by_barriers(_pairs(known, part), measured)
    if found is None:
        return (*measured, "asking both") if measured else (0.0, 0.0, "")
    low, high, count = found
    source = f"{count} barrier{'s' if count > 1 else ''}"
    if measured is None or max(low, measured.low) > min(high, measured.high):
        return low, high, source  # or a clock was set between the run and the question
    return max(low, measured.low), min(high, measured.high), f"{source} and asking both"


def _pairs(known: Sequence[JobPart], part: JobPart) -> list[tuple[float, float, int]]:
    """Of each two ranks that may have passed their barriers together: the bounds, and how many these were.

    No rank ends a barrier before the other has begun it, so each bounds the difference on either side.
    """
    found: dict[bool, list[tuple[float, float, int]]] = {True: [], False: []}
    members = (each for other in known for each in other.members)
    for mine, other in product(members, part.members):
        if mine.rank == other.rank or mine.world != other.world or not mine.barriers:
            continue  # of two attempts
        if [each[0] for each in mine.barriers] != [each[0] for each in other.barriers]:
            continue  # not of the same group
        both = list(zip(mine.barriers, other.barriers, strict=True))
        low = max(start - ended for (_, start, _), (_, _, ended) in both)
        high = min(end - began for (_, _, end), (_, began, _) in both)
        shift, error = mine.part.tie.shift, mine.part.error
        if low <= high:
            found[mine.master == other.master].append(
                (low + shift - error, high + shift + error, len(both))
            )
    return found[True] or found[False]


def _by_barriers(
    pairs: Sequence[tuple[float, float, int]], measured: ClockBounds | None
) -> tuple[float, float, int] | None:
    """The bounds that most of ``pairs`` agree on, and how many barriers say so; None where they contradict.

    Two ranks of different attempts passed their barriers at other times, and bound nothing: those of one
    attempt agree. Of bounds that as many agree on, those count that ``measured`` allows, else those by
    which the clocks may be equal.
    """
    wanted = measured or ClockBounds(0.0, 0.0)
    best: list[tuple[float, float, int]] = []
    most = 0
    for start in sorted({low for low, _, _ in pairs}):
        over = [each for each in pairs if each[0] <= start <= each[1]]
        if len(over) > most:
            most, best = len(over), []
        if len(over) == most:
            end = min(high for _, high, _ in over)
            best.append((start, end, sum(count for _, _, count in over)))
    if len(best) > 1:
        best = [each for each in best if each[0] <= wanted.high and each[1] >= wanted.low]
    return best[0] if len(best) == 1 else None
