"""XGBoost: each boosting round is a step; evaluation, predictions and matrices beside it.

A step is one call of ``Booster.update``, or of ``Booster.boost`` outside of it, from wherever:
``train``, ``cv`` (one a fold and round), the scikit-learn classes, or a loop by hand. Its items are
the rows of the training matrix: under distributed training, the rows that this process holds. Inside of
it is `boost`, what XGBoost does itself in compiled code, and in that the program's own `objective`.
"""

from __future__ import annotations

from typing import Any

from injector import param
from injector.voirfiles._between import Between
from injector.voirfiles._settings import recorded_settings

CALLBACKS = "/xgboost.callback/CallbackContainer"

LIBRARY = "xgboost"
TESTED = ("2.1", "3.2")


def instrument_rounds(ov: Any) -> None:
    for function in ("update", "boost"):
        ov.step(
            f"/xgboost.core/Booster/{function}",
            items=lambda dtrain: dtrain.num_row(),
            outermost="round",  # `update` with a custom objective calls `boost`
        )
        ov.region(f"/xgboost.core/Booster/{function}", "boost", outermost=True)


def instrument_settings(ov: Any) -> None:
    for function in ("train", "cv"):
        ov.override(f"/xgboost.training/{function} > params", recorded_settings(param))


def instrument_functions(ov: Any) -> None:
    def loaded(core: Any) -> None:
        booster = "/xgboost.core/Booster"
        if "grad" in core.Booster.update.__code__.co_varnames:  # before 3.2
            Between(ov, "objective", f"{booster}/update > pred", f"{booster}/update > grad")
        else:
            Between(ov, "objective", f"{booster}/boost > y_pred", f"{booster}/boost > sgrad")
        Between(ov, "metric", f"{booster}/predict > #value", f"{booster}/eval_set > feval_ret")

    ov.after_import("xgboost.core", loaded)
    for function in ("before_iteration", "after_iteration"):
        # The latter evaluates, too; that is a region of its own.
        ov.region(f"{CALLBACKS}/{function}", "callback", when=lambda self: bool(self.callbacks))


def instrument_evaluation(ov: Any) -> None:
    ov.region(
        "/xgboost.core/Booster/eval_set",
        "evaluation",
        when=lambda evals: len(evals) > 0,  # `train` asks each round, also when there is nothing
        items=lambda evals: sum(matrix.num_row() for matrix, *_ in evals),
        phase="eval",
        outermost=True,
    )
    ov.value(
        f"{CALLBACKS}/_update_history",
        task="eval",
        get=lambda score: {each[0]: each[1] for each in score},
    )


def instrument_models(ov: Any) -> None:
    whole = {"outermost": "estimator"}  # shared with scikit-learn's: a search's fits count as one
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
        when=lambda training: not training,  # a custom objective's margins belong to the round
        items=lambda data: rows(data),
        **how,
    )
    ov.region(
        "/xgboost.core/Booster/inplace_predict", "predict", items=lambda data: rows(data), **how
    )


def instrument_matrices(ov: Any) -> None:
    for name in ("DMatrix", "QuantileDMatrix"):
        ov.region(
            f"/xgboost.core/{name}/__init__",
            "dataset",
            items=lambda self, result: rows(self),
            outermost=True,
        )


def rows(data: Any) -> int:
    """How many rows ``data`` has: a matrix, an array, a frame; 0 if it does not say."""
    if hasattr(data, "num_row"):
        return int(data.num_row())
    shape = getattr(data, "shape", None)
    return int(shape[0]) if shape else 0
