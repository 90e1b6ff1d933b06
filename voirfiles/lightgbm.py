"""LightGBM: each boosting round is a step; evaluation, predictions and the binning of data beside it.

A step is one call of ``Booster.update``, from wherever: ``train``, ``cv`` (one a fold and round),
the scikit-learn classes, or a loop by hand. Its items are the rows of the training set. Inside of it is
`boost`, what LightGBM does itself in compiled code, and in that the program's own `objective`.
"""

from __future__ import annotations

from typing import Any

from injector.voirfiles._between import Between

LIBRARY = "lightgbm"
TESTED = ("4.0", "4.7")


def instrument_rounds(ov: Any) -> None:
    # The rows are counted when the round is over: the first one may have to build the data set.
    ov.step("/lightgbm.basic/Booster/update", items=lambda self, result: self.train_set.num_data())
    ov.region("/lightgbm.basic/Booster/update", "boost", outermost=True)


def instrument_functions(ov: Any) -> None:
    # Which functions those are is only known when they are called: with predictions, between two lines.
    booster = "/lightgbm.basic/Booster"
    predicted = f"{booster}/_Booster__inner_predict > #value"
    Between(ov, "objective", predicted, f"{booster}/update > grad")
    Between(ov, "metric", predicted, f"{booster}/_Booster__inner_eval > feval_ret")
    for function in ("train", "cv"):
        where = f"/lightgbm.engine/{function}"
        # Before it boosts, it only sorts them, in a loop of the same kind.
        begun, sorted_ = f"{where} > params", f"{where} > callbacks_after_iter"
        Between(ov, "callback", f"{where} > cb", f"{where} > #endloop_cb", begun, sorted_)


def instrument_evaluation(ov: Any) -> None:
    how = {"phase": "eval", "outermost": True}
    booster = "/lightgbm.basic/Booster"
    ov.region(f"{booster}/eval_train", "evaluation", items=lambda self: rows(self.train_set), **how)
    ov.region(
        f"{booster}/eval_valid",
        "evaluation",
        when=lambda self: bool(self.valid_sets),  # without valid_sets it has nothing to do
        items=lambda self: sum(map(rows, self.valid_sets)),
        **how,
    )
    ov.region(f"{booster}/eval", "evaluation", items=lambda data: rows(data), **how)
    for function in ("eval_train", "eval_valid", "eval"):
        ov.value(f"{booster}/{function}", task="eval", get=lambda result: metrics(result))


def instrument_models(ov: Any) -> None:
    whole = {"outermost": "estimator"}  # shared with scikit-learn's: a search's fits count as one
    ov.region("/lightgbm.sklearn/LGBMModel/fit", "fit", items=lambda X: rows(X), **whole)
    ov.region("/lightgbm.engine/train", "fit", items=lambda train_set: rows(train_set), **whole)
    ov.region("/lightgbm.engine/cv", "fit", items=lambda train_set: rows(train_set), **whole)
    for where in ("/lightgbm.sklearn/LGBMModel", "/lightgbm.sklearn/LGBMClassifier"):
        ov.region(f"{where}/predict", "predict", phase="eval", items=lambda X: rows(X), **whole)
    ov.region(
        "/lightgbm.basic/Booster/predict",
        "predict",
        phase="eval",
        items=lambda data: rows(data),
        **whole,
    )


def instrument_datasets(ov: Any) -> None:
    ov.region(
        "/lightgbm.basic/Dataset/construct",
        "dataset",
        when=lambda self: self._handle is None,  # else it is there already
        items=lambda result: rows(result),
        outermost=True,
    )


def metrics(results: Any) -> dict[str, Any]:
    """``{"valid_0-auc": 0.9}`` of what an evaluation returns: tuples of data set, metric, value, …"""
    return {f"{each[0]}-{each[1]}": each[2] for each in results}


def rows(data: Any) -> int:
    """How many rows ``data`` has: a data set, an array, a frame; 0 if it does not say."""
    if hasattr(data, "num_data"):
        return int(data.num_data()) if data._handle is not None else rows(data.data)
    shape = getattr(data, "shape", None)
    return int(shape[0]) if shape else 0
