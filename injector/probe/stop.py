"""Ending the program from inside a hook: as if it had reached its end. And what else passes a hook.

What a program sees is a plain ``SystemExit``: ``finally`` blocks run, ``atexit`` runs, the exit
code is 0. A program may swallow it in a bare ``except:``; so the program's frames that are alive when
the stop begins are traced, and the moment one goes on as if nothing had been raised, it is raised
again.
"""

from __future__ import annotations

import os
import sys

from ..variables import read_local

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType
    from typing import Any, NoReturn

_VARARGS = 0x04

_PATIENCE = 1000
"""How often a stop is raised again before the process is ended without asking the program."""


class StopProgram(SystemExit):
    """What a handler or an instrument raises: the program has been observed long enough.

    An object that a voirfile has put into the program, such as a loader, may raise it there: uncaught, it
    ends the program well.
    """

    def __init__(self, value: object = None) -> None:
        super().__init__(value)
        self.value = value

    @property
    def code(self) -> None:  # type: ignore[override]
        """None, the exit code 0. The interpreter looks it up when this ends the process.

        So does the standard library in a process that it has started; a program may look, and go on.
        """
        global left_by
        asking = sys._getframe().f_back
        if asking is None or _in_standard_library(asking):
            left_by = self


left_by: StopProgram | None = None
"""The stop that has ended the program's main code without having passed a hook."""


def adopt(phase: Any) -> None:
    """Let the module ``voir.phase`` have this class as its own: both end a program alike."""
    phase.StopProgram = StopProgram


on_give_up: Callable[[], None] = lambda: None
"""Called before a program that swallows every stop is ended: the record's last words."""


on_stop: Callable[[], None] = lambda: None
"""Called when the first stop of this process begins."""


_later: Callable[[], bool] = lambda: False
"""Whether a process that is to be stopped here goes on to where all ranks of its job stop."""


def listen(
    *, stop: Callable[[], None], give_up: Callable[[], None], later: Callable[[], bool]
) -> None:
    """Have these called from now on, in place of those before."""
    global on_stop, on_give_up, _later
    on_stop, on_give_up, _later = stop, give_up, later


stopped_by: BaseException | None = None
"""What ended the program, once something of ours did."""


def is_stop(error: BaseException) -> bool:
    """Whether ``error`` asks for the end of the program: ours, or voir's (found only if loaded).

    A handler within a handler may have raised it: what passes the outer one is what the program shall see.
    """
    if stopped_by is not None and isinstance(error, SystemExit):
        return True
    return isinstance(error, (StopProgram, KeyboardInterrupt, *_foreign()))


def _foreign() -> tuple[type[BaseException], ...]:
    phase = sys.modules.get("voir.phase")
    return (phase.StopProgram, phase.OverseerAbort) if phase is not None else ()


def goes_on(error: BaseException) -> bool:
    """Whether the program, which ``error`` is to end here, goes on to where all ranks of its job stop.

    An error that says at which step has been agreed on.
    """
    if stopped_by is not None or not _is_plain_stop(error):
        return False
    return _later()


def _is_plain_stop(error: BaseException) -> bool:
    phase = sys.modules.get("voir.phase")
    return type(error) is StopProgram or (phase is not None and type(error) is phase.StopProgram)


def request_stop(error: BaseException, frame: FrameType) -> NoReturn:
    """End the program at ``frame`` because of ``error``: raises what the program shall see.

    voir's ``OverseerAbort`` passes as it is, with the error that it carries as its cause: ``except
    Exception`` does not hold it up. So does a ``KeyboardInterrupt``.
    """
    phase = sys.modules.get("voir.phase")
    if phase is not None and isinstance(error, phase.OverseerAbort):
        raise error from error.args[0]
    if isinstance(error, KeyboardInterrupt):
        raise error
    import threading  # at the end of a run, not at its start

    global stopped_by
    if stopped_by is None:
        stopped_by = error
        on_stop()
    _insist(frame)
    if threading.current_thread() is not threading.main_thread():
        _stop_main_thread()
    raise SystemExit from None


def is_programs(error: BaseException) -> bool:
    """Whether the program shall see ``error``, which was raised while a hook was running.

    A signal's handler runs wherever the main thread happens to be, in the middle of a hook too; what it
    raises (``SystemExit`` for SIGTERM, an alarm's ``TimeoutError``, PyTorch's word that a worker died)
    is meant for the program. So is the end that we ourselves requested.
    """
    if isinstance(error, SystemExit) and stopped_by is not None:
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


