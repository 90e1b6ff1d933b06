"""The first call in the program's process: ``sitecustomize`` makes it."""

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
    """Boot this process; returns what is to be done once the user's own sitecustomize has run.

    ``allocated`` objects counted for the next garbage collection when we came.
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
    atexit.register(process.at_exit)
    os._exit = posix._exit = native(os._exit, process.before_exit)
    begin = _beginning(process, path)
    gc_padding.allocate(allocated)
    return begin


def _beginning(process: ProgramProcess, path: str | None) -> Callable[[], None]:
    program = sys.argv[0] if sys.argv else ""
    if program in ("", "-", "-c"):
        process.children.path = path
        return lambda: process.phases_early(path)
    from injector.launch.main import Script  # every child with -c would wait for it

    return Script(process, program).wait_for


PTRACE_SCOPE = "/proc/sys/kernel/yama/ptrace_scope"
_SET_PTRACER, _ANY = 0x59616D61, -1  # PR_SET_PTRACER, PR_SET_PTRACER_ANY


def _let_sample() -> None:
    """Let another process of this user read the memory of this one, where only its parent may."""
    try:
        with open(PTRACE_SCOPE) as file:
            restricted = file.read().strip() == "1"
    except OSError:
        return
    if restricted:
        import ctypes

        ctypes.CDLL(None).prctl(_SET_PTRACER, _ANY, 0, 0, 0)
