"""The tools that are compared, and how each of them runs a program."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).parent
PROGRAMS = HERE / "programs"
VOIRFILES = HERE / "voirfiles"
HOME = HERE.parent.parent


class Tool(NamedTuple):
    """A way of running programs, which is a column of the table."""

    name: str
    command: tuple[str, ...]
    """The words before the program."""
    folder: Path
    """The folder in which the program is run."""
    replaces: str | None = None
    """A program that is run instead of the one that is measured, such as one with hooks written by hand."""
    before: tuple[str, ...] = ()
    """The words between the program and its arguments."""


def environment() -> dict[str, str]:
    """The environment of every run: with this checkout, and without settings of Python or of tools."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "INJECT", "VOIR"))}
    return {**kept, "PYTHONPATH": str(HOME)}


def plain(folder: Path) -> Tool:
    """The program under its own interpreter."""
    return Tool("python", (sys.executable,), folder)


def ours(folder: Path, name: str, voirfile: str | None, *options: str) -> Tool:
    """``inject run`` with one of the voirfiles in :data:`VOIRFILES`, or with none."""
    # They are not beside the programs: there, `inject run` would find one by itself.
    chosen = ("--strict", "--voirfile", str(VOIRFILES / voirfile)) if voirfile else ()
    runs = str(folder / "runs")
    return Tool(name, (*inject(), "run", "--quiet", "--runs", runs, *chosen, *options), folder)


def inject() -> tuple[str, ...]:
    """The command as a user types it, if it is installed in this interpreter's environment."""
    script = Path(sys.executable).with_name("inject")
    return (str(script),) if script.exists() else (sys.executable, "-m", "injector")


def voir(peers: str, folder: Path, voirfile: str | None) -> Tool:
    """``voir`` with one of the voirfiles in :data:`VOIRFILES`, or with none."""
    # voir uses the file `voirfile.py` in the current folder.
    own_folder = folder / ("voir" if voirfile else "voir-bare")
    own_folder.mkdir(exist_ok=True)
    if voirfile:
        shutil.copy(VOIRFILES / voirfile, own_folder / "voirfile.py")
    return Tool("voir", (str(Path(peers).parent / "voir"),), own_folder)


def event_tools(peers: str | None, folder: Path) -> list[Tool]:
    """The tools that can probe ``events.py``, the floor (hooks written by hand) first."""
    tools = [
        Tool("floor", (sys.executable,), folder, "by_hand.py"),
        Tool("hook", (sys.executable,), folder, "with_hooks.py"),
        ours(folder, "ov.value", "fast.py"),
        ours(folder, "ov.probe", "streams.py"),
    ]
    if peers:
        tools += [
            Tool("ptera", (peers,), folder, "with_ptera.py"),
            voir(peers, folder, "streams.py"),
        ]
    return tools


def startup_tools(peers: str | None, folder: Path) -> list[Tool]:
    """The tools whose start-up is compared, the plain interpreter first."""
    tools = [plain(folder), ours(folder, "inject", None)]
    return [*tools, voir(peers, folder, None)] if peers else tools


def program(tool: Tool, name: str, arguments: Sequence[object] = ()) -> list[str]:
    """The command that runs the program ``name`` of :data:`PROGRAMS` under ``tool``."""
    script = str(PROGRAMS / (tool.replaces or name))
    return [*tool.command, script, *tool.before, *map(str, arguments)]
