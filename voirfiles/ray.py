"""Ray Tune: a study in the program, each trial in the process that runs it, and what reporting costs it.

A trial of a function is the region `trial`; of a class, each call of its `step` is the region `iteration`.
The training within is recorded as in any program. Ray's own processes record nothing.
"""

from __future__ import annotations

import os
import sys
from time import perf_counter
from typing import Any

LIBRARY = "ray"
TESTED = ("2.60", "2.60")

BEST = "/ray.tune.result_grid/ResultGrid/get_best_result"


def instrument_trials(ov: Any) -> None:
    """``trial``, ``iteration`` and ``report``; what each iteration came to."""
    # The thread that runs the function. Ray Train's workers use its class for what is no trial.
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
        # Of a function it waits for its thread.
        when=lambda self: not hasattr(self, "_trainable_func"),
        what=lambda self: type(self).__name__,
    )
    ov.value(trainable, task="trial", get=numbers_of)


def instrument_parts(ov: Any) -> None:
    """In the processes of trials: which trial they run, and when it ended."""
    runs: dict[str, Any] = {}
    """Facts of the trial of a function that this process runs, such as its ``id``, and when it ``begun``."""

    def begin_trial(thread: Any) -> None:
        session = getattr(sys.modules.get("ray.train._internal.session"), "_session", None)
        info = getattr(session, "trial_info", None)
        if is_trial(thread) and info is not None:
            runs.update(id=info.id, begun=perf_counter())
            ov.record_trial("ray", id=info.id, state="running")

    def end_trial(thread: Any, _: Any) -> None:
        if is_trial(thread) and runs:
            runs.pop("begun")
            ov.record_trial("ray", **runs)
            runs.clear()

    def raised(error: Any) -> None:
        cause = error.__cause__ or error
        runs["error"] = f"{type(cause).__name__}: {cause}"

    def stopped() -> None:
        # If a trial is stopped before its function returns, that thread ends with the process.
        if runs:
            seconds = perf_counter() - runs.pop("begun")
            ov.record_trial("ray", seconds=seconds, **runs)
            runs.clear()

    def iterated(trainable: Any, result: Any) -> None:
        # The program knows all of this as well, but records it only when the study has ended.
        facts = {"params": trainable.config, "values": figures(result)}
        if not hasattr(trainable, "_trainable_func"):
            ov.record_trial("ray", id=trainable.trial_id, **facts)
        # The last result of a function may have no values of its own.
        elif runs and facts["values"]:
            if "params" not in runs:
                ov.record_trial("ray", id=runs["id"], params=facts["params"], state="running")
            runs.update(facts)

    run = "/ray.air._internal.util/RunnerThread/run"
    trainable = "/ray.tune.trainable.trainable/Trainable"
    ov.value(run, "begins", get=lambda self: begin_trial(self))
    ov.value(
        "/ray.air._internal.util/RunnerThread/_propagate_exception",
        "raised",
        get=lambda e: raised(e),
    )
    ov.value(run, "ended", get=lambda self, result: end_trial(self, result))
    ov.value(f"{trainable}/stop", "stopped", get=lambda self: stopped())
    ov.value(f"{trainable}/train", "iterated", get=lambda self, result: iterated(self, result))


def instrument_workers(ov: Any) -> None:
    """Record exit code 0 for a Ray Train worker whose function returned: Ray ends its process with 1."""
    ov.value(
        "/ray.train.v2._internal.execution.worker_group.thread_runner/ThreadRunner/_monitor_target",
        "returned",
        get=lambda exc, result: ov.exited(os.getpid(), 0) if exc is None else None,
    )


def instrument_framework(ov: Any) -> None:
    """``deploy``, ``study``, ``best`` and ``undeploy``: in the program, Ray's start, its work and its end."""
    ov.region("/ray._private.worker/init", "deploy", what="ray")
    # Ray calls this at the end of each program that imports it, even if it was never started.
    is_begun = lambda: sys.modules["ray"].is_initialized()
    ov.region("/ray._private.worker/shutdown", "undeploy", what="ray", when=is_begun)
    ov.region("/ray.tune.tune/run", "study", what="ray")
    ov.region(BEST, "best", what="ray")


