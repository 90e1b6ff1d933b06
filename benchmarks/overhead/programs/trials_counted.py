"""``trials_counted.py LIBRARY TRIALS``: trials of Optuna that compute nothing, which callgrind counts.

They run twice, and are counted the second time.
"""

import ctypes
import sys

import run_trials


def main():
    library, trials = ctypes.CDLL(sys.argv[1]), int(sys.argv[2])
    run_trials.optuna()(trials)
    run = run_trials.optuna()
    library.begin()
    run(trials)
    library.end()


if __name__ == "__main__":
    main()
