"""Which frames are ours, and which are those of the function that a hook stands in."""

from __future__ import annotations

TYPE_CHECKING = False  # importing typing would cost 5 ms
if TYPE_CHECKING:
    from types import FrameType

_GENERATOR = 0x20 | 0x80 | 0x200  # flags of generators, coroutines, asynchronous generators
_OBJECT_CALLS = "injector.probe.object_calls"
_STAND_INS = ("injector.rewrite.wrapping", _OBJECT_CALLS)


def is_ours(frame: FrameType) -> bool:
    """Whether ``frame`` runs code of this package."""
    name = frame.f_globals.get("__name__")
    return isinstance(name, str) and name.startswith("injector.")


def is_in_between(frame: FrameType) -> bool:
    """Whether ``frame`` is one of ours that hooks have to search their way through."""
    return is_ours(frame) and frame.f_globals.get("__name__") != _OBJECT_CALLS


def hooked(frame: FrameType | None) -> tuple[FrameType | None, FrameType | None]:
    """The function's frame and its caller's, for a hook that was called from ``frame``.

    What stands in for code written in C calls its hooks itself: there is no function's frame then.
    """
    last = None
    while frame is not None and is_ours(frame):
        last, frame = frame, frame.f_back
    if last is not None and last.f_globals.get("__name__") in _STAND_INS:
        return None, frame
    return frame, None if frame is None else frame.f_back


def is_generator(frame: FrameType | None) -> bool:
    """Whether the function in ``frame`` may be left and come back to."""
    return frame is not None and bool(frame.f_code.co_flags & _GENERATOR)
