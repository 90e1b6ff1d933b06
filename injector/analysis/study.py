"""A study of hyper-parameters as plain values with units: its trials, and the phases of its life."""

from __future__ import annotations

from collections.abc import Mapping

from ..store.call_sites import SourceLine
from ..value_class import value_class


@value_class
class WorkerRun:
    """A trial, or a part of one such as a fold, as one worker ran it. Seconds since the study began."""

    worker: int
    process: int
    """Its index in ``processes`` of run.json."""
    began: float
    seconds: float


@value_class
class Trial:
    """One combination of hyper-parameters that was tried; seconds are added up over parallel parts."""

    number: int
    """From 0: the framework's own number, or one in the order of time."""
    id: str
    """The framework's name for it; empty if it has only a number."""
    params: Mapping[str, object]
    values: Mapping[str, float]
    """Its results by name, means over folds. A single one may have an empty name."""
    state: str
    """``complete``, ``pruned`` or ``failed``."""
    error: str
    """Why it failed, as far as is known."""
    began: float = 0.0
    """Seconds since the study began."""
    seconds: float = 0.0
    """From its first line to its last."""
    setup: float = 0.0
    """Seconds before it in which its worker was free, while the study went on."""
    load: float | None = None
    """Seconds before it first trained or evaluated; None, as are the next two, if it did neither."""
    train: float | None = None
    validate: float | None = None
    framework: float = 0.0
    """Seconds in functions of the framework that it called."""
    other: float = 0.0
    store: float = 0.0
    """Seconds after it, until its result was stored."""
    steps: int = 0
    """Training steps."""
    reports: int = 0
    """Intermediate values that it reported."""
    last: bool = False
    """Whether it was the last one to end."""
    runs: tuple[WorkerRun, ...] = ()


METRICS = "metric collection"
"""The phase of a study that comes after its program has ended."""


@value_class
class StudyPhase:
    """A part of the life of a study. Unix seconds; figures of use are None if they are not known."""

    name: str
    """``deploy setup load train validate other framework store``, ``result collection``, ``refit``, ``test``,
    ``un-deploy``, ``metric collection``; ``framework`` is what its functions take inside of trials."""
    began: float
    ended: float
    seconds: float
    """The sum over all workers."""
    calls: int
    """The number of trials, or of spans."""
    cpu: float | None
    """Seconds of processor time."""
    peak_rss: int | None
    """Resident bytes of the program's processes together, at the peak."""
    energy: float | None
    """Joules that the devices used."""

    @property
    def is_of_inject(self) -> bool:
        """Whether the program had ended: ``inject`` itself collected the record."""
        return self.name == METRICS


@value_class
class Study:
    """A hyper-parameter study; :mod:`.studies`. Seconds."""

    framework: str
    name: str
    goals: tuple[str, ...]
    """``minimize`` or ``maximize`` for each value; empty if not known."""
    metric: str
    """The name of the first value; may be empty."""
    sampler: str
    pruner: str
    place: SourceLine | None
    started: float
    """Unix seconds."""
    seconds: float
    """Seconds until the best trial was known."""
    workers: int
    trials: tuple[Trial, ...]
    best: tuple[int, ...]
    """Numbers of the best trials: one, or with several goals all that no other trial dominates."""
    aborted: bool
    """Whether the program ended with an error, and its last trial failed."""
    in_trials: float
    """Seconds of all workers in trials, without the framework's functions there."""
    in_framework: float
    """Seconds of all workers in the framework: setup, its functions, storing."""
    idle: float
    """Seconds of workers that had no more trials to run."""
    phases: tuple[StudyPhase, ...]

    @property
    def best_trial(self) -> Trial | None:
        """The best trial; None if none is known, or several are."""
        best = [trial for trial in self.trials if trial.number in self.best]
        return best[0] if len(best) == 1 else None

    def counts(self) -> dict[str, int]:
        """The number of trials in each state."""
        states = [trial.state for trial in self.trials]
        return {word: states.count(word) for word in ("complete", "pruned", "failed")}
