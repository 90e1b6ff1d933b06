"""The rows of a live view: processes with their states, and the tasks of the whole job."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence

from ..analysis.attempts import count_attempts, number_attempts
from ..analysis.outcomes import (
    JobActivity,
    RankProcess,
    RegionCall,
    activity_of,
    outcome_now,
    predicate,
    ranks_among,
)
from ..store import spans
from ..store.call_sites import INFERENCE
from .parts import EVALUATION, TRAIN, TaskProgress
from .process import LiveProcess
from .snapshot import Speed, TaskRow

GONE = ("ended", "died")
BUSY = ("training", "evaluating", INFERENCE)


class ProcessState:
    """A process, what is known of it as a rank, and the state that its row shows."""

    def __init__(self, process: LiveProcess, rank: RankProcess) -> None:
        self.process = process
        self.rank = rank
        self.state = ""
        self.notes: tuple[str, ...] = ()

    @property
    def attempt(self) -> int:
        return self.rank.attempt or 0

    @property
    def there(self) -> bool:
        """Whether it has not ended."""
        return self.state not in GONE

    @property
    def busy(self) -> bool:
        return self.state in BUSY


def states_of(processes: Sequence[LiveProcess], now: float, over: bool) -> list[ProcessState]:
    """The processes that have a row, of each rank that of the latest attempt, in the order of ranks.

    ``now`` is unix seconds, ``over``: whether the run has ended.
    """
    known = [ProcessState(each, each.as_rank(round(now * 1e9), over)) for each in processes]
    known.sort(key=lambda each: each.process.facts.get("monotonic_ns") or 0)
    count_attempts([each.rank for each in known])
    chosen = _chosen(known)
    number_attempts([each.rank for each in chosen])
    rows = _by_row(chosen)
    latest = [attempts[-1] for attempts in rows]
    for each in latest:
        if each.rank.alive and each.rank.silence > each.rank.limit:
            each.rank.opened = _opened(each.process)
    there = activity_of(each.rank for each in latest if each.rank.alive)
    for attempts in rows:
        each = attempts[-1]
        each.state, note = _state(each, there)
        each.notes = (*([note] if note else []), *map(_earlier, attempts[:-1]))
    return sorted(latest, key=_order)


def _order(row: ProcessState) -> tuple[bool, int, int]:
    process = row.process
    return process.rank is None, process.rank or 0, process.facts.get("pid") or 0


def _chosen(known: Sequence[ProcessState]) -> list[ProcessState]:
    """Those that have a row: what has a task, and ranks that have none yet, or died before."""
    ranks = set(
        ranks_among([each.rank for each in known], [bool(each.process.shown) for each in known])
    )
    found = [each for at, each in enumerate(known) if each.rank.rank is None or at in ranks]
    reached: dict[int | None, int] = {}
    for each in found:
        if each.process.shown:
            rank = each.rank.rank
            reached[rank] = max(reached.get(rank, 0), each.attempt)
    return [e for e in found if e.process.shown or _is_a_rank_without_steps(e, reached)]


def _is_a_rank_without_steps(each: ProcessState, reached: dict[int | None, int]) -> bool:
    """Whether it was to be a rank: it died before it did anything, or has just been started again."""
    if each.rank.rank is None or not (each.rank.abnormal or each.attempt > 0):
        return False
    return each.attempt > reached.get(each.rank.rank, -1)


def _by_row(chosen: Sequence[ProcessState]) -> list[list[ProcessState]]:
    """For each row its attempts in order: the last one is shown."""
    rows: dict[object, list[ProcessState]] = {}
    for number, each in enumerate(chosen):
        key: object = ("process", number) if each.rank.rank is None else each.rank.rank
        mine = rows.setdefault(key, [])
        if mine and mine[-1].attempt >= each.attempt:  # two of one rank at once: jobs of their own
            rows[key, number] = [each]
        else:
            mine.append(each)
    return list(rows.values())


def _state(known: ProcessState, ranks: JobActivity) -> tuple[str, str]:
    """The state, and why."""
    process, rank = known.process, known.rank
    outcome = outcome_now(rank, ranks) if process.shown or rank.abnormal else None
    if outcome is not None:
        return outcome.state, predicate(outcome, now=True)
    if not rank.alive:
        return "ended", ""
    if not process.shown:
        return "restarted", "it has made no step yet"
    return process.doing, ""


def _opened(process: LiveProcess) -> tuple[RegionCall, ...]:
    """What it is in."""
    try:
        numbers = spans.opened(os.path.join(process.raw, process.name + spans.SUFFIX))
    except Exception:  # the folder is on its way out; or it was packed, and nothing reads Parquet
        return ()
    return tuple(call for number in numbers if (call := process.call(number)) is not None)


def _earlier(known: ProcessState) -> str:
    """What became of an attempt that was followed by another one."""
    rank = known.rank
    what = "died" if rank.abnormal else "goes on" if rank.alive else "ended"
    why = f" ({rank.how})" if rank.abnormal else ""
    return f"restarted: attempt {known.attempt} {what} at step {rank.steps}{why}"


def task_rows(members: Sequence[ProcessState]) -> tuple[TaskRow, ...]:
    """Each task of the job, training first; those of ranks that have ended only if none is left."""
    there = [member for member in members if member.there] or list(members)
    names = dict.fromkeys(name for member in there for name in member.process.shown)
    order = sorted(names, key=lambda name: (name != TRAIN, name == EVALUATION))
    return tuple(_task_row(name, [m for m in there if name in m.process.shown]) for name in order)


def _task_row(name: str, members: Sequence[ProcessState]) -> TaskRow:
    each = [member.process.shown[name] for member in members]
    counted = all(progress.items for progress in each)
    paces = [m.process.shown[name].pace() for m in members if m.busy or not m.there]
    speeds = [pace for pace in paces if pace is not None]
    overall = [pace for progress in each if (pace := progress.overall()) is not None]
    together = any((member.process.world or 1) > 1 for member in members)
    return TaskRow(
        task=name,
        ranks=len(members),
        steps=(min if together else sum)(progress.steps for progress in each),
        unit="items/s" if counted else "steps/s",
        rate=_rate([p.items if counted else p.steps for p in speeds], counted or not together),
        overall=_rate([p.items if counted else p.steps for p in overall], counted or not together),
        step=max((pace.step for pace in speeds), default=None),
        active=any(_is_at(member, name) for member in members),
    )


def _rate(rates: Iterable[float | None], add: bool) -> float | None:
    """Of all ranks: those that make each step together make one step, not one each."""
    known = sorted(rate for rate in rates if rate is not None)
    if not known:
        return None
    return sum(known) if add else known[len(known) // 2]


def _is_at(member: ProcessState, name: str) -> bool:
    """Whether this is what it did last."""
    shown = member.process.shown
    latest = max((progress.latest for progress in shown.values()), default=0)
    return member.busy and shown[name].latest >= latest > 0


def speeds(process: LiveProcess) -> dict[str, Speed]:
    """Each task of one rank."""
    return {name: _speed(progress) for name, progress in process.shown.items()}


def _speed(progress: TaskProgress) -> Speed:
    pace = progress.pace()
    return Speed(
        progress.steps,
        progress.items,
        progress.rate(pace),
        None if pace is None else pace.step,
        progress.rate(progress.overall()),
    )
