"""``boost_counted.py LIBRARY ROUNDS``: rounds of LightGBM on 100 000 rows, which callgrind counts.

They run twice, and are counted the second time.
"""

import ctypes
import sys

import boost_trees
import lightgbm
import numpy as np

ROWS = 100_000


def main():
    library, rounds = ctypes.CDLL(sys.argv[1]), int(sys.argv[2])
    random = np.random.default_rng(0)
    x = random.normal(size=(ROWS, boost_trees.FEATURES)).astype(np.float32)
    y = (x[:, 0] + x[:, 1] * x[:, 2] + random.normal(size=ROWS) > 0).astype(np.float32)
    boost_trees.lightgbm(lightgbm, x, y, 2)()
    train = boost_trees.lightgbm(lightgbm, x, y, rounds)
    library.begin()
    train()
    library.end()


if __name__ == "__main__":
    main()
