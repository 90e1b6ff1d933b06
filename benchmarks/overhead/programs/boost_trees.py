"""Rounds of gradient boosting with a metric of each: ``boost_trees.py FILE LIBRARY ROWS ROUNDS``.

FILE gets the seconds of CPU that this process, with all its threads, needed for a round. Data are made
and binned before.
"""

import importlib
import json
import sys
import time

import numpy as np

FEATURES = 28
VALIDATED = 100


def lightgbm(library, x, y, rounds):
    settings = {"objective": "binary", "num_threads": 1, "verbosity": -1}
    data = library.Dataset(x, y, params=settings).construct()
    valid = data.create_valid(x[:VALIDATED], y[:VALIDATED]).construct()
    return lambda: library.train(settings, data, rounds, valid_sets=[valid])


def xgboost(library, x, y, rounds):
    settings = {"objective": "binary:logistic", "nthread": 1, "verbosity": 0}
    data = library.QuantileDMatrix(x, y, nthread=1)
    valid = library.QuantileDMatrix(x[:VALIDATED], y[:VALIDATED], nthread=1, ref=data)
    evals = [(valid, "valid")]
    return lambda: library.train(settings, data, rounds, evals=evals, verbose_eval=False)


def main():
    file, name, rows, rounds = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    random = np.random.default_rng(0)
    x = random.normal(size=(rows, FEATURES)).astype(np.float32)
    y = (x[:, 0] + x[:, 1] * x[:, 2] + random.normal(size=rows) > 0).astype(np.float32)
    library = importlib.import_module(name)
    train = {"lightgbm": lightgbm, "xgboost": xgboost}[name](library, x, y, rounds)
    begin = time.process_time()
    train()
    used = (time.process_time() - begin) / rounds
    with open(file, "w", encoding="utf-8") as stream:
        json.dump(used, stream)


if __name__ == "__main__":
    main()
