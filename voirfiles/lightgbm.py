"""LightGBM: each boosting round is a step; evaluation, predictions and the binning of data beside it.

A step is one call of ``Booster.update``, from wherever: ``train``, ``cv`` (one a fold and round),
the scikit-learn classes, or a loop by hand. Its items are the rows of the training set. Inside of it is
`boost`, what LightGBM does itself in compiled code, and in that the program's own `objective`.
"""

from __future__ import annotations

from typing import Any

from injector import param
from injector.voirfiles._between import Between
from injector.voirfiles._settings import recorded_settings

LIBRARY = "lightgbm"
TESTED = ("4.0", "4.7")


def instrument_rounds(ov: Any) -> None:
    # The rows are counted when the round is over: the first one may have to build the data set.
    ov.step("/lightgbm.basic/Booster/update", items=lambda self, result: self.train_set.num_data())
    ov.region("/lightgbm.basic/Booster/update", "boost", outermost=True)


def instrument_ranks(ov: Any) -> None:
    """Which of the machines of a list this process is. What they send each other is compiled code's."""
    ov.region("/lightgbm.basic/Booster/set_network", "connect")

    def joined(machines: Any, local_listen_port: Any) -> None:
        found = place_in(machines, int(local_listen_port))
        if found is not None:
            ov.rank(*found)

    ov.value(
        "/lightgbm.basic/Booster/set_network",
        get=lambda machines, local_listen_port, result: joined(machines, local_listen_port),
    )


def instrument_settings(ov: Any) -> None:
    for function in ("train", "cv"):
        ov.override(f"/lightgbm.engine/{function} > params", recorded_settings(param))


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
        items=lambda data, result: rows(data) or rows(result),  # of a file, what came of it
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
    ov.value(
        "/lightgbm.basic/Dataset/_lazy_init",
        task="data",
        get=lambda self, reference, result: shape(self, reference),
    )


def place_in(machines: Any, port: int) -> tuple[int, int] | None:
    """Rank and number of machines by a list of ``HOST:PORT``, as LightGBM finds them: the one of this host
    that listens at ``port``. None where that is not known.
    """
    listed = machines.split(",") if isinstance(machines, str) else sorted(machines or ())
    pairs = [each.strip().rpartition(":") for each in listed if each.strip()]
    mine = [at for at, (_, _, own) in enumerate(pairs) if own == str(port)]
    if len(mine) > 1:
        here = addresses()
        mine = [at for at in mine if pairs[at][0] in here]
    return (mine[0], len(pairs)) if len(pairs) > 1 and len(mine) == 1 else None


def addresses() -> set[str]:
    """Those of this host."""
    import psutil

    found = psutil.net_if_addrs().values()
    return {"localhost", *(each.address for every in found for each in every)}


def shape(data: Any, reference: Any) -> dict[str, int] | None:
    """Rows and features of a data set that was just made, as lightgbm-benchmark calls them; of those that
    are made after its bins, nothing."""
    if reference is not None or data._handle is None:
        return None
    return {"train_data.length": int(data.num_data()), "train_data.width": int(data.num_feature())}


def metrics(results: Any) -> dict[str, Any]:
    """``{"valid_0-auc": 0.9}`` of what an evaluation returns: tuples of data set, metric, value, …"""
    return {f"{each[0]}-{each[1]}": each[2] for each in results}


def rows(data: Any) -> int:
    """How many rows ``data`` has: a data set, an array, a frame; 0 if it does not say."""
    if hasattr(data, "num_data"):
        return int(data.num_data()) if data._handle is not None else rows(data.data)
    shape = getattr(data, "shape", None)
    return int(shape[0]) if shape else 0
