"""``@injector.region``: a function each of whose calls is a region."""

from __future__ import annotations

from functools import wraps

TYPE_CHECKING = False  # importing typing would cost 5 ms
if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager
    from typing import Any

_GENERATOR, _COROUTINE, _ASYNC_GENERATOR = 0x20, 0x80, 0x200


def decorated(function: Any, region: Callable[[], AbstractContextManager[Any]]) -> Any:
    """Return ``function`` with each call in a new ``region()``; an asynchronous generator stays as it is.

    ``region`` must be callable without a frame of its own, as a ``partial`` is: the line of the program is
    read from the frame above that of this module.
    """
    flags = getattr(getattr(function, "__code__", None), "co_flags", 0)
    if flags & _ASYNC_GENERATOR:
        return function

    # Three of a kind: what is decorated stays a function, a generator function or a coroutine function, by
    # which `inspect` and event loops tell how to call it.
    @wraps(function)
    def called(*arguments: Any, **keywords: Any) -> Any:
        with region():
            return function(*arguments, **keywords)

    @wraps(function)
    def generated(*arguments: Any, **keywords: Any) -> Any:
        with region():
            return (yield from function(*arguments, **keywords))

    @wraps(function)
    async def awaited(*arguments: Any, **keywords: Any) -> Any:
        with region():
            return await function(*arguments, **keywords)

    if flags & _COROUTINE:
        return awaited
    return generated if flags & _GENERATOR else called
