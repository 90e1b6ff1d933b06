"""Runs a program and keeps everything that can be observed of it."""

from __future__ import annotations

import os
import py_compile
import re
import shutil
import subprocess
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .cases import Case

PROGRAMS = Path(__file__).parents[1] / "programs"
SLOW = 120
"""Seconds after which a program hangs."""


def prepare(folder: Path, neighbours: Mapping[str, str]) -> Path:
    """A fresh copy of the programs, with ``neighbours`` and those that cannot lie in a repository."""
    shutil.rmtree(folder, ignore_errors=True)
    programs = folder / "programs"
    shutil.copytree(
        PROGRAMS, programs, ignore=shutil.ignore_patterns("__pycache__", ".inject", "loops")
    )
    for name, text in neighbours.items():
        (programs / name).write_text(text)
    (programs / "link_to_script.py").symlink_to("neighbour_import.py")
    with zipfile.ZipFile(programs / "program.zip", "w") as archive:
        for file in sorted((programs / "folder").glob("*.py")):
            archive.write(file, file.name)
    py_compile.compile(str(programs / "argv.py"), str(programs / "compiled.pyc"), dfile="argv.py")
    return programs


def observe(
    case: Case,
    before: list[str],
    folder: Path,
    environ: dict[str, str],
    neighbours: Mapping[str, str],
) -> dict[str, Any]:
    """Run ``before + case.words`` in a fresh copy of the programs; all that it did."""
    programs = folder / "programs"
    if not programs.exists():
        prepare(folder, neighbours)
    untouched = states(folder)
    done = subprocess.run(
        [*before, *case.words],
        cwd=programs / case.cwd,
        env={**environ, **dict(case.environ)},
        input=case.stdin.encode(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT if case.merged else subprocess.PIPE,
        timeout=SLOW,
        check=False,
    )
    found = {
        "exit": done.returncode,
        "stdout": masked(done.stdout, case),
        "stderr": masked(done.stderr or b"", case),
        "files": files(folder, case),
    }
    if states(folder) != untouched:
        shutil.rmtree(folder)  # else it is as fresh as a copy, which takes as long as the program
    for cache in [*folder.rglob("__pycache__")]:
        shutil.rmtree(cache)
    return found


def states(folder: Path) -> dict[str, tuple[int, ...]]:
    """What changes of a file when it is written, moved or given other rights; bytecode apart."""
    found = {}
    for base, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if name != "__pycache__"]
        for name in folders:
            found[os.path.join(base, name)] = (os.lstat(os.path.join(base, name)).st_mode,)
        for name in names:
            state = os.lstat(os.path.join(base, name))
            found[os.path.join(base, name)] = (
                *(state.st_ino, state.st_mode, state.st_size),
                *(state.st_mtime_ns, state.st_ctime_ns),
            )
    return found


def masked(output: bytes, case: Case) -> str:
    text = output.decode("utf-8", "backslashreplace")
    for pattern in case.mask:
        text = re.sub(pattern, "<masked>", text)
    return text


def files(folder: Path, case: Case) -> dict[str, Any]:
    """Every file with its kind, mode and contents."""
    found: dict[str, Any] = {}
    for base, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if name != "__pycache__"]
        for name in [*folders, *names]:
            path = Path(base, name)
            key = str(path.relative_to(folder))
            if path.is_symlink():
                found[key] = os.readlink(path)
            elif path.is_dir():
                found[key] = oct(path.stat().st_mode)
            else:
                found[key] = oct(path.stat().st_mode), masked(path.read_bytes(), case)
    return found
