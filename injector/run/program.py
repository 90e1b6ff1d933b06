"""What the process of a program is started with: its file, its words and its environment."""

from __future__ import annotations

import os
import sys
import time

from injector.launch import environment
from injector.monitor.presence import accelerator
from injector.voirfiles import automatic, methods

TYPE_CHECKING = False  # importing typing would cost 5 ms
if TYPE_CHECKING:
    from injector.bus.inbox import Inbox
    from injector.launch.command import Command
    from injector.voirfiles import Shipped


def path_and_argv(command: Command) -> tuple[str, list[str]]:
    """The file to execute for ``command``, and its ``argv``."""
    if command.kind == "command":
        file = environment.find_command(command.target)
        return file or command.target, command.words()
    words = command.words()
    if command.kind == "stdin" and not os.isatty(0):
        words[0] = environment.STDIN
    # As our own interpreter was called, so that the program finds that name in ``sys.orig_argv``.
    name = sys.orig_argv[0] if sys.orig_argv else sys.executable
    return sys.executable, [name, *python_flags(), *words]


def python_flags() -> list[str]:
    """The options of our interpreter (``python -W error -m injector …``), which the program's gets, too."""
    count = len(sys.argv) - 1
    words = sys.orig_argv[1 : len(sys.orig_argv) - count]
    if sys.orig_argv[len(sys.orig_argv) - count :] != sys.argv[1:] or not words:
        return []
    if words[-2:-1] in (["-m"], ["-c"]):
        return words[:-2]
    return words[:-1]


def environment_of(
    command: Command,
    voirfiles: list[str],
    acting: list[Shipped],
    folder: str | None,
    inbox: Inbox | None,
    moved: float,
) -> dict[str, str]:
    """The environment that the program's process starts with, whose boot removes our variables.

    ``voirfiles`` are those of the user, ``acting`` the shipped ones that act by themselves. The run is
    recorded in ``folder`` and ``inbox``, with ``moved`` seconds added to this host's clock.
    """
    environ = dict(os.environ)
    original = environ.get("PYTHONPATH")
    settings = {
        "home": os.path.dirname(environment.PACKAGE),
        "run": folder,
        "inbox": None if inbox is None else inbox.address,
        "clock": {"clock_moved": moved} if moved else {},
        "voirfiles": voirfiles,
        "found": command.named() is None,
        "options": command.options,
        "configs": [os.path.abspath(path) for path in command.configs],
        "workers": "--workers" in command.flags,
        "strict": "--strict" in command.flags,
        "pythonpath": original,
        "main": command.name,
        "pace": _pace(command),
        "torch_profile": command.profiled and list(command.profiled),
        "sample": "--sample" in command.flags,
        "auto": automatic(acting, layers=command.layers > 0),
        "layers": command.layers,
        "memory": "--memory" in command.flags,
        "methods": _methods(acting, environ),
    }
    environ.update(environment.variables(environment.encode(settings), original))
    return environ


def _methods(acting: list[Shipped], environ: dict[str, str]) -> dict[str, list[str]]:
    """The methods that shipped voirfiles observe: anywhere, in ranks, where all ``joint`` ones are called."""
    if not acting:
        return {}
    of_devices, of_ranks, joint = methods(acting)
    of_devices = of_devices if accelerator(environ) else []
    return {"any": of_devices, "ranks": of_ranks, "joint": joint}


def _pace(command: Command) -> dict[str, float | str | None] | None:
    """When the program is to stop: after so many steps, or at a moment (monotonic nanoseconds)."""
    limits = command.limits
    stop, duration = limits.get("--stop"), limits.get("--max-duration")
    if stop is None and duration is None:
        return None
    until = None if duration is None else time.monotonic_ns() + round(duration * 1e9)
    phase = command.phase
    return {"skip": limits.get("--skip", 0), "stop": stop, "until": until, "phase": phase}
