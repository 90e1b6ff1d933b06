"""Optuna: studies; each trial with its hyper-parameters, what it came to, and Optuna's own work around it.

A trial is what `Study.optimize` runs, or lies between `Study.ask` and `Study.tell`. `deploy` opens the
storage, `setup` is `ask`, `suggest` and `prune` are the work of the sampler and the pruner within a trial,
`store` keeps its result, and `best` finds the best one.
"""

from __future__ import annotations

from threading import get_ident
from time import perf_counter
from typing import Any

LIBRARY = "optuna"
TESTED = ("3.4", "5.0")


def instrument_trials(ov: Any) -> None:
    """``trial``, and what is known of each trial while it runs and at its end."""
    begun: dict[tuple[str, int], float] = {}
    """When each running trial began, by study and number."""
    errors: dict[int, str] = {}
    """By thread, what its trial has raised."""
    running: dict[int, tuple[str, int, set[str]]] = {}
    """Study, number and recorded hyper-parameters of each running trial, by Optuna's id of it."""

    def raised(error: Any) -> Any:
        if error is None:
            errors.pop(get_ident(), None)
        else:
            errors[get_ident()] = ": ".join(filter(None, (type(error).__name__, str(error))))
        return error

    def begin_trial(study: Any, trial: Any) -> None:
        name, number = study.study_name, trial.number
        begun[name, number] = perf_counter()
        running[trial._trial_id] = name, number, set()
        ov.record_trial("optuna", study=name, goals=goals_of(study), number=number, state="running")

    def suggested(trial: Any, name: str, value: Any) -> None:
        # Recorded at once: the process of a trial may die, as when it runs out of memory.
        study, number, known = running.get(trial._trial_id, ("", 0, {name}))
        if name not in known:
            known.add(name)
            params = {name: value}
            ov.record_trial("optuna", study=study, number=number, params=params, state="running")

    def ended(study: Any, frozen_trial: Any, result: Any) -> dict[str, Any] | None:
        if frozen_trial.state.is_finished():
            return None  # its end has been recorded already
        since = begun.pop((study.study_name, frozen_trial.number), None)
        running.pop(frozen_trial._trial_id, None)
        error = errors.pop(get_ident(), None) or warning_of(result)
        facts = outcome(result)
        ov.record_trial(
            "optuna",
            study=study.study_name,
            goals=goals_of(study),
            number=frozen_trial.number,
            params=frozen_trial.params,
            reports=len(frozen_trial.intermediate_values),
            seconds=None if since is None else perf_counter() - since,
            error=error if facts["state"] == "failed" else None,
            **facts,
        )
        return figures(frozen_trial, result)

    ov.region("/optuna.study._optimize/_run_trial", "trial", what="optuna")
    ov.override("/optuna.study._optimize/_run_trial > func_err", raised)
    ov.value(
        "/optuna.study.study/Study/ask", "begun", get=lambda self, result: begin_trial(self, result)
    )
    ov.value(
        "/optuna.trial._trial/Trial/_suggest",
        "suggested",
        get=lambda self, name, result: suggested(self, name, result),
    )
    ov.value("/optuna.study._tell/_tell_with_warning", task="trial", get=ended)


def instrument_framework(ov: Any) -> None:
    """Optuna's own work around trials."""
    for function in ("create_study", "load_study"):
        ov.region(f"/optuna.study.study/{function}", "deploy", what="optuna")
    ov.region("/optuna.study.study/Study/ask", "setup", what="optuna")
    ov.region("/optuna.study._tell/_tell_with_warning", "store", what="optuna")
    ov.region("/optuna.trial._trial/Trial/_suggest", "suggest", what="optuna")
    ov.region("/optuna.trial._trial/Trial/should_prune", "prune", what="optuna")


def instrument_reports(ov: Any) -> None:
    """``report``, and the values that trials report while they run."""
    ov.region("/optuna.trial._trial/Trial/report", "report", what="optuna")
    ov.value("/optuna.trial._trial/Trial/report", "reported", task="trial", get=lambda value: value)


def instrument_studies(ov: Any) -> None:
    """``study``, ``best``, and what is known of each study."""
    best: dict[str, int] = {}
    """By study, the number of the best trial, if the program has looked it up."""

    def begin(study: Any) -> None:
        ov.record_study(
            "optuna",
            study=study.study_name,
            goals=goals_of(study),
            sampler=type(study.sampler).__name__,
            pruner=type(study.pruner).__name__,
        )

    def found(study: Any, trial: Any) -> None:
        if best.get(study.study_name) != trial.number:
            best[study.study_name] = trial.number
            ov.record_study("optuna", study=study.study_name, best=trial.number)

    optimize = "/optuna.study._optimize/_optimize"
    ov.region(optimize, "study", what="optuna")
    ov.value(optimize, "studies", get=begin)
    for function in ("best_trial", "best_trials"):
        ov.region(f"/optuna.study.study/Study/{function}", "best", what="optuna")
    ov.value(
        "/optuna.study.study/Study/best_trial", "best", get=lambda self, result: found(self, result)
    )


def goals_of(study: Any) -> list[str]:
    """``minimize`` or ``maximize`` for each value, if possible without a query to the storage."""
    return [goal.name.lower() for goal in getattr(study, "_directions", None) or study.directions]


def outcome(result: Any) -> dict[str, Any]:
    """State and values of a trial from the result of ``tell``: a tuple, or a trial in older versions."""
    if isinstance(result, tuple):
        ended, values, *_ = result
    else:
        ended, values = result.state, result.values
    word = {"COMPLETE": "complete", "PRUNED": "pruned", "FAIL": "failed"}.get(ended.name)
    return {"state": word, "values": list(values or ())}


def warning_of(result: Any) -> str | None:
    """The warning of ``tell`` about what a trial returned, if any."""
    if isinstance(result, tuple):
        return next((str(text) for text in result[2:] if text), None)
    return None


def figures(trial: Any, result: Any) -> dict[str, Any]:
    """Number of a trial, 1 if it was pruned or failed, and its ``value``; several are ``value_0``, …"""
    ended = outcome(result)
    facts = {
        "number": trial.number,
        "pruned": int(ended["state"] == "pruned"),
        "failed": int(ended["state"] == "failed"),
    }
    if len(ended["values"]) == 1:
        return {**facts, "value": ended["values"][0]}
    return {**facts, **{f"value_{at}": value for at, value in enumerate(ended["values"])}}
