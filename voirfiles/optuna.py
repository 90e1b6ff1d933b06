"""Optuna: studies; each trial with its hyper-parameters, what it came to, and Optuna's own work around it.

A trial is what `Study.optimize` runs, or lies between `Study.ask` and `Study.tell`. `deploy` opens the
storage, `setup` is `ask`, `suggest` and `prune` are the sampler's and the pruner's work inside of a trial,
`store` keeps its result, and `best` names the best one.
"""

from __future__ import annotations

from threading import get_ident
from time import perf_counter
from typing import Any

LIBRARY = "optuna"
TESTED = ("3.4", "5.0")


def instrument_trials(ov: Any) -> None:
    begun: dict[tuple[str, int], float] = {}
    """When the trials that go on began, by study and number."""
    errors: dict[int, str] = {}
    """What the trial of a thread has raised."""
    running: dict[int, tuple[str, int, set[str]]] = {}
    """Of the trials that go on, by Optuna's own number: study, number, and the hyper-parameters they have."""

    def raised(error: Any) -> Any:
        if error is None:
            errors.pop(get_ident(), None)
        else:
            errors[get_ident()] = ": ".join(filter(None, (type(error).__name__, str(error))))
        return error

    def begins(study: Any, trial: Any) -> None:
        name, number = study.study_name, trial.number
        begun[name, number] = perf_counter()
        running[trial._trial_id] = name, number, set()
        ov.record_trial("optuna", study=name, goals=goals(study), number=number, state="running")

    def suggested(trial: Any, name: str, value: Any) -> None:
        # What a trial whose process dies was about, as one that needs too much memory.
        study, number, known = running.get(trial._trial_id, ("", 0, {name}))
        if name not in known:
            known.add(name)
            params = {name: value}
            ov.record_trial("optuna", study=study, number=number, params=params, state="running")

    def ended(study: Any, frozen_trial: Any, result: Any) -> dict[str, Any] | None:
        if frozen_trial.state.is_finished():
            return None  # its end has been recorded before
        since = begun.pop((study.study_name, frozen_trial.number), None)
        running.pop(frozen_trial._trial_id, None)
        error = errors.pop(get_ident(), None) or warning(result)
        facts = state(result)
        ov.record_trial(
            "optuna",
            study=study.study_name,
            goals=goals(study),
            number=frozen_trial.number,
            params=frozen_trial.params,
            reports=len(frozen_trial.intermediate_values),
            seconds=None if since is None else perf_counter() - since,
            error=error if facts["state"] == "failed" else None,
            **facts,
        )
        return results(frozen_trial, result)

    ov.region("/optuna.study._optimize/_run_trial", "trial", what="optuna")
    ov.override("/optuna.study._optimize/_run_trial > func_err", raised)
    ov.value(
        "/optuna.study.study/Study/ask", "begun", get=lambda self, result: begins(self, result)
    )
    ov.value(
        "/optuna.trial._trial/Trial/_suggest",
        "suggested",
        get=lambda self, name, result: suggested(self, name, result),
    )
    ov.value("/optuna.study._tell/_tell_with_warning", task="trial", get=ended)


def instrument_framework(ov: Any) -> None:
    for function in ("create_study", "load_study"):
        ov.region(f"/optuna.study.study/{function}", "deploy", what="optuna")
    ov.region("/optuna.study.study/Study/ask", "setup", what="optuna")
    ov.region("/optuna.study._tell/_tell_with_warning", "store", what="optuna")
    ov.region("/optuna.trial._trial/Trial/_suggest", "suggest", what="optuna")
    ov.region("/optuna.trial._trial/Trial/should_prune", "prune", what="optuna")


def instrument_reports(ov: Any) -> None:
    ov.region("/optuna.trial._trial/Trial/report", "report", what="optuna")
    ov.value("/optuna.trial._trial/Trial/report", "reported", task="trial", get=lambda value: value)


def instrument_studies(ov: Any) -> None:
    best: dict[str, int] = {}

    def begins(study: Any) -> None:
        ov.record_study(
            "optuna",
            study=study.study_name,
            goals=goals(study),
            sampler=type(study.sampler).__name__,
            pruner=type(study.pruner).__name__,
        )

    def found(study: Any, trial: Any) -> None:
        if best.get(study.study_name) != trial.number:
            best[study.study_name] = trial.number
            ov.record_study("optuna", study=study.study_name, best=trial.number)

    optimize = "/optuna.study._optimize/_optimize"
    ov.region(optimize, "study", what="optuna")
    ov.value(optimize, "studies", get=lambda study: begins(study))
    for function in ("best_trial", "best_trials"):
        ov.region(f"/optuna.study.study/Study/{function}", "best", what="optuna")
    ov.value(
        "/optuna.study.study/Study/best_trial", "best", get=lambda self, result: found(self, result)
    )


def goals(study: Any) -> list[str]:
    """Whether each value is to be minimized or maximized, without a question to the storage."""
    return [each.name.lower() for each in getattr(study, "_directions", None) or study.directions]


def state(result: Any) -> dict[str, Any]:
    """What a trial has ended with: ``tell`` gives ``(state, values, …)``, in older versions an object."""
    if isinstance(result, tuple):
        ended, values, *_ = result
    else:
        ended, values = result.state, result.values
    word = {"COMPLETE": "complete", "PRUNED": "pruned", "FAIL": "failed"}.get(ended.name)
    return {"state": word, "values": list(values or ())}


def warning(result: Any) -> str | None:
    """What ``tell`` found wrong with what a trial returned."""
    if isinstance(result, tuple):
        return next((str(each) for each in result[2:] if each), None)
    return None


def results(trial: Any, result: Any) -> dict[str, Any]:
    """Number of a trial, whether it was pruned or failed, its value; several are `value_0`, …"""
    ended = state(result)
    found = {
        "number": trial.number,
        "pruned": int(ended["state"] == "pruned"),
        "failed": int(ended["state"] == "failed"),
    }
    if len(ended["values"]) == 1:
        return {**found, "value": ended["values"][0]}
    return {**found, **{f"value_{at}": value for at, value in enumerate(ended["values"])}}
