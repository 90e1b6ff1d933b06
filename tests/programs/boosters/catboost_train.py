"""Trains with CatBoost in each way; each part prints a number."""

import sys

import numpy as np
from catboost import CatBoostClassifier, CatBoostError, CatBoostRegressor, Pool, cv, train

import injector

random = np.random.default_rng(0)
X = random.normal(size=(300, 5))
y = (X[:, 0] + X[:, 1] ** 2 > 1).astype(int)
QUIET = {"verbose": False, "allow_writing_files": False, "thread_count": 1}


def pools():
    model = CatBoostClassifier(iterations=7, depth=3, **QUIET)
    model.fit(Pool(X[:240], y[:240]), eval_set=Pool(X[240:], y[240:]))
    model.predict(X[240:])
    return model.tree_count_


def arrays():
    model = CatBoostRegressor(iterations=5, **QUIET)
    model.fit(X, y)
    model.predict(Pool(X[:50]))
    return model.tree_count_


def early():
    model = CatBoostClassifier(iterations=500, learning_rate=0.9, early_stopping_rounds=3, **QUIET)
    model.fit(X[:150], y[:150], eval_set=(X[150:], y[150:]))
    return model.tree_count_


def function():
    model = train(Pool(X, y), {"loss_function": "Logloss", **QUIET}, iterations=4)
    model.predict(X[:10])
    return model.tree_count_


def probabilities():
    model = CatBoostClassifier(iterations=3, **QUIET).fit(X, y)
    model.predict_proba(X[:20])
    model.predict(X[0])
    return model.tree_count_


def folds():
    found = cv(Pool(X, y), {"loss_function": "Logloss", **QUIET}, iterations=4, fold_count=3)
    return len(found)


def grid():
    model = CatBoostClassifier(iterations=4, **QUIET)
    found = model.grid_search({"depth": [2, 3]}, X, y, cv=3, verbose=False)
    return found["params"]["depth"]


def broken():
    model = CatBoostClassifier(iterations=4, **QUIET)
    try:
        model.fit(X, y[:10])
    except CatBoostError:
        return 1
    return 0


for name in sys.argv[1:]:
    with injector.region(f"part/{name}"):
        number = globals()[name]()
    print(number)
