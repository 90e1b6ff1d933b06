"""The tools that watch whole training loops, ours and the peers', and how each of them runs a program."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

from .tools import Tool, ours, plain, voir


def loop_tools(peers: str | None, profilers: Mapping[str, str], folder: Path) -> list[Tool]:
    """The tools that are compared on training loops, the plain interpreter first."""
    tools = [
        plain(folder),
        Tool("by hand", (sys.executable,), folder, "train_by_hand.py"),
        ours(folder, "io + step", "loop.py", "--no-auto"),
        ours(folder, "auto", None),
    ]
    if profilers or peers:
        tools.append(Tool("profiler", (sys.executable,), folder, "train_profiler.py"))
    return [*tools, *others(peers, profilers, folder, "observer.py", "train_traceml.py")]


def start_tools(peers: str | None, profilers: Mapping[str, str], folder: Path) -> list[Tool]:
    """The tools whose start-up is compared."""
    return [plain(folder), ours(folder, "auto", None), *others(peers, profilers, folder)]


def step_counters(peers: str | None, profilers: Mapping[str, str], folder: Path) -> list[Tool]:
    """The tools that record steps one by one."""
    tools = [ours(folder, "io + step", "loop.py", "--no-auto"), ours(folder, "auto", None)]
    peers_ = others(peers, profilers, folder, "observer.py", "every_traceml.py")
    return tools + [tool for tool in peers_ if tool.name in ("traceml", "voir")]


def others(
    peers: str | None,
    profilers: Mapping[str, str],
    folder: Path,
    voirfile: str | None = None,
    reporting: str | None = None,
) -> list[Tool]:
    """The tools of the peers.

    ``voirfile`` is the one that voir is given. ``reporting`` is a program that reports its own steps to
    TraceML, which counts none otherwise.
    """
    tools = []
    words: tuple[str, ...]
    for name, python in profilers.items():
        command = str(Path(python).with_name(name))
        if name == "traceml":
            words = (command, "run", "--logs-dir", str(folder / "traceml"))
            tools.append(Tool(name, words, folder, reporting, before=("--args",)))
        elif name == "pyinstrument":
            tools.append(Tool(name, (command, "-o", str(folder / "pyinstrument.txt")), folder))
        elif name == "py-spy":
            # It ends with an error if the program has been waited for already; what it wrote is whole.
            shell = ("sh", "-c", '"$0" record --format raw -o "$PWD/py-spy.txt" -- "$@" || true')
            tools.append(Tool(name, (*shell, command, sys.executable), folder))
        else:
            words = (command, "--quiet", "-o", str(folder / "viztracer.json"), "--")
            tools.append(Tool(name, words, folder))
    if peers:
        bare = voir(peers, folder, voirfile)
        # voir writes its data to descriptor 3, and nowhere if that is closed.
        keeping = ("sh", "-c", 'exec 3>"$0/$$.jsonl"; exec "$@"', str(bare.folder))
        tools.append(bare._replace(command=(*keeping, *bare.command)))
    return tools
