"""Makes pictures of strokes in the form of MNIST: ``prepare.py FOLDER``.

The digit decides the place and the direction of the stroke, so that there is something to learn.
"""

import struct
import sys
from pathlib import Path

import numpy as np

TRAIN, TEST, SIDE = 12_800, 2_000, 28


def main(folder: Path) -> None:
    """Write ``data/MNIST/raw`` with its four files, and ``run``, where the examples run."""
    raw = folder / "data" / "MNIST" / "raw"
    raw.mkdir(parents=True, exist_ok=True)
    (folder / "run" / "results").mkdir(parents=True, exist_ok=True)
    random = np.random.default_rng(0)
    for name, count in (("train", TRAIN), ("t10k", TEST)):
        digits = random.integers(0, 10, count).astype(np.uint8)
        pictures = random.integers(0, 64, (count, SIDE, SIDE)).astype(np.uint8)
        for picture, digit in zip(pictures, digits, strict=True):
            place = 3 + 2 * int(digit)
            (picture if digit % 2 else picture.T)[place : place + 3] = 255
        labels = struct.pack(">II", 2049, count) + digits.tobytes()
        (raw / f"{name}-labels-idx1-ubyte").write_bytes(labels)
        images = struct.pack(">IIII", 2051, count, SIDE, SIDE) + pictures.tobytes()
        (raw / f"{name}-images-idx3-ubyte").write_bytes(images)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
