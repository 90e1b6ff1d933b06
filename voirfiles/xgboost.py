"""XGBoost: each boosting round is a step; evaluation, predictions and matrices beside it.

A step is one call of ``Booster.update``, or of ``Booster.boost`` outside of it, whether by ``train``, by
``cv`` (one a fold and round), by the scikit-learn classes or by the program. Its items are the rows of the
training matrix; in distributed training, those that this process holds. Within it is `boost`, the work of
XGBoost's compiled code, and in that the program's own `objective`.
"""

from __future__ import annotations

from typing import Any

from injector import param
from injector.voirfiles._between import Between
from injector.voirfiles._settings import recorded_settings

LIBRARY = "xgboost"
TESTED = ("2.1", "3.2")

CALLBACKS = "/xgboost.callback/CallbackContainer"


def instrument_rounds(ov: Any) -> None:
    """A step for each boosting round, and ``boost`` in it."""
    for function in ("update", "boost"):
        ov.step(
            f"/xgboost.core/Booster/{function}",
            items=lambda dtrain: dtrain.num_row(),
            outermost="round",  # `update` with a custom objective calls `boost`
        )
        ov.region(f"/xgboost.core/Booster/{function}", "boost", outermost=True)


def instrument_settings(ov: Any) -> None:
    """The settings of a training, as parameters of the run."""
    for function in ("train", "cv"):
        ov.override(f"/xgboost.training/{function} > params", recorded_settings(param))


def instrument_functions(ov: Any) -> None:
    """``objective``, ``metric`` and ``callback``: functions of the program, by lines around their calls."""

    def loaded(core: Any) -> None:
        booster = "/xgboost.core/Booster"
        if "grad" in core.Booster.update.__code__.co_varnames:  # before 3.2
            Between(ov, "objective", f"{booster}/update > pred", f"{booster}/update > grad")
        else:
            Between(ov, "objective", f"{booster}/boost > y_pred", f"{booster}/boost > sgrad")
        Between(ov, "metric", f"{booster}/predict > #value", f"{booster}/eval_set > feval_ret")

    ov.after_import("xgboost.core", loaded)
    for function in ("before_iteration", "after_iteration"):
        # after_iteration evaluates as well, which is a region of its own.
        ov.region(f"{CALLBACKS}/{function}", "callback", when=lambda self: bool(self.callbacks))


def instrument_evaluation(ov: Any) -> None:
    """``evaluation``, and its metrics."""
    ov.region(
        "/xgboost.core/Booster/eval_set",
        "evaluation",
        when=lambda evals: len(evals) > 0,  # `train` calls it with an empty list as well
        items=lambda evals: sum(matrix.num_row() for matrix, *_ in evals),
        phase="eval",
        outermost=True,
    )
    ov.value(
        f"{CALLBACKS}/_update_history",
        task="eval",
        get=lambda score: {metric: value for metric, value, *_ in score},
    )


def instrument_models(ov: Any) -> None:
    """``fit`` and ``predict``: outermost calls, as scikit-learn's; a search's fits count as one."""
    whole = {"outermost": "estimator"}
    for name in ("XGBModel", "XGBClassifier", "XGBRanker"):
        ov.region(f"/xgboost.sklearn/{name}/fit", "fit", items=lambda X: rows(X), **whole)
    ov.region("/xgboost.training/train", "fit", items=lambda dtrain: rows(dtrain), **whole)
    ov.region("/xgboost.training/cv", "fit", items=lambda dtrain: rows(dtrain), **whole)
    how = {"phase": "eval", **whole}
    for name in ("XGBModel", "XGBClassifier", "XGBRFClassifier", "XGBRanker"):
        ov.region(f"/xgboost.sklearn/{name}/predict", "predict", items=lambda X: rows(X), **how)
    ov.region(
        "/xgboost.core/Booster/predict",
        "predict",
        # Else it is for a custom objective, which is a part of the round.
        when=lambda training: not training,
        items=lambda data: rows(data),
        **how,
    )
    ov.region(
        "/xgboost.core/Booster/inplace_predict", "predict", items=lambda data: rows(data), **how
    )


def instrument_matrices(ov: Any) -> None:
    """``dataset``: making a matrix."""
    for name in ("DMatrix", "QuantileDMatrix"):
        ov.region(
            f"/xgboost.core/{name}/__init__",
            "dataset",
            items=lambda self, result: rows(self),
            outermost=True,
        )


def rows(data: Any) -> int:
    """The rows of a matrix, an array or a frame; 0 of anything else."""
    if hasattr(data, "num_row"):
        return int(data.num_row())
    shape = getattr(data, "shape", None)
    return int(shape[0]) if shape else 0
