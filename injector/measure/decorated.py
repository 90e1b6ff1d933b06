"""A function each of whose calls is a region of the program."""

from __future__ import annotations

from functools import wraps

from .user import region

TYPE_CHECKING = False  # importing typing would cost 5 ms
if TYPE_CHECKING:
    from typing import Any

_GENERATOR, _COROUTINE, _ASYNC_GENERATOR = 0x20, 0x80, 0x200


def decorated(function: Any, name: str, phase: str | None) -> Any:
    """``function`` in ``region(name, phase=phase)``; an asynchronous generator stays as it is."""
    flags = getattr(getattr(function, "__code__", None), "co_flags", 0)
    if flags & _ASYNC_GENERATOR:
        return function

    @wraps(function)
    def called(*arguments: Any, **keywords: Any) -> Any:
        with region(name, phase=phase):
            return function(*arguments, **keywords)

    @wraps(function)
    def generated(*arguments: Any, **keywords: Any) -> Any:
        with region(name, phase=phase):
            return (yield from function(*arguments, **keywords))

    @wraps(function)
    async def awaited(*arguments: Any, **keywords: Any) -> Any:
        with region(name, phase=phase):
            return await function(*arguments, **keywords)

    if flags & _COROUTINE:
        return awaited
    return generated if flags & _GENERATOR else called
