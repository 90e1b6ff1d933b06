"""Makes pictures of stripes in the form of CIFAR-10: ``prepare.py FOLDER``."""

import pickle
import sys
from pathlib import Path

import numpy as np

BATCHES, PICTURES, SIDE, CLASSES = 5, 1_280, 32, 10


def main(folder: Path) -> None:
    """Write ``data/cifar-10-batches-py`` with its seven files; the class is the stripes' width."""
    into = folder / "data" / "cifar-10-batches-py"
    into.mkdir(parents=True, exist_ok=True)
    random = np.random.default_rng(0)
    for name in [*(f"data_batch_{n + 1}" for n in range(BATCHES)), "test_batch"]:
        labels = random.integers(0, CLASSES, PICTURES)
        along = np.arange(SIDE) / (labels[:, None] + 1)
        rows = 128 + 80 * np.sin(along)[:, None, None, :] + np.zeros((PICTURES, 3, SIDE, SIDE))
        rows += random.normal(0, 20, rows.shape)
        data = rows.clip(0, 255).astype(np.uint8).reshape(PICTURES, -1)
        with open(into / name, "wb") as file:
            pickle.dump({"data": data, "labels": labels.tolist()}, file)
    with open(into / "batches.meta", "wb") as file:
        pickle.dump({"label_names": [f"width {n + 1}" for n in range(CLASSES)]}, file)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
