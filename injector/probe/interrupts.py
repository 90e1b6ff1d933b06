"""Telling a mistake of ours from what the program itself raised while a hook was running.

A signal's handler runs wherever the main thread happens to be, in the middle of a hook too; what it
raises (``SystemExit`` for SIGTERM, an alarm's ``TimeoutError``, PyTorch's word that a worker died) is
meant for the program.
"""

from __future__ import annotations

from ..variables import read_local
from . import stop

TYPE_CHECKING = False  # importing typing would cost 5 ms
if TYPE_CHECKING:
    from types import FrameType
    from typing import Any

_VARARGS = 0x04


def is_programs(error: BaseException) -> bool:
    """Whether ``error`` came out of a signal's handler, or is the end that we ourselves asked for."""
    if isinstance(error, SystemExit) and stop.stopped_by is not None:
        return True
    trace = error.__traceback__
    while trace is not None:
        if _handles_signal(trace.tb_frame):
            return True
        trace = trace.tb_next
    return False


def _handles_signal(frame: FrameType) -> bool:
    """Whether ``frame`` was called as a signal's handler: with a number and a frame, last of all."""
    if (frame.f_globals.get("__name__") or "").startswith("injector."):
        return False
    code = frame.f_code
    count = code.co_argcount
    given: list[Any] = [read_local(frame, name) for name in code.co_varnames[:count]]
    if code.co_flags & _VARARGS:
        given += read_local(frame, code.co_varnames[count + code.co_kwonlyargcount]) or ()
    kind = type(frame)
    return len(given) > 1 and isinstance(given[-1], kind) and isinstance(given[-2], int)
