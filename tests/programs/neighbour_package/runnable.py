import sys

from . import sub
from .sub import where

print(__name__, __package__, __spec__.name if __spec__ else None, sys.argv, where())
print(sys.path[0], __file__, __cached__ is not None, type(__loader__).__name__)


def compute(x):
    total = x + 1
    return total


if __name__ == "__main__":
    print(compute(1))
    if "raise" in sys.argv:
        raise ValueError(compute(2))
