"""LightGBM: each boosting round is a step; evaluation, predictions and the binning of data beside it.

A step is one call of ``Booster.update``, whether by ``train``, by ``cv`` (one a fold and round), by the
scikit-learn classes or by the program. Its items are the rows of the training set. Within it is `boost`, the
work of LightGBM's compiled code, and in that the program's own `objective`.
"""

from __future__ import annotations

from typing import Any

from injector import param
from injector.voirfiles._between import Between
from injector.voirfiles._settings import recorded_settings

LIBRARY = "lightgbm"
TESTED = ("4.0", "4.7")


def instrument_rounds(ov: Any) -> None:
    """A step for each boosting round, and ``boost`` in it."""
    # The rows are counted when the round is over: the first one may have to build the data set.
    ov.step("/lightgbm.basic/Booster/update", items=lambda self, result: self.train_set.num_data())
    ov.region("/lightgbm.basic/Booster/update", "boost", outermost=True)


def instrument_ranks(ov: Any) -> None:
    """``connect``, and the rank: the place of this machine in a list. Compiled code communicates later."""
    ov.region("/lightgbm.basic/Booster/set_network", "connect")

    def joined(machines: Any, local_listen_port: Any) -> None:
        place = place_in(machines, int(local_listen_port))
        if place is not None:
            ov.rank(*place)

    ov.value(
        "/lightgbm.basic/Booster/set_network",
        get=lambda machines, local_listen_port, result: joined(machines, local_listen_port),
    )


def instrument_settings(ov: Any) -> None:
    """The settings of a training, as parameters of the run."""
    for function in ("train", "cv"):
        ov.override(f"/lightgbm.engine/{function} > params", recorded_settings(param))


def instrument_functions(ov: Any) -> None:
    """``objective``, ``metric`` and ``callback``: functions of the program.

    Which functions these are is known only when they are called, so the lines around their calls are probed.
    """
    booster = "/lightgbm.basic/Booster"
    predicted = f"{booster}/_Booster__inner_predict > #value"
    Between(ov, "objective", predicted, f"{booster}/update > grad")
    Between(ov, "metric", predicted, f"{booster}/_Booster__inner_eval > feval_ret")
    for function in ("train", "cv"):
        where = f"/lightgbm.engine/{function}"
        # Before the first round it only sorts the callbacks, in a loop over the same variable.
        entered, is_sorted = f"{where} > params", f"{where} > callbacks_after_iter"
        Between(ov, "callback", f"{where} > cb", f"{where} > #endloop_cb", entered, is_sorted)


def instrument_evaluation(ov: Any) -> None:
    """``evaluation`` on the training set, on those for validation or on another one; its metrics."""
    how = {"phase": "eval", "outermost": True}
    booster = "/lightgbm.basic/Booster"
    ov.region(f"{booster}/eval_train", "evaluation", items=lambda self: rows(self.train_set), **how)
    ov.region(
        f"{booster}/eval_valid",
        "evaluation",
        when=lambda self: bool(self.valid_sets),  # else it has nothing to do
        items=lambda self: sum(map(rows, self.valid_sets)),
        **how,
    )
    ov.region(f"{booster}/eval", "evaluation", items=rows, **how)
    for function in ("eval_train", "eval_valid", "eval"):
        ov.value(f"{booster}/{function}", task="eval", get=lambda result: metrics(result))


def instrument_models(ov: Any) -> None:
    """``fit`` and ``predict``: outermost calls, as scikit-learn's; a search's fits count as one."""
    whole = {"outermost": "estimator"}
    ov.region("/lightgbm.sklearn/LGBMModel/fit", "fit", items=lambda X: rows(X), **whole)
    ov.region("/lightgbm.engine/train", "fit", items=lambda train_set: rows(train_set), **whole)
    ov.region("/lightgbm.engine/cv", "fit", items=lambda train_set: rows(train_set), **whole)
    for where in ("/lightgbm.sklearn/LGBMModel", "/lightgbm.sklearn/LGBMClassifier"):
        ov.region(f"{where}/predict", "predict", phase="eval", items=lambda X: rows(X), **whole)
    ov.region(
        "/lightgbm.basic/Booster/predict",
        "predict",
        phase="eval",
        items=lambda data, result: rows(data) or rows(result),  # data may be the name of a file
        **whole,
    )


def instrument_datasets(ov: Any) -> None:
    """``dataset``: binning the data; its rows and features."""
    ov.region(
        "/lightgbm.basic/Dataset/construct",
        "dataset",
        when=lambda self: self._handle is None,  # else it has been made
        items=lambda result: rows(result),
        outermost=True,
    )
    ov.value(
        "/lightgbm.basic/Dataset/_lazy_init",
        task="data",
        get=lambda self, reference, result: shape(self, reference),
    )


def place_in(machines: Any, port: int) -> tuple[int, int] | None:
    """The rank of this machine in ``machines``, a list of ``HOST:PORT``, and their number.

    As in LightGBM, it is the entry of this host that listens at ``port``. None if there is not exactly one.
    """
    listed = machines.split(",") if isinstance(machines, str) else sorted(machines or ())
    pairs = [entry.strip().rpartition(":") for entry in listed if entry.strip()]
    mine = [at for at, (_, _, its_port) in enumerate(pairs) if its_port == str(port)]
    if len(mine) > 1:
        here = addresses()
        mine = [at for at in mine if pairs[at][0] in here]
    return (mine[0], len(pairs)) if len(pairs) > 1 and len(mine) == 1 else None


def addresses() -> set[str]:
    """The addresses of this host."""
    import psutil

    interfaces = psutil.net_if_addrs().values()
    return {"localhost", *(each.address for listed in interfaces for each in listed)}


def shape(data: Any, reference: Any) -> dict[str, int] | None:
    """Rows and features of a data set that was just made, by the names that lightgbm-benchmark uses.

    None for one that takes over the bins of another: it is for validation.
    """
    if reference is not None or data._handle is None:
        return None
    return {"train_data.length": int(data.num_data()), "train_data.width": int(data.num_feature())}


def metrics(results: Any) -> dict[str, Any]:
    """``{"valid_0-auc": 0.9}`` of what an evaluation returns: tuples of data set, metric, value and more."""
    return {f"{each[0]}-{each[1]}": each[2] for each in results}


def rows(data: Any) -> int:
    """The rows of a data set, an array or a frame; 0 of anything else."""
    if hasattr(data, "num_data"):
        return int(data.num_data()) if data._handle is not None else rows(data.data)
    shape = getattr(data, "shape", None)
    return int(shape[0]) if shape else 0
