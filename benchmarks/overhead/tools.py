"""The tools that are compared: how each runs a program."""

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
    """One column of the table."""

    name: str
    command: tuple[str, ...]
    """What stands before the program and its arguments."""
    folder: Path
    """The folder that the program is run in."""
    replaces: str | None = None
    """A program of the tool's own that stands for the one that is measured."""
    before: tuple[str, ...] = ()
    """What stands between the program and its arguments."""


def environment() -> dict[str, str]:
    """The environment of every run: this checkout importable, no setting of Python inherited."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "INJECT", "VOIR"))}
    return {**kept, "PYTHONPATH": str(HOME)}


def plain(folder: Path) -> Tool:
    """The program under its own interpreter."""
    return Tool("python", (sys.executable,), folder)


def ours(folder: Path, name: str, voirfile: str | None, *options: str) -> Tool:
    """``inject run`` with one of our voirfiles, as a user would call it."""
    # The one voirfile of this folder would be found beside a program that is run without any.
    given = ("--strict", "--voirfile", str(VOIRFILES / voirfile)) if voirfile else ()
    runs = str(folder / "runs")
    return Tool(name, (*inject(), "run", "--quiet", "--runs", runs, *given, *options), folder)


def inject() -> tuple[str, ...]:
    """The command as a user types it, where this interpreter's environment has it installed."""
    script = Path(sys.executable).with_name("inject")
    return (str(script),) if script.exists() else (sys.executable, "-m", "injector")


def voir(peers: str, folder: Path, voirfile: str | None) -> Tool:
    """voir finds its voirfile in the folder that it is run in."""
    own = folder / ("voir" if voirfile else "voir-bare")
    own.mkdir(exist_ok=True)
    if voirfile:
        shutil.copy(VOIRFILES / voirfile, own / "voirfile.py")
    return Tool("voir", (str(Path(peers).parent / "voir"),), own)


def event_tools(peers: str | None, folder: Path) -> list[Tool]:
    """Everything that can probe ``events.py``, the floor first."""
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
    """Everything whose start-up is compared, the plain interpreter first."""
    tools = [plain(folder), ours(folder, "inject", None)]
    return [*tools, voir(peers, folder, None)] if peers else tools


def program(tool: Tool, name: str, arguments: Sequence[object] = ()) -> list[str]:
    """The command that runs ``name`` of our programs under ``tool``."""
    named = str(PROGRAMS / (tool.replaces or name))
    return [*tool.command, named, *tool.before, *map(str, arguments)]
