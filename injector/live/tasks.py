"""The tasks of a job: what all its ranks together get through."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from .process import EVALUATION, TRAIN, Process
from .progress import Progress
from .snapshot import Speed, TaskRow

GONE = ("ended", "died")


class Member:
    """One rank of the job, with its state."""

    def __init__(self, process: Process, state: str) -> None:
        self.process = process
        self.there = state not in GONE
        self.busy = state in ("training", "evaluating")


def rows(members: Sequence[Member]) -> tuple[TaskRow, ...]:
    """Each task of the job, training first; those of ranks that have ended only if none is left."""
    there = [member for member in members if member.there] or list(members)
    names = dict.fromkeys(name for member in there for name in member.process.shown)
    order = sorted(names, key=lambda name: (name != TRAIN, name == EVALUATION))
    return tuple(_row(name, [m for m in there if name in m.process.shown]) for name in order)


def _row(name: str, members: Sequence[Member]) -> TaskRow:
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


def _is_at(member: Member, name: str) -> bool:
    """Whether this is what it did last."""
    shown = member.process.shown
    latest = max((progress.latest for progress in shown.values()), default=0)
    return member.busy and shown[name].latest >= latest > 0


def speeds(process: Process) -> dict[str, Speed]:
    """Each task of one rank."""
    return {name: _speed(progress) for name, progress in process.shown.items()}


def _speed(progress: Progress) -> Speed:
    pace, overall = progress.pace(), progress.overall()
    counted = bool(progress.items)
    return Speed(
        progress.steps,
        progress.items,
        None if pace is None else pace.items if counted else pace.steps,
        None if pace is None else pace.step,
        None if overall is None else overall.items if counted else overall.steps,
    )
