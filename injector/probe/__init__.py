"""What rewritten code calls.

A *point* is one hook: the callable that sits in :mod:`builtins` under a name no program can write,
hands the value of a place to a handler, counts, and never lets a handler's mistake reach the
program. This room knows nothing of selectors, files or run folders.
"""

from __future__ import annotations

from .calls import INSIDE, Call, Calls
from .methods import MethodHooks, method_hooks, publish_method
from .object_calls import object_calls
from .points import (
    MISSING,
    Point,
    define,
    define_raw,
    defined,
    publish_calls,
    silence,
    undefine,
)
from .room import Room
from .stop import StopProgram, request_stop
from .stored import define_stored, stored_call

__all__ = [
    "INSIDE",
    "MISSING",
    "Call",
    "Calls",
    "MethodHooks",
    "Point",
    "Room",
    "StopProgram",
    "define",
    "define_raw",
    "define_stored",
    "defined",
    "method_hooks",
    "object_calls",
    "publish_calls",
    "publish_method",
    "request_stop",
    "silence",
    "stored_call",
    "undefine",
]