def as_both_stops(error: BaseException) -> BaseException:
    """``error`` as instruments shall see it: whichever ``StopProgram`` they catch, ours or voir's."""
    phase = sys.modules.get("voir.phase")
    if phase is None or phase.StopProgram is StopProgram:
        return error
    if not isinstance(error, (StopProgram, phase.StopProgram)):
        return error
    both: Any = type("StopProgram", (StopProgram, phase.StopProgram), {})
    return both(*error.args)  # type: ignore[no-any-return]


def _insist(frame: FrameType) -> None:
    """Watch every live frame of this thread, so that a swallowed stop is raised again."""
    watch = _Watch(frame)
    watch.arm()
    # CPython drops a trace function that raises; the profile function puts it back at the next
    # call or return, which comes before any handler further out.
    sys.setprofile(watch.profile)


_main_ended = False
"""Whether the main thread has left the program: from then on nothing is raised in it."""


def main_ends() -> None:
    """The program has come to its end in the main thread: no stop of another thread arrives there now."""
    global _main_ended
    _main_ended = True
    try:
        if stopped_by is not None:
            _raise_in_main_thread(None)
    except SystemExit:  # it was on its way
        pass


def _stop_main_thread() -> None:
    """Raise the stop in the main thread too: it may be waiting for nothing else."""
    if not _main_ended:
        _raise_in_main_thread(SystemExit)
        if _main_ended:  # between the two lines
            _raise_in_main_thread(None)


def _raise_in_main_thread(error: type[BaseException] | None) -> None:
    """At its next line; None takes back what has not been raised yet."""
    import ctypes
    import threading

    main = ctypes.c_ulong(threading.main_thread().ident or 0)
    raised = None if error is None else ctypes.py_object(error)
    ctypes.pythonapi.PyThreadState_SetAsyncExc(main, raised)


class _Watch:
    """The trace function of a thread that is being stopped.

    Only frames that were alive when the stop began are watched: a finalizer or an ``atexit``
    callback is new, and raising into those would end nothing. The standard library's frames are left
    alone: what ``threading``, ``multiprocessing`` or ``asyncio`` do after it is cleaning up.
    """

    __slots__ = ("_alive", "_raised")

    def __init__(self, frame: FrameType | None) -> None:
        self._raised = 0
        self._alive: list[FrameType] = []
        while frame is not None:
            if not _in_standard_library(frame):
                self._alive.append(frame)
            frame = frame.f_back

    def arm(self) -> None:
        if sys.gettrace() != self:
            for frame in self._alive:
                frame.f_trace = self
            sys.settrace(self)

    def profile(self, frame: FrameType, event: str, _: Any) -> None:
        if event == "return" and frame in self._alive:
            self._alive.remove(frame)
        if self._alive:
            self.arm()
        else:
            sys.setprofile(None)
            sys.settrace(None)

    def __call__(self, frame: FrameType, event: str, _: Any) -> Any:
        if event == "call":
            return None
        if event == "line" and _went_on(frame):
            self._raised += 1
            if self._raised > _PATIENCE:
                on_give_up()
                os._exit(0)
            raise SystemExit
        return self


def _in_standard_library(frame: FrameType) -> bool:
    filename = frame.f_code.co_filename
    library = os.path.dirname(os.__file__) + os.sep
    return filename.startswith("<frozen ") or (
        filename.startswith(library) and "site-packages" not in filename
    )


def _went_on(frame: FrameType) -> bool:
    """Whether ``frame`` goes on as if nothing had been raised: the stop is not being handled."""
    error = sys.exc_info()[1]
    while error is not None:  # a finally block, an except clause, an __exit__: let it finish
        if isinstance(error, SystemExit):
            return False
        error = error.__context__
    return not _entering_handler(frame)


def _entering_handler(frame: FrameType) -> bool:
    """Whether the next instruction begins a handler: the error is in flight, not yet visible."""
    from opcode import opmap

    begin = opmap.get("PUSH_EXC_INFO")  # 3.11 and later
    return begin is not None and frame.f_code.co_code[frame.f_lasti] == begin
