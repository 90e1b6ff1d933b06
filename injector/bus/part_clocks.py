"""How far the clocks of hosts differ that recorded parts of one job, shown by barriers that ranks passed
together.

No rank ends a barrier before every other rank has begun it. So a barrier of two ranks on two hosts bounds the
difference of their clocks on either side::

    host A   [ begin .......... end ]              begin A < end B,  begin B < end A
    host B            [ begin ........ end ]       by one clock, whatever each host's own clock says

Many barriers of many ranks narrow the bounds. Where the clocks were also measured by asking both hosts
(:mod:`.clocks`), the bounds of both count.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

from .clocks import ClockBounds, Tie, tie_of
from .parts import JobPart


def tie_all(parts: Sequence[JobPart]) -> None:
    """Set for each part how its clock is tied to that of the first one.

    If a rank is in several parts, it moved from node to node, and a node may have passed no barrier with the
    first one: it is tied through parts that are tied already.
    """
    ranks = [{member.rank for member in part.members} for part in parts]
    if sum(map(len, ranks)) == len(set().union(*ranks)):
        for part in parts[1:]:
            _tie(parts[:1], part)
        return
    tied, left = [parts[0]], list(parts[1:])
    # In each round the clocks that may be equal come first: a wrong guess about one that is moved would move
    # those that are tied through it.
    while part_tied := next(
        (part for moves in (False, True) for part in left if _tie(tied, part, moves)), None
    ):
        tied.append(part_tied)
        left.remove(part_tied)


def _tie(tied: Sequence[JobPart], part: JobPart, moves: bool = True) -> bool:
    """Tie the clock of ``part`` to the clocks of ``tied``, by barriers that both passed and by measurement.

    Returns False if nothing shows how they differ; the clock is then left as it is. Without ``moves`` also if
    they do differ.
    """
    first, there = tied[0], part.named(part.host)
    here = first.named(first.host)
    hosts = {part.named(host) for host in part.hosts}
    for other in tied:
        if hosts <= {other.named(host) for host in other.hosts}:
            part.tie, part.error = Tie(other.tie.shift, ""), other.error
            return True
    low, high, source = _bounds(tied, part)
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


def _bounds(tied: Sequence[JobPart], part: JobPart) -> tuple[float, float, str]:
    """Seconds to add to the clock of ``part``, at least and at most, and what shows it; empty if none."""
    measured, first = None, tied[0]
    if first.clock is not None and part.clock is not None:
        least, most = first.clock.low - part.clock.high, first.clock.high - part.clock.low
        measured = ClockBounds(least, most)
    by_barriers = _by_barriers(_pairs(tied, part), measured)
    if by_barriers is None:
        return (*measured, "asking both") if measured else (0.0, 0.0, "")
    low, high, count = by_barriers
    source = f"{count} barrier{'s' if count > 1 else ''}"
    if measured is None or max(low, measured.low) > min(high, measured.high):
        # They contradict each other: a clock was set between the run and the question, so the run's own
        # count.
        return low, high, source
    return max(low, measured.low), min(high, measured.high), f"{source} and asking both"


def _pairs(tied: Sequence[JobPart], part: JobPart) -> list[tuple[float, float, int]]:
    """The bounds of each pair of a rank in ``tied`` and one in ``part`` that may have passed barriers
    together.

    Each is the least and the most that is added to the clock of ``part``, seconds, and the number of
    barriers.
    """
    by_same_master: dict[bool, list[tuple[float, float, int]]] = {True: [], False: []}
    members = (member for other in tied for member in other.members)
    for here, there in product(members, part.members):
        if here.rank == there.rank or here.world != there.world or not here.barriers:
            continue  # of two attempts
        # Ranks of one group pass the same barriers, at the same lines and in the same order.
        if [barrier[0] for barrier in here.barriers] != [barrier[0] for barrier in there.barriers]:
            continue
        both = list(zip(here.barriers, there.barriers, strict=True))
        low = max(start - ended for (_, start, _), (_, _, ended) in both)
        high = min(end - began for (_, _, end), (_, began, _) in both)
        # The clock of `here` may itself be moved, and not known exactly.
        shift, error = here.part.tie.shift, here.part.error
        if low <= high:
            by_same_master[here.master == there.master].append(
                (low + shift - error, high + shift + error, len(both))
            )
    # Ranks that met at one address are of one attempt; nodes may also name one address differently.
    return by_same_master[True] or by_same_master[False]


def _by_barriers(
    pairs: Sequence[tuple[float, float, int]], measured: ClockBounds | None
) -> tuple[float, float, int] | None:
    """The bounds that most of ``pairs`` agree on, and the number of barriers that show them; None if unclear.

    Pairs of ranks of different attempts passed their barriers at different times, so their bounds are wrong;
    those of ranks of one attempt agree. Of bounds that equally many agree on, those are taken that overlap
    ``measured``, or without a measurement those by which the clocks may be equal.
    """
    expected = measured or ClockBounds(0.0, 0.0)
    best: list[tuple[float, float, int]] = []
    most = 0
    # Where the most intervals overlap, one of them begins.
    for start in sorted({low for low, _, _ in pairs}):
        agreeing = [bounds for bounds in pairs if bounds[0] <= start <= bounds[1]]
        if len(agreeing) > most:
            most, best = len(agreeing), []
        if len(agreeing) == most:
            end = min(high for _, high, _ in agreeing)
            best.append((start, end, sum(count for _, _, count in agreeing)))
    if len(best) > 1:
        best = [
            bounds for bounds in best if bounds[0] <= expected.high and bounds[1] >= expected.low
        ]
    return best[0] if len(best) == 1 else None
