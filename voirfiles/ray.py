"""Ray Tune: a study in the program, each trial in the process that runs it, and what reporting costs it.

A trial of a function is the region `trial`; of a class, each call of its `step` is the region `iteration`.
What trains inside of it is recorded as anywhere else. Ray's own processes record nothing.
"""

from __future__ import annotations

import os
import sys
from time import perf_counter
from typing import Any

LIBRARY = "ray"
TESTED = ("2.60", "2.60")


def instrument_trials(ov: Any) -> None:
    # The thread that runs the function. Ray Train's workers use the same class for what is no trial.
    ov.region(
        "/ray.air._internal.util/RunnerThread/run",
        "trial",
        when=lambda self: is_trial(self),
        what="ray",
    )
    ov.region("/ray.train._internal.session/_TrainSession/report", "report")
    trainable = "/ray.tune.trainable.trainable/Trainable/train"
    ov.region(
        trainable,
        "iteration",
        when=lambda self: not hasattr(self, "_trainable_func"),  # there it waits for that thread
        what=lambda self: type(self).__name__,
    )
    ov.value(trainable, task="trial", get=lambda result: reported(result))


def instrument_parts(ov: Any) -> None:
    """In the processes of trials: which trial they run, and when it ended."""
    runs: dict[str, Any] = {}
    """The trial that the thread of a function runs: its name, and when it began."""

    def begins(thread: Any) -> None:
        session = getattr(sys.modules.get("ray.train._internal.session"), "_session", None)
        info = getattr(session, "trial_info", None)
        if is_trial(thread) and info is not None:
            runs.update(id=info.id, begun=perf_counter())
            ov.record_trial("ray", id=info.id, state="running")

    def ended(thread: Any, _: Any) -> None:
        if is_trial(thread) and runs:
            runs.pop("begun")
            ov.record_trial("ray", **runs)
            runs.clear()

    def raised(error: Any) -> None:
        cause = error.__cause__ or error
        runs["error"] = f"{type(cause).__name__}: {cause}"

    def stopped() -> None:
        # The thread of a trial that is stopped before its function returns ends with its process.
        if runs:
            seconds = perf_counter() - runs.pop("begun")
            ov.record_trial("ray", seconds=seconds, **runs)
            runs.clear()

    def iterated(trainable: Any, result: Any) -> None:
        # The program knows all of this, too, but says so only once the study has ended.
        facts = {"params": trainable.config, "values": results(result)}
        if not hasattr(trainable, "_trainable_func"):
            ov.record_trial("ray", id=trainable.trial_id, **facts)
        elif runs and facts["values"]:  # the last result of a function may only say that it is over
            if "params" not in runs:
                ov.record_trial("ray", id=runs["id"], params=facts["params"], state="running")
            runs.update(facts)

    run = "/ray.air._internal.util/RunnerThread/run"
    trainable = "/ray.tune.trainable.trainable/Trainable"
    ov.value(run, "begins", get=lambda self: begins(self))
    ov.value(
        "/ray.air._internal.util/RunnerThread/_propagate_exception",
        "raised",
        get=lambda e: raised(e),
    )
    ov.value(run, "ended", get=lambda self, result: ended(self, result))
    ov.value(f"{trainable}/stop", "stopped", get=lambda self: stopped())
    ov.value(f"{trainable}/train", "iterated", get=lambda self, result: iterated(self, result))


def instrument_workers(ov: Any) -> None:
    """Once the function of a Ray Train worker has returned, Ray ends its process with an exit code of 1."""
    ov.value(
        "/ray.train.v2._internal.execution.worker_group.thread_runner/ThreadRunner/_monitor_target",
        "returned",
        get=lambda exc, result: ov.exited(os.getpid(), 0) if exc is None else None,
    )


