"""The same training and inferencing with LightGBM, XGBoost or scikit-learn's histogram boosting.

lightgbm-benchmark compares frameworks and has scripts for LightGBM alone. This one reads the data of its
generator (text between commas, the label first), trains on DATA/train, evaluates on DATA/test after each
round, and predicts DATA/inference in batches of --batch rows; 0: all at once. With the --model that LightGBM
has written it only predicts.
"""

from __future__ import annotations

import argparse
import importlib
import sys
from pathlib import Path
from typing import Any

import numpy as np


class WrongData(Exception):
    """Data that cannot be trained on, in words."""


def load(folder: Path, features: int | None = None) -> tuple[Any, Any]:
    """The rows of all files in ``folder``, and their labels. Raises WrongData."""
    files = sorted(folder.glob("*.txt"))
    if not files:
        raise WrongData(f"{folder}: there is no file *.txt in it")
    parts = []
    for file in files:
        try:
            part = np.loadtxt(file, delimiter=",", ndmin=2)
        except ValueError as error:
            raise WrongData(f"{file}: {error}") from None
        wanted = features if not parts else parts[0].shape[1] - 1
        if part.shape[1] < 2 or (wanted is not None and part.shape[1] - 1 != wanted):
            known = "at least 1" if wanted is None else wanted
            raise WrongData(f"{file}: {part.shape[1] - 1} features after the label, not {known}")
        parts.append(part)
    rows = np.vstack(parts)
    return rows[:, 1:], rows[:, 0]


class LightGBM:
    def __init__(self, args: argparse.Namespace) -> None:
        self.library = importlib.import_module("lightgbm")
        self.rounds = args.num_trees
        self.params = {
            "objective": args.objective,
            "num_leaves": args.num_leaves,
            "learning_rate": args.learning_rate,
            "max_bin": args.max_bin,
            "min_data_in_leaf": args.min_data_in_leaf,
            "num_threads": args.num_threads,
            "verbose": -1,
        }

    def fit(self, x: Any, y: Any, held: tuple[Any, Any]) -> None:
        data = self.library.Dataset(x, y)
        valid = self.library.Dataset(*held, reference=data)
        self.model = self.library.train(self.params, data, self.rounds, valid_sets=[valid])

    def load(self, path: Path) -> None:
        self.model = self.library.Booster(model_file=path)

    def predict(self, x: Any) -> Any:
        return self.model.predict(x, num_threads=self.params["num_threads"])


class XGBoost:
    def __init__(self, args: argparse.Namespace) -> None:
        self.library = importlib.import_module("xgboost")
        self.rounds = args.num_trees
        objectives = {"regression": "reg:squarederror", "binary": "binary:logistic"}
        self.params = {
            "objective": objectives[args.objective],
            "tree_method": "hist",
            "grow_policy": "lossguide",
            "max_leaves": args.num_leaves,
            "max_depth": 0,
            "eta": args.learning_rate,
            "max_bin": args.max_bin,
            "nthread": args.num_threads,
        }

    def fit(self, x: Any, y: Any, held: tuple[Any, Any]) -> None:
        data, valid = self.library.DMatrix(x, y), self.library.DMatrix(*held)
        how = {"evals": [(valid, "valid_0")], "verbose_eval": False}
        self.model = self.library.train(self.params, data, self.rounds, **how)

    def predict(self, x: Any) -> Any:
        return self.model.inplace_predict(x)


class ScikitLearn:
    def __init__(self, args: argparse.Namespace) -> None:
        library = importlib.import_module("sklearn.ensemble")
        kinds = {
            "regression": library.HistGradientBoostingRegressor,
            "binary": library.HistGradientBoostingClassifier,
        }
        self.model = kinds[args.objective](
            max_iter=args.num_trees,
            max_leaf_nodes=args.num_leaves,
            learning_rate=args.learning_rate,
            max_bins=min(args.max_bin, 255),
            min_samples_leaf=args.min_data_in_leaf,
            early_stopping=False,
        )

    def fit(self, x: Any, y: Any, held: tuple[Any, Any]) -> None:
        self.model.fit(x, y)

    def predict(self, x: Any) -> Any:
        return self.model.predict(x)


FRAMEWORKS = {"lightgbm": LightGBM, "xgboost": XGBoost, "sklearn": ScikitLearn}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--framework", choices=FRAMEWORKS, required=True)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--model", type=Path)
    parser.add_argument("--objective", choices=("regression", "binary"), default="regression")
    parser.add_argument("--num_trees", type=int, default=100)
    parser.add_argument("--num_leaves", type=int, default=31)
    parser.add_argument("--min_data_in_leaf", type=int, default=20)
    parser.add_argument("--learning_rate", type=float, default=0.1)
    parser.add_argument("--max_bin", type=int, default=255)
    parser.add_argument("--num_threads", type=int, default=1)
    parser.add_argument("--batch", type=int, default=0)
    args = parser.parse_args()
    if args.model and (args.framework != "lightgbm" or not args.model.is_file()):
        parser.error(f"--model {args.model}: a file, and --framework lightgbm")
    try:
        model = FRAMEWORKS[args.framework](args)
        queries, truth = load(args.data / "inference")
        parts = () if args.model else ("train", "test")
        loaded = [load(args.data / part, queries.shape[1]) for part in parts]
    except ImportError as error:
        print(f"--framework {args.framework}: {error}; it is not installed here", file=sys.stderr)
        sys.exit(2)
    except WrongData as error:
        print(error, file=sys.stderr)
        sys.exit(2)
    if args.model:
        model.load(args.model)
    else:
        (x, y), held = loaded
        model.fit(x, y, held)
    size = args.batch or len(queries)
    found = [model.predict(queries[at : at + size]) for at in range(0, len(queries), size)]
    print(f"rmse {np.sqrt(np.mean((np.concatenate(found) - truth) ** 2)):.4f}")


if __name__ == "__main__":
    main()
