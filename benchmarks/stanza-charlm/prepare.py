"""Makes the corpus: text that every machine has, cut to a fixed size. ``prepare.py FOLDER``."""

import sys
import sysconfig
from pathlib import Path

TRAIN, DEV = 400_000, 20_000
MODULES = ("argparse.py", "ast.py", "inspect.py", "pickle.py", "tarfile.py", "typing.py")


def main(folder: Path) -> None:
    """Write ``train.txt`` and ``dev.txt`` into ``folder``."""
    library = Path(sysconfig.get_path("stdlib"))
    text = "".join((library / name).read_text(encoding="utf-8") for name in MODULES)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "train.txt").write_text(text[:TRAIN], encoding="utf-8")
    (folder / "dev.txt").write_text(text[TRAIN : TRAIN + DEV], encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
