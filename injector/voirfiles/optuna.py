"""Optuna: each trial of a study, and in the order in which they end their numbers, values and states.

A trial is what `Study.optimize` runs; between `Study.ask` and `Study.tell` there is no call to measure, so
that of such trials only what they ended with is recorded.
"""

LIBRARY = "optuna"
TESTED = ("3.4", "5.0")


def instrument_trials(ov):
    ov.region("/optuna.study._optimize/_run_trial", "trial")
    ov.value(
        "/optuna.study._tell/_tell_with_warning",
        task="trial",
        get=lambda trial, result: told(trial, result),
    )


def instrument_reports(ov):
    ov.value("/optuna.trial._trial/Trial/report", "reported", task="trial", get=lambda value: value)


def told(trial, result):
    """Number, state and value of a trial; several values are `value_0`, `value_1`, …

    ``result`` is ``(state, values, …)``, of older versions an object that has them.
    """
    state, values = result[:2] if isinstance(result, tuple) else (result.state, result.values)
    found = {"number": getattr(trial, "number", trial), "state": state.name}
    names = (
        ["value"] if len(values or ()) == 1 else [f"value_{n}" for n in range(len(values or ()))]
    )
    return {**found, **dict(zip(names, values or ()))}
