"""Ray Tune: each trial in the process that runs it, what it reports, and how long reporting holds it up.

A trial of a function is the region `trial`; of a class, each call of its `step` is the region `iteration`.
What trains inside of it is recorded as anywhere else. Ray's own processes record nothing.
"""

from __future__ import annotations

from typing import Any

LIBRARY = "ray"
TESTED = ("2.60", "2.60")


def instrument_trials(ov: Any) -> None:
    # The thread that runs the function. Ray Train's workers use the same class for what is no trial.
    ov.region("/ray.air._internal.util/RunnerThread/run", "trial", when=lambda self: is_trial(self))
    ov.region("/ray.train._internal.session/_TrainSession/report", "report")
    trainable = "/ray.tune.trainable.trainable/Trainable/train"
    ov.region(
        trainable,
        "iteration",
        when=lambda self: not hasattr(self, "_trainable_func"),  # there it waits for that thread
        what=lambda self: type(self).__name__,
    )
    ov.value(trainable, task="trial", get=lambda result: reported(result))


def is_trial(thread: Any) -> bool:
    """Whether this thread runs a function that Tune was given."""
    return getattr(thread._target, "__qualname__", "").startswith("FunctionTrainable.")


ADDED = {
    "iterations_since_restore",
    "pid",
    "time_since_restore",
    "time_this_iter_s",
    "time_total_s",
    "timestamp",
}
"""What Ray adds to each result."""


def reported(result: dict[str, Any]) -> dict[str, Any]:
    """The numbers of a result that the program gave; the last one of a function comes twice."""
    if "__duplicate__" in result:
        return {}
    return {
        name: value
        for name, value in result.items()
        if isinstance(value, (int, float)) and not isinstance(value, bool) and name not in ADDED
    }
