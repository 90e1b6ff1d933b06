"""Ending the program from inside a hook, as if it had reached its end; and what else passes a hook.

A stop begins with :class:`StopProgram`, raised by a voirfile or by us. What the program sees is a plain
``SystemExit``: ``finally`` blocks run, ``atexit`` runs, the exit code is 0. A program may swallow that in a
bare ``except:``. So its frames that are alive when the stop begins are traced (:class:`_Watch`), and as soon
as one of them goes on as if nothing had been raised, the exit is raised again.

A hook keeps from the program whatever its handler raises, but for a stop, a ``KeyboardInterrupt``, and what a
signal handler of the program raised while the hook happened to run (:func:`is_programs`).
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
"""How often a stop is raised again before the process is ended from outside of the program's code."""


class StopProgram(SystemExit):
    """Raised by a handler or an instrument that has observed the program for long enough.

    An object that a voirfile has put into the program, such as a loader, may raise it there as well. If the
    program does not catch it, it ends with success.
    """

    def __init__(self, value: object = None) -> None:
        super().__init__(value)
        self.value = value

    @property
    def code(self) -> None:  # type: ignore[override]
        """None, which stands for the exit code 0. Reading it notes that this error ends the process.

        The interpreter reads it then, without a frame that asks; so does the standard library in a process
        that it has started (``multiprocessing``). A program may read it, too, and go on.
        """
        global left_by
        reader = sys._getframe().f_back
        if reader is None or _in_standard_library(reader):
            left_by = self


left_by: StopProgram | None = None
"""The stop that has ended the program without having passed a hook."""


def adopt(phase: Any) -> None:
    """Put this class into the module ``voir.phase`` in place of its own, which means the same."""
    phase.StopProgram = StopProgram


on_give_up: Callable[[], None] = lambda: None
"""Called before a program that swallows each stop is ended, to write the last records."""


on_stop: Callable[[], None] = lambda: None
"""Called when the first stop of this process begins."""


_later: Callable[[], bool] = lambda: False
"""Whether a process that is to be stopped here goes on to where all ranks of its job stop."""


def listen(
    *, stop: Callable[[], None], give_up: Callable[[], None], later: Callable[[], bool]
) -> None:
    """Have these called from now on, in place of those before them."""
    global on_stop, on_give_up, _later
    on_stop, on_give_up, _later = stop, give_up, later


stopped_by: BaseException | None = None
"""The error by which we have ended the program, once we have."""


def is_stop(error: BaseException) -> bool:
    """Whether ``error`` is to end the program: one of ours, or of voir if that is loaded.

    Once the program is being stopped, a ``SystemExit`` is as well: the hook that has raised it may have been
    called from another handler, which it passes on its way.
    """
    if stopped_by is not None and isinstance(error, SystemExit):
        return True
    return isinstance(error, (StopProgram, KeyboardInterrupt, *_foreign()))


def _foreign() -> tuple[type[BaseException], ...]:
    phase = sys.modules.get("voir.phase")
    return (phase.StopProgram, phase.OverseerAbort) if phase is not None else ()


def goes_on(error: BaseException) -> bool:
    """Whether the program, which ``error`` is to end here, goes on to the step after which all ranks stop.

    An error of a derived class (:class:`injector.measure.pacing.EnoughSteps`) comes at that step.
    """
    if stopped_by is not None or not _is_plain_stop(error):
        return False
    return _later()


def _is_plain_stop(error: BaseException) -> bool:
    phase = sys.modules.get("voir.phase")
    return type(error) is StopProgram or (phase is not None and type(error) is phase.StopProgram)


def request_stop(error: BaseException, frame: FrameType) -> NoReturn:
    """End the program at ``frame`` because of ``error``, by raising what the program is to see.

    voir's ``OverseerAbort``, which no ``except Exception`` catches, is raised as it is, with the error that
    it carries as its cause; and so is a ``KeyboardInterrupt``.
    """
    phase = sys.modules.get("voir.phase")
    if phase is not None and isinstance(error, phase.OverseerAbort):
        raise error from error.args[0]
    if isinstance(error, KeyboardInterrupt):
        raise error
    import threading  # here, since it costs time at the start of a run

    global stopped_by
    first = stopped_by is None
    if first:
        stopped_by = error
        on_stop()
    _insist(frame)
    # Once: what another thread is stopped for later must not come into the clean-up of the main thread.
    if first and threading.current_thread() is not threading.main_thread():
        _stop_main_thread()
    raise SystemExit from None


