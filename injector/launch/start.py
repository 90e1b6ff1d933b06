"""The boot of the program's process: the first call of this package in it, made by ``sitecustomize``."""

from __future__ import annotations

import atexit
import os
import posix
import sys

from injector import gc_padding
from injector.bus import inbox
from injector.launch.boot import ProgramProcess, spare_builtins
from injector.launch.children import Children, native
from injector.plain_json import loads

TYPE_CHECKING = False  # importing typing would cost 5 ms
if TYPE_CHECKING:
    from collections.abc import Callable


def start(settings: str, path: str | None, allocated: int) -> Callable[[], None]:
    """Boot this process. Returns what is to be called once the user's own sitecustomize has run.

    ``settings`` are those of the run, as :func:`.environment.encode` has written them; ``path`` is the
    ``sys.path[0]`` of a program without a script, if its parent has passed one on. ``allocated`` is how many
    objects counted for the next garbage collection before we came.
    """
    config = loads(settings)
    config["pythonpath"] = os.environ.get("PYTHONPATH")
    if config.get("inbox"):
        inbox.offer(config["inbox"])
    if config.get("sample"):
        _let_sample()
    children = Children(settings)
    children.install()
    process = ProgramProcess(config, children)
    process.spare = spare_builtins()
    # Before any exit function of the program's, so that ours is called after all of them.
    atexit.register(process.at_exit)
    os._exit = posix._exit = native(os._exit, process.before_exit)
    begin = _beginning(process, path)
    gc_padding.allocate(allocated)
    return begin


def _beginning(process: ProgramProcess, path: str | None) -> Callable[[], None]:
    """Return what begins the phases, or waits for the script to begin them."""
    program = sys.argv[0] if sys.argv else ""
    if program in ("", "-", "-c"):
        process.children.path = path
        return lambda: process.phases_early(path)
    from injector.launch.main import Script  # a child with -c does not need it

    return Script(process, program).wait_for


PTRACE_SCOPE = "/proc/sys/kernel/yama/ptrace_scope"
_SET_PTRACER, _ANY = 0x59616D61, -1  # PR_SET_PTRACER, PR_SET_PTRACER_ANY


def _let_sample() -> None:
    """Allow other processes of this user to read the memory of this one, as a sampler of stacks does.

    Where Linux restricts that (Yama), only a parent may, unless the process itself allows it.
    """
    try:
        with open(PTRACE_SCOPE) as file:
            restricted = file.read().strip() == "1"
    except OSError:
        return
    if restricted:
        import ctypes

        ctypes.CDLL(None).prctl(_SET_PTRACER, _ANY, 0, 0, 0)
