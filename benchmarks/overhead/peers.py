"""An interpreter that has the peers: this one, or an environment made once and kept."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from importlib import util
from pathlib import Path

PINS = ("voir==0.2.24", "ptera==1.4.1", "giving==0.4.3")


def find(asked: str | None) -> str | None:
    """Path of an interpreter with voir and ptera, or None (said on stderr) when there is none."""
    if asked:
        return asked
    if util.find_spec("voir") and util.find_spec("ptera"):
        return sys.executable
    folder = _cache() / "-".join(["peers", f"py{sys.version_info[0]}{sys.version_info[1]}", *PINS])
    python = folder / "bin" / "python"
    if (folder / "complete").exists():
        return str(python)
    try:
        return _make(folder, python)
    except (OSError, subprocess.CalledProcessError) as error:
        print(
            f"the peers could not be installed ({error}); their columns stay empty", file=sys.stderr
        )
        return None


def _cache() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "injector-benchmarks"


def _make(folder: Path, python: Path) -> str:
    print(f"installing {' '.join(PINS)} into {folder}", file=sys.stderr)
    subprocess.run([sys.executable, "-m", "venv", "--clear", str(folder)], check=True)
    subprocess.run([str(python), "-m", "pip", "install", "-q", *PINS], check=True, stdout=2)
    # torch of this environment is visible there too, so that both import the same one.
    where = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    path = folder / "lib" / where / "site-packages" / "borrowed.pth"
    path.write_text(sysconfig.get_paths()["purelib"] + "\n", encoding="utf-8")
    (folder / "complete").touch()
    return str(python)
