"""Frames: which are of this package, and which is that of the function in which a hook stands.

A hook in Python, or a wrapper of a function written in C, puts frames of ours between the function and what
is called from it.
"""

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
    """Whether ``frame`` is one of ours between a hook and the function that it stands in."""
    return is_ours(frame) and frame.f_globals.get("__name__") != _OBJECT_CALLS


def hooked(frame: FrameType | None) -> tuple[FrameType | None, FrameType | None]:
    """Return the function's frame and its caller's, for a hook that was called from ``frame``.

    A function written in C has no frame, and its stand-in calls the hooks: then the first is None.
    """
    last = None
    while frame is not None and is_ours(frame):
        last, frame = frame, frame.f_back
    if last is not None and last.f_globals.get("__name__") in _STAND_INS:
        return None, frame
    return frame, None if frame is None else frame.f_back


def is_generator(frame: FrameType | None) -> bool:
    """Whether the function in ``frame`` can be suspended: a generator, a coroutine, an async generator."""
    return frame is not None and bool(frame.f_code.co_flags & _GENERATOR)