def instrument_study(ov: Any) -> None:
    """In the program: the study, what became of each trial, and which was best."""
    pruned: set[str] = set()
    errors: dict[str, str] = {}
    """The last failure of each trial that had one, by its identifier."""

    def decided(tuner: Any, trial: Any, flat_result: Any, decision: Any) -> None:
        if decision == "STOP" and is_pruned(tuner._scheduler_alg, trial, flat_result):
            pruned.add(trial.trial_id)

    def failed(trial: Any, exception: Any) -> None:
        errors[trial.trial_id] = reason(exception)

    def begins(metric: Any, mode: Any) -> None:
        ov.record_study("ray", **goal(metric, mode))

    def ends(tuner: Any) -> None:
        algorithm, scheduler = tuner._search_alg, tuner._scheduler_alg
        trials = {}
        for number, trial in enumerate(tuner._trials):
            state = {"TERMINATED": "complete", "ERROR": "failed"}.get(trial.status)
            state = "pruned" if trial.trial_id in pruned and state == "complete" else state
            error = errors.get(trial.trial_id) if state == "failed" else None
            if state is None:
                error = f"it was {str(trial.status).lower()} when the study ended"
            trials[trial.trial_id] = {
                "number": number,
                "params": trial.evaluated_params or trial.config,
                "values": results(trial.last_result or {}),
                "state": state or "failed",
                "error": error,
            }
        ov.record_study(
            "ray",
            trials=trials,
            sampler=type(getattr(algorithm, "searcher", algorithm)).__name__,
            pruner=type(scheduler).__name__,
            **goal(getattr(tuner, "_metric", None), getattr(scheduler, "mode", None)),
        )

    def found(metric: Any, mode: Any, grid: Any, result: Any) -> None:
        known = grid._experiment_analysis
        name, goals = metric or known.default_metric, mode or known.default_mode
        ov.record_study("ray", best=result.metrics.get("trial_id"), **goal(name, goals))

    controller = "/ray.tune.execution.tune_controller/TuneController"
    best = "/ray.tune.result_grid/ResultGrid/get_best_result"
    ov.region("/ray._private.worker/init", "deploy", what="ray")
    # At the end of each program that imports it Ray calls this, also of one that never began with it.
    is_begun = lambda: sys.modules["ray"].is_initialized()
    ov.region("/ray._private.worker/shutdown", "undeploy", what="ray", when=is_begun)
    ov.region("/ray.tune.tune/run", "study", what="ray")
    ov.value("/ray.tune.tune/run", "begins", get=lambda metric, mode: begins(metric, mode))
    ov.region(best, "best", what="ray")
    ov.value(
        f"{controller}/_process_trial_result",
        "decided",
        get=lambda self, trial, flat_result, decision, result: decided(
            self, trial, flat_result, decision
        ),
    )
    ov.value(
        f"{controller}/_process_trial_failure",
        "failed",
        get=lambda trial, exception: failed(trial, exception),
    )
    ov.value(f"{controller}/cleanup", "ends", get=lambda self: ends(self))
    ov.value(
        best,
        "best",
        get=lambda metric, mode, self, result: found(metric, mode, self, result),
    )


def reason(exception: BaseException) -> str:
    """Of what the program raised in a trial, not of how Ray reports it: a traceback as a text."""
    cause = getattr(exception, "cause", None) or exception
    lines = [line for line in str(cause).splitlines() if line and not line[0].isspace()]
    if cause is exception and len(lines) > 1:  # a process that died in what made it
        return lines[-1]
    return f"{type(cause).__name__}: {cause}"


def results(last: dict[str, Any]) -> dict[str, Any]:
    """The numbers of the last result of a trial, without how many there were."""
    found = reported({name: value for name, value in last.items() if name != "__duplicate__"})
    found.pop("training_iteration", None)
    return found


def is_pruned(scheduler: Any, trial: Any, result: Any) -> bool:
    """Whether a trial that is stopped had more to do: it was not done, and had reached no limit."""
    if result.get("done"):
        return False
    limits = dict(trial.stopping_criterion)
    limits[getattr(scheduler, "_time_attr", "")] = getattr(scheduler, "_max_t", None)
    return not any(
        limit is not None and result.get(name) is not None and result[name] >= limit
        for name, limit in limits.items()
    )


def goal(metric: Any, mode: Any) -> dict[str, Any]:
    """Metric and goal of a study, where they are known."""
    word = {"min": "minimize", "max": "maximize"}.get(mode)
    return {"metric": metric, "goals": [word] if word else None} if metric else {}


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
