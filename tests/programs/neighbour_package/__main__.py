import sys

from .sub import where

print("package main", __name__, __package__, __spec__.name, where(), sys.argv)
if __name__ == "__main__":
    sys.exit(3)
