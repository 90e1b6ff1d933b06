"""Makes 512 pictures of stripes in four directions: ``prepare.py FOLDER``."""

import sys
from pathlib import Path

import numpy as np

SIZE = 64


def main(folder: Path) -> None:
    """Write ``0.npy … 511.npy``, float32 squares; the number modulo 4 tells the direction."""
    folder.mkdir(parents=True, exist_ok=True)
    random = np.random.default_rng(0)
    y, x = np.indices((SIZE, SIZE))
    for number in range(512):
        angle = (number % 4) * np.pi / 4
        along = x * np.cos(angle) + y * np.sin(angle)
        picture = np.sin(along * random.uniform(0.4, 0.8) + random.uniform(0, 6.3))
        picture += random.normal(0, 1.0, picture.shape)
        np.save(folder / f"{number}.npy", picture.astype(np.float32))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
