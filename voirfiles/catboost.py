"""CatBoost: fits and predictions, with their rows, and the data sets that are made for them.

`boost` is the training itself. Its rounds run in compiled code and are no steps: a callback would be given
all results so far after each, which takes longer than the round after some thousand of them. The number of
trees, and the last value of each metric, are those of the trained model.
"""

from __future__ import annotations

from typing import Any

from injector import param
from injector.voirfiles._settings import recorded_settings

LIBRARY = "catboost"
TESTED = ("1.2", "1.2")

MODEL = "/catboost.core/CatBoost"


def instrument_fit(ov: Any) -> None:
    """``fit``, and ``boost`` in it; parameters and metrics."""
    how = {"what": lambda self: type(self).__name__, "outermost": "estimator"}
    ov.region(f"{MODEL}/_fit", "fit", items=lambda X: rows(X), of=lambda self: type(self), **how)
    ov.region(f"{MODEL}/_tune_hyperparams", "fit", items=lambda X: rows(X), **how)
    ov.region("/catboost.core/cv", "fit", what="cv", items=lambda pool: rows(pool))
    train = "/catboost.core/_CatBoostBase/_train"
    ov.region(train, "boost", items=lambda train_pool: rows(train_pool), outermost=True)
    ov.override(f"{train} > params", recorded_settings(param))
    ov.value(train, task="eval", get=lambda self, result: figures(self))


def instrument_predict(ov: Any) -> None:
    """``predict``: predictions of models, not those within another estimator's."""
    ov.region(
        f"{MODEL}/_predict",
        "predict",
        phase="eval",
        items=lambda data: rows(data),
        of=lambda self: type(self),
        what=lambda self: type(self).__name__,
        outermost="estimator",
    )


def instrument_datasets(ov: Any) -> None:
    """``dataset``: making a ``Pool``."""
    ov.region(
        "/catboost.core/Pool/__init__",
        "dataset",
        items=lambda self, result: rows(self),
        outermost=True,
    )


def figures(model: Any) -> dict[str, float]:
    """``{"trees": 200, "learn-Logloss": 0.01}`` of a model that was just trained: the last of each metric."""
    metrics = {
        f"{dataset}-{metric}": float(values[-1])
        for dataset, values_of in model.evals_result_.items()
        for metric, values in values_of.items()
        if len(values)
    }
    return {"trees": model.tree_count_, **metrics}


def rows(data: Any) -> int:
    """The rows of a pool, an array, a frame, a list of rows, or of one row; 0 of anything else."""
    if hasattr(data, "num_row"):
        return int(data.num_row())
    shape = getattr(data, "shape", None)
    if shape is None and isinstance(data, (list, tuple)) and data:
        is_row = isinstance(data[0], str) or not hasattr(data[0], "__len__")
        return 1 if is_row else len(data)
    if not shape:
        return 0
    return int(shape[0]) if len(shape) > 1 else 1
