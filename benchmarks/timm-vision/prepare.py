"""Makes 640 pictures of stripes in four directions, and 64 to validate with: ``prepare.py FOLDER``."""

import sys
from pathlib import Path

import numpy as np
from PIL import Image

SIZE, CLASSES = 96, 4


def main(folder: Path) -> None:
    """Write ``train/CLASS/N.png`` and ``validation/CLASS/N.png``."""
    random = np.random.default_rng(0)
    y, x = np.indices((SIZE, SIZE))
    for part, number in (("train", 640), ("validation", 64)):
        for at in range(number):
            wanted = at % CLASSES
            angle = wanted * np.pi / CLASSES
            stripes = np.sin((x * np.cos(angle) + y * np.sin(angle)) * 0.6)
            picture = 127 + 60 * stripes[..., None] + random.normal(0, 30, (SIZE, SIZE, 3))
            path = folder / part / str(wanted) / f"{at}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(picture.clip(0, 255).astype(np.uint8)).save(path)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
