"""Makes 64 volumes with a ball in each, and where it is: ``prepare.py FOLDER [SIZE]``."""

import sys
from pathlib import Path

import numpy as np


def main(folder: Path, size: int = 40) -> None:
    """Write ``image0.npy … image63.npy``, float32 cubes of ``size``, and their ``label….npy``."""
    folder.mkdir(parents=True, exist_ok=True)
    random = np.random.default_rng(0)
    place = np.indices((size, size, size))
    for number in range(64):
        center = random.uniform(0.3, 0.7, 3)[:, None, None, None] * size
        radius = random.uniform(0.1, 0.25) * size
        label = ((place - center) ** 2).sum(0) < radius**2
        image = label + random.normal(0, 0.7, label.shape)
        np.save(folder / f"image{number}.npy", image.astype(np.float32))
        np.save(folder / f"label{number}.npy", label.astype(np.float32))


if __name__ == "__main__":
    main(Path(sys.argv[1]), *map(int, sys.argv[2:]))
