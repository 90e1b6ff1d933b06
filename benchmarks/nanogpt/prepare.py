"""Makes nanoGPT's data of characters out of text that every machine has: ``prepare.py SOURCE FOLDER``.

The repository's own script does it. It would download a text, but takes one that lies beside it.
"""

import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

CHARACTERS = 1_000_000
MODULES = ("argparse.py", "ast.py", "inspect.py", "pickle.py", "tarfile.py", "typing.py")


def main(source: Path, folder: Path) -> None:
    """Write ``train.bin``, ``val.bin`` and ``meta.pkl`` into ``folder``."""
    library = Path(sysconfig.get_path("stdlib"))
    text = "".join((library / name).read_text(encoding="utf-8") for name in MODULES)
    text = "".join(each for each in text if each.isascii())
    folder.mkdir(parents=True, exist_ok=True)
    text *= -(-CHARACTERS // len(text))
    (folder / "input.txt").write_text(text[:CHARACTERS], encoding="utf-8")
    script = folder / "prepare.py"
    shutil.copy(source / "data" / "shakespeare_char" / "prepare.py", script)
    subprocess.run([sys.executable, script], check=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
