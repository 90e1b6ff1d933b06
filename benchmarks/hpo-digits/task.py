"""The task that all frameworks are given: a network with one hidden layer on scikit-learn's digits.

It knows none of the frameworks. A trial trains for so many epochs and is validated after each.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPClassifier

SPACE = {"rate": [0.0003, 0.001, 0.003, 0.01], "width": [16, 64, 256]}


def load():
    """Pixels and digits for training, validation and test: three parts of 1 797 pictures."""
    x, y = load_digits(return_X_y=True)
    x, x_test, y, y_test = train_test_split(x / 16, y, test_size=0.2, random_state=0, stratify=y)
    x, x_valid, y, y_valid = train_test_split(x, y, test_size=0.25, random_state=0, stratify=y)
    return (x, y), (x_valid, y_valid), (x_test, y_test)


def model(rate: float, width: int) -> MLPClassifier:
    return MLPClassifier((width,), learning_rate_init=rate, batch_size=32, random_state=0)


def train(rate: float, width: int, epochs: int) -> Iterator[float]:
    """The accuracy on the validation set after each epoch."""
    (x, y), (x_valid, y_valid), _ = load()
    network = model(rate, width)
    for _ in range(epochs):
        network.partial_fit(x, y, classes=range(10))
        yield network.score(x_valid, y_valid)


def tested(rate: float, width: int, epochs: int) -> float:
    """The accuracy on the test set of a network that is trained once more."""
    (x, y), _, (x_test, y_test) = load()
    network = model(rate, width)
    for _ in range(epochs):
        network.partial_fit(x, y, classes=range(10))
    return float(network.score(x_test, y_test))


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--workers", type=int, default=1, help="trials at once")
    parser.add_argument("--epochs", type=int, default=30, help="of a trial")
    parser.add_argument("--prune", action="store_true", help="end trials that do not promise much")
    return parser.parse_args()


def finish(rate: float, width: int, epochs: int) -> None:
    print(
        f"best: rate {rate:g}, width {width}, {tested(rate, width, epochs):.4f} of the test set right"
    )
