"""Find an interpreter for each peer: this one, or that of an environment which is made once and kept.

Each peer has an environment of its own, as their requirements may conflict. PyTorch, which would be gigabytes
in each, is borrowed from this environment: then all tools run the same one, which a comparison needs anyway.
"""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from importlib import util
from pathlib import Path

PINS = ("voir==0.2.24", "ptera==1.4.1", "giving==0.4.3")
PROFILERS = {
    "traceml": ("traceml-ai==0.5.0",),
    "pyinstrument": ("pyinstrument==5.1.3",),
    "viztracer": ("viztracer==1.1.1",),
    "py-spy": ("py-spy==0.4.2",),
}
"""The other peers, with the packages that each of them needs."""


def find(named: str | None) -> str | None:
    """The path of an interpreter with voir and ptera: the one that was ``named``, this one, or a kept one.

    Returns None, with a message on stderr, if none could be made.
    """
    if named:
        return named
    if util.find_spec("voir") and util.find_spec("ptera"):
        return sys.executable
    return _installed("peers", PINS)


def profilers() -> dict[str, str]:
    """An interpreter for each of :data:`PROFILERS` that could be installed, by name."""
    interpreters = {name: _installed(name, pins) for name, pins in PROFILERS.items()}
    return {name: python for name, python in interpreters.items() if python is not None}


def _installed(name: str, pins: tuple[str, ...]) -> str | None:
    """The interpreter of a kept environment with ``pins``, which is made if it is not there yet."""
    # The name has the pins in it: with another version, another environment is made.
    folder = _cache() / "-".join([name, f"py{sys.version_info[0]}{sys.version_info[1]}", *pins])
    python = folder / "bin" / "python"
    try:
        if not (folder / "complete").exists():
            _make(folder, python, pins)
        _borrow(folder)
    except (OSError, subprocess.CalledProcessError) as error:
        print(f"{name} could not be installed ({error}); its columns stay empty", file=sys.stderr)
        return None
    return str(python)


def _cache() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "injector-benchmarks"


def _make(folder: Path, python: Path, pins: tuple[str, ...]) -> None:
    print(f"installing {' '.join(pins)} into {folder}", file=sys.stderr)
    subprocess.run([sys.executable, "-m", "venv", "--clear", str(folder)], check=True)
    subprocess.run([str(python), "-m", "pip", "install", "-q", *pins], check=True, stdout=2)
    (folder / "complete").touch()  # without it, an installation that was interrupted is made again


def _borrow(folder: Path) -> None:
    """Let the environment in ``folder`` import what is installed here and not there, such as torch."""
    version = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    path = folder / "lib" / version / "site-packages" / "borrowed.pth"
    text = sysconfig.get_paths()["purelib"] + "\n"
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        path.write_text(text, encoding="utf-8")
