"""The rows of a live view: processes with their states, and the tasks of the whole job.

A job has one row for each rank, and one for each process without a rank that has a task. Of a rank that was
started again, the row is the latest attempt's. What became of a rank (it died, hangs, waits for others) is
decided by :mod:`..analysis.outcomes`, as in the report of a run that is over.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence

from ..analysis.attempts import count_attempts, number_attempts, ranks_among
from ..analysis.outcome_words import predicate
from ..analysis.outcomes import JobActivity, RankProcess, RegionCall, activity_of, outcome_now
from ..store import spans
from ..store.call_sites import INFERENCE
from .parts import EVALUATION, TRAIN
from .process import LiveProcess
from .snapshot import Speed, TaskRow
from .tasks import TaskProgress

GONE = ("ended", "died")
"""The states of a process that has ended."""
BUSY = ("training", "evaluating", INFERENCE)
"""The states of a process that goes on."""


class ProcessState:
    """A process with the state that its row shows."""

    def __init__(self, process: LiveProcess, rank: RankProcess) -> None:
        self.process = process
        self.rank = rank
        """The process as one that may be a rank."""
        self.state = ""
        """As :attr:`.RankRow.state`; :func:`states_of` sets it and the next one."""
        self.notes: tuple[str, ...] = ()

    @property
    def attempt(self) -> int:
        """How often its rank had been started before."""
        return self.rank.attempt or 0

    @property
    def there(self) -> bool:
        """Whether it has not ended."""
        return self.state not in GONE

    @property
    def busy(self) -> bool:
        """Whether it goes on with its tasks."""
        return self.state in BUSY


def states_of(processes: Sequence[LiveProcess], now: float, over: bool) -> list[ProcessState]:
    """The processes that have a row, in the order of ranks; of each rank the process of its latest attempt.

    ``now`` is unix seconds, ``over``: whether the run has ended.
    """
    states = [ProcessState(p, p.as_rank(round(now * 1e9), over)) for p in processes]
    states.sort(key=lambda state: state.process.facts.get("monotonic_ns") or 0)
    count_attempts([state.rank for state in states])
    with_row = _with_row(states)
    number_attempts([state.rank for state in with_row])
    rows = _by_row(with_row)
    latest = [attempts[-1] for attempts in rows]
    # The calls that a process is in are read from its file, so only of those that may hang.
    for state in latest:
        if state.rank.alive and state.rank.silence > state.rank.limit:
            state.rank.opened = _opened(state.process)
    activity = activity_of(state.rank for state in latest if state.rank.alive)
    for attempts in rows:
        state = attempts[-1]
        state.state, note = _state(state, activity)
        state.notes = (*([note] if note else []), *map(_earlier, attempts[:-1]))
    return sorted(latest, key=_order)


def _order(row: ProcessState) -> tuple[bool, int, int]:
    """The key that orders rows: by ranks, then processes without a rank by their numbers."""
    process = row.process
    return process.rank is None, process.rank or 0, process.facts.get("pid") or 0


def _with_row(states: Sequence[ProcessState]) -> list[ProcessState]:
    """Those that have a row: processes with a task, and ranks that have none yet or died before."""
    ranks = set(
        ranks_among(
            [state.rank for state in states], [bool(state.process.shown) for state in states]
        )
    )
    candidates = [s for at, s in enumerate(states) if s.rank.rank is None or at in ranks]
    reached: dict[int | None, int] = {}
    for state in candidates:
        if state.process.shown:
            rank = state.rank.rank
            reached[rank] = max(reached.get(rank, 0), state.attempt)
    return [s for s in candidates if s.process.shown or _is_rank_without_steps(s, reached)]


def _is_rank_without_steps(state: ProcessState, reached: dict[int | None, int]) -> bool:
    """Whether a process is a rank that died before its first step, or was started again without any yet.

    ``reached`` is the latest attempt of each rank that has made steps. An earlier process without steps is no
    rank: a launcher or a helper has the number of its task.
    """
    if state.rank.rank is None or not (state.rank.abnormal or state.attempt > 0):
        return False
    return state.attempt > reached.get(state.rank.rank, -1)


def _by_row(states: Sequence[ProcessState]) -> list[list[ProcessState]]:
    """The attempts of each row in their order, of which the last one is shown."""
    rows: dict[object, list[ProcessState]] = {}
    for number, state in enumerate(states):
        key: object = ("process", number) if state.rank.rank is None else state.rank.rank
        attempts = rows.setdefault(key, [])
        # Two processes of one rank at once are ranks of two jobs that the program started.
        if attempts and attempts[-1].attempt >= state.attempt:
            rows[key, number] = [state]
        else:
            attempts.append(state)
    return list(rows.values())


def _state(state: ProcessState, activity: JobActivity) -> tuple[str, str]:
    """The state of a process among all of its job, and the reason, if it needs one."""
    process, rank = state.process, state.rank
    outcome = outcome_now(rank, activity) if process.shown or rank.abnormal else None
    if outcome is not None:
        return outcome.state, predicate(outcome, now=True)
    if not rank.alive:
        return "ended", ""
    if not process.shown:
        return "restarted", "it has made no step yet"
    return process.doing, ""


def _opened(process: LiveProcess) -> tuple[RegionCall, ...]:
    """The calls that ``process`` is in; none if they cannot be read."""
    try:
        numbers = spans.opened(os.path.join(process.raw, process.name + spans.SUFFIX))
    except Exception:  # the folder is being removed; or it was packed, and pyarrow is not installed
        return ()
    return tuple(call for number in numbers if (call := process.call(number)) is not None)


def _earlier(state: ProcessState) -> str:
    """A sentence on what became of an attempt that was followed by another one."""
    rank = state.rank
    what = "died" if rank.abnormal else "goes on" if rank.alive else "ended"
    why = f" ({rank.how})" if rank.abnormal else ""
    return f"restarted: attempt {state.attempt} {what} at step {rank.steps}{why}"


def task_rows(members: Sequence[ProcessState]) -> tuple[TaskRow, ...]:
    """The tasks of the job, training first. Ranks that have ended count only if no other is left."""
    there = [member for member in members if member.there] or list(members)
    names = dict.fromkeys(name for member in there for name in member.process.shown)
    order = sorted(names, key=lambda name: (name != TRAIN, name == EVALUATION))
    return tuple(_task_row(name, [m for m in there if name in m.process.shown]) for name in order)


def _task_row(name: str, members: Sequence[ProcessState]) -> TaskRow:
    """The row of the task ``name``, of all ``members`` that have it."""
    all_progress = [member.process.shown[name] for member in members]
    counted = all(progress.items for progress in all_progress)
    # A rank that is silent or hangs has no rate now, whatever it was before.
    paces = [m.process.shown[name].pace() for m in members if m.busy or not m.there]
    speeds = [pace for pace in paces if pace is not None]
    overall = [pace for progress in all_progress if (pace := progress.overall()) is not None]
    together = any((member.process.world or 1) > 1 for member in members)
    return TaskRow(
        task=name,
        ranks=len(members),
        steps=(min if together else sum)(progress.steps for progress in all_progress),
        unit="items/s" if counted else "steps/s",
        rate=_rate([p.items if counted else p.steps for p in speeds], counted or not together),
        overall=_rate([p.items if counted else p.steps for p in overall], counted or not together),
        step=max((pace.step for pace in speeds), default=None),
        active=any(_is_at(member, name) for member in members),
    )


def _rate(rates: Iterable[float | None], add: bool) -> float | None:
    """The rate of all ranks: their sum with ``add``, else the median.

    Ranks of one job make each step together: their items add up, their steps do not.
    """
    known = sorted(rate for rate in rates if rate is not None)
    if not known:
        return None
    return sum(known) if add else known[len(known) // 2]


def _is_at(member: ProcessState, name: str) -> bool:
    """Whether a process goes on with the task ``name``, and not with another one."""
    shown = member.process.shown
    latest = max((progress.latest for progress in shown.values()), default=0)
    return member.busy and shown[name].latest >= latest > 0


def speeds(process: LiveProcess) -> dict[str, Speed]:
    """The progress and the rates of one process in each of its tasks."""
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
