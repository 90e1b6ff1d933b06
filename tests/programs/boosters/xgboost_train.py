"""XGBoost's own interface and scikit-learn's: train, early stopping, DART, cv, custom objectives."""

import sys

import numpy as np
import xgboost as xgb

from injector import region

QUIET = {"nthread": 1, "max_depth": 2, "verbosity": 0}


def data(rows, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(rows, 4))
    return x, (x[:, 0] > 0).astype(float)


def matrix(rows, seed=0):
    x, y = data(rows, seed)
    return xgb.DMatrix(x, y)


def squared(predictions, dtrain):
    return predictions - dtrain.get_label(), np.ones_like(predictions)


def train():
    inner, outer = matrix(300), matrix(60, seed=1)
    params = {**QUIET, "objective": "binary:logistic", "eval_metric": "auc"}
    evals = [(inner, "train"), (outer, "valid")]
    model = xgb.train(params, inner, num_boost_round=7, evals=evals, verbose_eval=False)
    return model.predict(outer).shape


def early():
    rng = np.random.default_rng(2)
    inner = matrix(300)
    outer = xgb.DMatrix(rng.normal(size=(60, 4)), rng.integers(0, 2, 60))
    params = {**QUIET, "objective": "binary:logistic"}
    evals = [(outer, "valid")]
    rounds = xgb.train(
        params, inner, 50, evals=evals, early_stopping_rounds=3, verbose_eval=False
    ).num_boosted_rounds()
    return rounds


def dart():
    params = {**QUIET, "booster": "dart", "rate_drop": 0.1}
    return xgb.train(params, matrix(200), 5).num_boosted_rounds()


def cv():
    params = {**QUIET, "objective": "binary:logistic", "eval_metric": "auc"}
    return len(xgb.cv(params, matrix(300), num_boost_round=4, nfold=3, as_pandas=False)["test-auc-mean"])


def custom():
    return xgb.train(QUIET, matrix(150), 6, obj=squared).num_boosted_rounds()


def functions():
    class Nothing(xgb.callback.TrainingCallback):
        pass

    def wrong(predictions, dtrain):
        return "wrong", np.mean((predictions > 0.5) != dtrain.get_label())

    evals = [(matrix(60, seed=1), "valid")]
    how = {"obj": squared, "custom_metric": wrong, "callbacks": [Nothing()], "verbose_eval": False}
    return xgb.train(QUIET, matrix(150), 6, evals=evals, **how).num_boosted_rounds()


def by_hand():
    dtrain = matrix(120)
    booster = xgb.Booster(QUIET, [dtrain])
    for turn in range(3):
        gradient, hessian = squared(booster.predict(dtrain, output_margin=True), dtrain)
        booster.boost(dtrain, iteration=turn, grad=gradient, hess=hessian)
    return booster.num_boosted_rounds()


def api():
    from sklearn.model_selection import GridSearchCV

    x, y = data(300)
    model = xgb.XGBClassifier(n_estimators=4, max_depth=2, n_jobs=1)
    search = GridSearchCV(model, {"learning_rate": [0.1, 0.3]}, cv=3)
    search.fit(x, y)
    return search.best_estimator_.get_booster().num_boosted_rounds()


def alone():
    x, y = data(300)
    model = xgb.XGBClassifier(n_estimators=4, max_depth=2, n_jobs=1)
    model.fit(x, y, eval_set=[data(70, seed=1)], verbose=False)
    return model.predict(x[:50]).shape


for name in sys.argv[1:]:
    with region(f"part/{name}"):
        print(globals()[name]())
