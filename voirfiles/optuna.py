"""Optuna: each trial of a study; as it ends its number, its value, whether it was pruned or failed.

A trial is what `Study.optimize` runs; between `Study.ask` and `Study.tell` there is no call to measure, so
that of such trials only what they ended with is recorded.
"""

from __future__ import annotations

from typing import Any

LIBRARY = "optuna"
TESTED = ("3.4", "5.0")


def instrument_trials(ov: Any) -> None:
    ov.region("/optuna.study._optimize/_run_trial", "trial")
    ov.value(
        "/optuna.study._tell/_tell_with_warning",
        task="trial",
        get=lambda trial, result: results(trial, result),
    )


def instrument_reports(ov: Any) -> None:
    ov.value("/optuna.trial._trial/Trial/report", "reported", task="trial", get=lambda value: value)


def results(trial: Any, result: Any) -> dict[str, Any]:
    """Number of a trial, whether it was pruned or failed, its value; several are `value_0`, …

    ``result`` is ``(state, values, …)``, of older versions an object that has them.
    """
    if isinstance(result, tuple):
        state, values, *_ = result
    else:
        state, values = result.state, result.values
    found = {
        "number": getattr(trial, "number", trial),
        "pruned": int(state.name == "PRUNED"),
        "failed": int(state.name == "FAIL"),
    }
    values = list(values or ())
    if len(values) == 1:
        return {**found, "value": values[0]}
    return {**found, **{f"value_{at}": value for at, value in enumerate(values)}}
