"""The processes of a run that goes on: which has a row, at which attempt, in which state.

Everything is read from the run folder, where each process says what it is in and the monitor says who has
ended; numbers of processes are never looked up, since the run may be another machine's. What became of a
rank is decided by :mod:`injector.analysis.outcomes`, live as in the report.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import NamedTuple

from ..analysis.outcomes import Call, RankProcess, number_attempts, outcome_now, own, predicate
from ..bus import spans
from .process import Process


class Row(NamedTuple):
    """One process that has a row."""

    process: Process
    attempt: int
    state: str
    notes: tuple[str, ...]


class _Known(NamedTuple):
    """A process, and what is known of it as a rank."""

    process: Process
    rank: RankProcess

    @property
    def attempt(self) -> int:
        return self.rank.attempt or 0


def rows_of(raw: str, processes: Sequence[Process], now: float, over: bool) -> list[Row]:
    """The processes that have a row, of each rank that of the latest attempt, in the order of ranks.

    ``raw`` is the folder of their files, ``now`` is unix seconds, ``over`` says that the run has ended.
    """
    known = [_Known(process, process.as_rank(round(now * 1e9), over)) for process in processes]
    known.sort(key=lambda each: each.process.facts.get("monotonic_ns") or 0)
    chosen = _chosen(known)
    number_attempts([each.rank for each in chosen])
    rows = _by_row(chosen)
    latest = [attempts[-1].rank for attempts in rows]
    for process, rank in (attempts[-1] for attempts in rows):
        if rank.alive and rank.silence > rank.limit:
            rank.opened = _opened(raw, process)
    found = []
    for attempts in rows:
        state, note = _state(attempts[-1], latest)
        notes = (*([note] if note else []), *map(_earlier, attempts[:-1]))
        found.append(Row(attempts[-1].process, attempts[-1].attempt, state, notes))
    return sorted(found, key=_order)


def _order(row: Row) -> tuple[bool, int, int]:
    process = row.process
    return process.rank is None, process.rank or 0, process.facts.get("pid") or 0


def _chosen(known: Sequence[_Known]) -> list[_Known]:
    """Those that have a row: what has a task, and ranks that have none yet, or died before."""
    ranks = set(own([each.rank for each in known], [bool(each.process.shown) for each in known]))
    found = [each for at, each in enumerate(known) if each.rank.rank is None or at in ranks]
    reached: dict[int | None, int] = {}
    for each in found:
        if each.process.shown:
            rank = each.rank.rank
            reached[rank] = max(reached.get(rank, 0), each.attempt)
    return [e for e in found if e.process.shown or _is_a_rank_without_steps(e, reached)]


def _is_a_rank_without_steps(each: _Known, reached: dict[int | None, int]) -> bool:
    """Whether it was to be a rank: it died before it did anything, or has just been started again."""
    if each.rank.rank is None or not (each.rank.abnormal or each.attempt > 0):
        return False
    return each.attempt > reached.get(each.rank.rank, -1)


def _by_row(chosen: Sequence[_Known]) -> list[list[_Known]]:
    """For each row its attempts in order: the last one is shown."""
    rows: dict[object, list[_Known]] = {}
    for number, each in enumerate(chosen):
        key: object = ("process", number) if each.rank.rank is None else each.rank.rank
        mine = rows.setdefault(key, [])
        if mine and mine[-1].attempt >= each.attempt:  # two of one rank at once: jobs of their own
            rows[key, number] = [each]
        else:
            mine.append(each)
    return list(rows.values())


def _state(known: _Known, ranks: Sequence[RankProcess]) -> tuple[str, str]:
    """The state, and why."""
    process, rank = known
    outcome = outcome_now(rank, ranks) if process.shown or rank.abnormal else None
    if outcome is not None:
        return outcome.state, predicate(outcome, now=True)
    if not rank.alive:
        return "ended", ""
    if not process.shown:
        return "restarted", "it has made no step yet"
    return ("evaluating" if process.evaluating else "training"), ""


def _opened(raw: str, process: Process) -> tuple[Call, ...]:
    """What it is in."""
    try:
        numbers = spans.opened(os.path.join(raw, process.name + spans.SUFFIX))
    except Exception:  # the folder is on its way out; or it was packed, and nothing reads Parquet
        return ()
    return tuple(call for number in numbers if (call := process.call(number)) is not None)


def _earlier(known: _Known) -> str:
    """What became of an attempt that was followed by another one."""
    rank = known.rank
    what = "died" if rank.abnormal else "goes on" if rank.alive else "ended"
    why = f" ({rank.how})" if rank.abnormal else ""
    return f"restarted: attempt {known.attempt} {what} at step {rank.steps}{why}"