def is_programs(error: BaseException) -> bool:
    """Whether ``error``, which was raised while a hook was running, is meant for the program.

    A signal handler runs wherever the main thread happens to be, in the middle of a hook too. What it raises
    is meant for the program: ``SystemExit`` for SIGTERM, an alarm's ``TimeoutError``, PyTorch's report that a
    worker has died. So is the exit by which we end the program ourselves.
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
    """Whether ``frame`` was called as a signal handler: with a number and a frame as its last arguments."""
    if (frame.f_globals.get("__name__") or "").startswith("injector."):
        return False
    code = frame.f_code
    count = code.co_argcount
    arguments: list[Any] = [read_local(frame, name) for name in code.co_varnames[:count]]
    if code.co_flags & _VARARGS:
        arguments += read_local(frame, code.co_varnames[count + code.co_kwonlyargcount]) or ()
    kind = type(frame)
    return len(arguments) > 1 and isinstance(arguments[-1], kind) and isinstance(arguments[-2], int)


def as_both_stops(error: BaseException) -> BaseException:
    """Return ``error`` as instruments are to see it: a ``StopProgram`` as one of ours and of voir's."""
    phase = sys.modules.get("voir.phase")
    if phase is None or phase.StopProgram is StopProgram:
        return error
    if not isinstance(error, (StopProgram, phase.StopProgram)):
        return error
    both: Any = type("StopProgram", (StopProgram, phase.StopProgram), {})
    return both(*error.args)  # type: ignore[no-any-return]


def stops_again() -> bool:
    """Whether this thread, which goes on to train after the program was stopped, is to be stopped as well.

    A pool of the standard library keeps the stop of a task as its result, and begins the next one. What is
    trained while the stop is on its way, as in a ``finally``, or after the main thread has ended, is not
    stopped.
    """
    if stopped_by is None or _is_leaving():
        return False
    import threading

    return not (_main_ended and threading.current_thread() is threading.main_thread())


def _insist(frame: FrameType) -> None:
    """Watch all live frames of this thread, so that a stop that one of them swallows is raised again."""
    watch = _Watch(frame)
    watch.arm()
    # CPython drops a trace function that raises; the profile function puts it back at the next
    # call or return, which comes before any handler further out.
    sys.setprofile(watch.profile)


_main_ended = False
"""Whether the main thread has left the program: from then on nothing is raised in it."""
_raised_in_main = False
"""Whether another thread has raised its stop in the main thread, or is about to."""


def main_ends() -> None:
    """Let no stop of another thread arrive in the main thread, where the program has come to its end."""
    global _main_ended
    try:
        _main_ended = True
        if _raised_in_main:
            # What may not have arrived yet is not taken back, but made to arrive here: once an error was
            # taken back, Python 3.11 looks for it for ever in the next function that is traced or profiled.
            import threading

            if threading.current_thread() is threading.main_thread():
                _raise_in_main_thread()
    except SystemExit:
        pass


def _stop_main_thread() -> None:
    """Raise the stop in the main thread as well, which might wait for good otherwise."""
    global _raised_in_main
    _raised_in_main = True
    _raise_in_main_thread(lambda: _main_ended)


def _raise_in_main_thread(too_late: Callable[[], bool] = lambda: False) -> None:
    """Raise ``SystemExit`` in the main thread at its next line, unless it is ``too_late``."""
    import ctypes
    import threading

    main = ctypes.c_ulong(threading.main_thread().ident or 0)
    raised = ctypes.py_object(SystemExit)
    raise_in = ctypes.pythonapi.PyThreadState_SetAsyncExc
    if not too_late():
        raise_in(main, raised)


class _Watch:
    """The trace function of a thread that is being stopped.

    It watches only frames that were alive when the stop began: finalizers and ``atexit`` callbacks run in new
    ones, and raising there would end nothing. Frames of the standard library are left alone: what
    ``threading``, ``multiprocessing`` or ``asyncio`` do after a stop is to clean up.
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
        """Trace the frames that are watched, unless that is done already."""
        if sys.gettrace() != self:
            for frame in self._alive:
                frame.f_trace = self
            sys.settrace(self)

    def profile(self, frame: FrameType, event: str, _: Any) -> None:
        """Forget frames that return, and trace the others again: the profile function of the thread."""
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
    """Whether ``frame`` goes on as if nothing had been raised, and is in no handler of the stop."""
    return not _is_leaving() and not _entering_handler(frame)


def _is_leaving() -> bool:
    """Whether a stop is on its way: a `finally`, an `except` clause or an `__exit__` may take its time."""
    error = sys.exc_info()[1]
    while error is not None:
        if isinstance(error, SystemExit):
            return True
        error = error.__context__
    return False


def _entering_handler(frame: FrameType) -> bool:
    """Whether the next instruction begins a handler: then the error is not in ``sys.exc_info`` yet."""
    from opcode import opmap

    begin = opmap.get("PUSH_EXC_INFO")  # from Python 3.11 on
    return begin is not None and frame.f_code.co_code[frame.f_lasti] == begin
