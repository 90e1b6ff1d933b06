"""LightGBM's own interface: train, early stopping, DART, cv, a custom objective, and a loop by hand."""

import sys

import lightgbm as lgb
import numpy as np

from injector import region

QUIET = {"verbose": -1, "num_threads": 1, "num_leaves": 4}


def data(rows, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(rows, 4))
    return x, (x[:, 0] > 0).astype(float)


def train():
    x, y = data(300)
    held = data(60, seed=1)
    inner = lgb.Dataset(x, y)
    outer = lgb.Dataset(*held, reference=inner)
    params = {**QUIET, "objective": "binary", "metric": "auc"}
    model = lgb.train(params, inner, num_boost_round=7, valid_sets=[inner, outer])
    return model.predict(held[0]).shape


def early():
    x, y = data(300)
    rng = np.random.default_rng(2)
    inner = lgb.Dataset(x, y)
    outer = lgb.Dataset(rng.normal(size=(60, 4)), rng.integers(0, 2, 60), reference=inner)
    losses = {}
    callbacks = [lgb.early_stopping(3, verbose=False), lgb.record_evaluation(losses)]
    params = {**QUIET, "objective": "binary", "learning_rate": 0.5}
    lgb.train(params, inner, 50, valid_sets=[outer], callbacks=callbacks)
    return len(losses["valid_0"]["binary_logloss"])


def dart():
    params = {**QUIET, "objective": "binary", "boosting": "dart"}
    return lgb.train(params, lgb.Dataset(*data(200)), 5).current_iteration()


def cv():
    params = {**QUIET, "objective": "binary", "metric": "auc"}
    found = lgb.cv(params, lgb.Dataset(*data(300)), num_boost_round=4, nfold=3)
    return sorted(len(values) for values in found.values())


def custom():
    def squared(predictions, dataset):
        return predictions - dataset.get_label(), np.ones_like(predictions)

    return lgb.train({**QUIET, "objective": squared}, lgb.Dataset(*data(150)), 6).current_iteration()


def broken():
    calls = []

    def squared(predictions, dataset):
        calls.append(predictions)
        if len(calls) == 3:
            raise ValueError("no gradient")
        return predictions - dataset.get_label(), np.ones_like(predictions)

    try:
        lgb.train({**QUIET, "objective": squared}, lgb.Dataset(*data(150)), 6)
    except ValueError:
        return len(calls)


def functions():
    def logistic(predictions, dataset):
        sure = 1 / (1 + np.exp(-predictions))
        return sure - dataset.get_label(), sure * (1 - sure)

    def wrong(predictions, dataset):
        return "wrong", np.mean((predictions > 0) != dataset.get_label()), False

    inner = lgb.Dataset(*data(150))
    outer = lgb.Dataset(*data(60, seed=1), reference=inner)
    callbacks = [lambda env: None, lgb.early_stopping(9, verbose=False)]
    params = {**QUIET, "objective": logistic}
    lgb.train(params, inner, 6, [outer], feval=wrong, callbacks=callbacks)
    return 6


def by_hand():
    booster = lgb.Booster({**QUIET, "objective": "binary"}, lgb.Dataset(*data(120)))
    for _ in range(3):
        booster.update()
    return booster.current_iteration()


def two():
    params = {**QUIET, "objective": "binary"}
    first = lgb.train(params, lgb.Dataset(*data(90)), 3)
    second = lgb.train(params, lgb.Dataset(*data(80)), 2)
    return first.current_iteration(), second.current_iteration()


def api():
    from sklearn.model_selection import GridSearchCV

    x, y = data(300)
    model = lgb.LGBMClassifier(n_estimators=4, num_leaves=4, n_jobs=1, verbose=-1)
    search = GridSearchCV(model, {"learning_rate": [0.1, 0.3]}, cv=3)
    search.fit(x, y)
    return search.best_estimator_.booster_.current_iteration()


for name in sys.argv[1:]:
    with region(f"part/{name}"):
        print(globals()[name]())