def instrument_study(ov: Any) -> None:
    """In the program: the study, what became of each trial, and which was best."""
    pruned: set[str] = set()
    """Identifiers of trials."""
    errors: dict[str, str] = {}
    """The last failure of a trial, by its identifier."""

    def decided(tuner: Any, trial: Any, flat_result: Any, decision: Any) -> None:
        if decision == "STOP" and is_pruned(tuner._scheduler_alg, trial, flat_result):
            pruned.add(trial.trial_id)

    def failed(trial: Any, exception: Any) -> None:
        errors[trial.trial_id] = reason(exception)

    def begin(metric: Any, mode: Any) -> None:
        ov.record_study("ray", **metric_and_goal(metric, mode))

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
                "values": figures(trial.last_result or {}),
                "state": state or "failed",
                "error": error,
            }
        ov.record_study(
            "ray",
            trials=trials,
            sampler=type(getattr(algorithm, "searcher", algorithm)).__name__,
            pruner=type(scheduler).__name__,
            **metric_and_goal(getattr(tuner, "_metric", None), getattr(scheduler, "mode", None)),
        )

    def found(metric: Any, mode: Any, grid: Any, result: Any) -> None:
        defaults = grid._experiment_analysis
        name, mode = metric or defaults.default_metric, mode or defaults.default_mode
        ov.record_study("ray", best=result.metrics.get("trial_id"), **metric_and_goal(name, mode))

    controller = "/ray.tune.execution.tune_controller/TuneController"
    ov.value("/ray.tune.tune/run", "begins", get=begin)
    ov.value(
        f"{controller}/_process_trial_result",
        "decided",
        get=lambda self, trial, flat_result, decision, result: decided(
            self, trial, flat_result, decision
        ),
    )
    ov.value(f"{controller}/_process_trial_failure", "failed", get=failed)
    ov.value(f"{controller}/cleanup", "ends", get=lambda self: ends(self))
    ov.value(BEST, "best", get=lambda metric, mode, self, result: found(metric, mode, self, result))


def reason(exception: BaseException) -> str:
    """``ValueError: …``: what the program raised in a trial, from Ray's error with its traceback as text."""
    cause = getattr(exception, "cause", None) or exception
    lines = [line for line in str(cause).splitlines() if line and not line[0].isspace()]
    if cause is exception and len(lines) > 1:  # the process died while its trial was being made
        return lines[-1]
    return f"{type(cause).__name__}: {cause}"


def figures(last: dict[str, Any]) -> dict[str, Any]:
    """The numbers in the last result of a trial, without the number of results."""
    numbers = numbers_of({name: value for name, value in last.items() if name != "__duplicate__"})
    numbers.pop("training_iteration", None)
    return numbers


def is_pruned(scheduler: Any, trial: Any, result: Any) -> bool:
    """Whether a trial was stopped before it was done or had reached a limit."""
    if result.get("done"):
        return False
    limits = dict(trial.stopping_criterion)
    limits[getattr(scheduler, "_time_attr", "")] = getattr(scheduler, "_max_t", None)
    return not any(
        limit is not None and result.get(name) is not None and result[name] >= limit
        for name, limit in limits.items()
    )


def metric_and_goal(metric: Any, mode: Any) -> dict[str, Any]:
    """The metric of a study and its goal, as far as they are known."""
    word = {"min": "minimize", "max": "maximize"}.get(mode)
    return {"metric": metric, "goals": [word] if word else None} if metric else {}


def is_trial(thread: Any) -> bool:
    """Whether this thread runs a function that was passed to Tune."""
    return getattr(thread._target, "__qualname__", "").startswith("FunctionTrainable.")


ADDED_BY_RAY = {
    "iterations_since_restore",
    "pid",
    "time_since_restore",
    "time_this_iter_s",
    "time_total_s",
    "timestamp",
}
"""What Ray adds to each result."""


def numbers_of(result: dict[str, Any]) -> dict[str, Any]:
    """The numbers in a result that the program reported; none of a function's last, which comes twice."""
    if "__duplicate__" in result:
        return {}
    return {
        name: value
        for name, value in result.items()
        if isinstance(value, (int, float))
        and not isinstance(value, bool)
        and name not in ADDED_BY_RAY
    }
