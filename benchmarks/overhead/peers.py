"""Interpreters that have the peers: this one, or environments made once and kept, one for each peer."""

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
}
"""Peers that come with nothing that voir or ptera would mind, each in an environment of its own."""


def find(named: str | None) -> str | None:
    """Path of an interpreter with voir and ptera, or None (with a message on stderr) when there is none."""
    if named:
        return named
    if util.find_spec("voir") and util.find_spec("ptera"):
        return sys.executable
    return _installed("peers", PINS)


def profilers() -> dict[str, str]:
    """By name, an interpreter for each of :data:`PROFILERS` that could be installed."""
    found = {name: _installed(name, pins) for name, pins in PROFILERS.items()}
    return {name: python for name, python in found.items() if python is not None}


def _installed(name: str, pins: tuple[str, ...]) -> str | None:
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
    (folder / "complete").touch()


def _borrow(folder: Path) -> None:
    """Make torch of this environment visible in that one, so that both import the same."""
    where = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    path = folder / "lib" / where / "site-packages" / "borrowed.pth"
    text = sysconfig.get_paths()["purelib"] + "\n"
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        path.write_text(text, encoding="utf-8")
