"""The same combinations by scikit-learn, in processes of joblib; those that lag after a third of the epochs,
and after two thirds, are left."""

import warnings

import numpy as np
import task
from sklearn.exceptions import ConvergenceWarning
from sklearn.experimental import enable_halving_search_cv  # noqa: F401
from sklearn.model_selection import GridSearchCV, HalvingGridSearchCV, PredefinedSplit

warnings.simplefilter("ignore", ConvergenceWarning)


def main():
    given = task.arguments()
    (x, y), (x_valid, y_valid), _ = task.load()
    split = PredefinedSplit([-1] * len(x) + [0] * len(x_valid))
    network = task.model(0.001, 16).set_params(max_iter=given.epochs, n_iter_no_change=given.epochs)
    space = {
        "learning_rate_init": task.SPACE["rate"],
        "hidden_layer_sizes": [(width,) for width in task.SPACE["width"]],
    }
    how = {"cv": split, "n_jobs": given.workers, "refit": False}
    if given.prune:
        how |= {"resource": "max_iter", "max_resources": given.epochs, "factor": 3}
        search = HalvingGridSearchCV(network, space, min_resources=max(1, given.epochs // 9), **how)
    else:
        search = GridSearchCV(network, space, **how)
    search.fit(np.concatenate((x, x_valid)), np.concatenate((y, y_valid)))
    best = search.best_params_
    task.finish(best["learning_rate_init"], best["hidden_layer_sizes"][0], given.epochs)


if __name__ == "__main__":
    main()
