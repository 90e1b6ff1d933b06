"""A request for one function object, wherever it was found."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from types import FunctionType
from typing import TYPE_CHECKING, Any

from .filters import filtered
from .live import Exchange
from .request import Miss, Request
from .sheet import Path, descend

if TYPE_CHECKING:
    from .engine import Engine

Test = Callable[[Any], bool]


def weave_function(
    engine: Engine,
    function: FunctionType,
    request: Request,
    test: Test | None = None,
    inside: Sequence[str] = (),
) -> bool:
    """Weave ``request`` into this function alone, or one ``inside`` it; False if its text is unknown.

    ``test`` decides by the function's first argument whether an event concerns anybody.
    """
    name = function.__globals__.get("__name__", "")
    namespace = getattr(sys.modules.get(name), "__dict__", None)
    sheet = engine.sheet_of(name, None, namespace) if namespace is not None else None
    path = None if sheet is None else sheet.place(function.__code__)
    path = None if sheet is None or not path else descend(sheet.plain, path, inside)
    if sheet is None or namespace is None or not path:
        return False
    landings, reason = sheet.pin(path, _derive(engine, function, request, test, (name, path)))
    code = sheet.rewrite(engine.wanted(name))[0] if landings else None
    if code is None:
        what = f"{request.variable or 'a variable'} in {'.'.join((function.__qualname__, *inside))}"
        engine.not_found(request, reason or f"{what} not found", sheet)
        return True
    job = Exchange()
    job.add(sheet, namespace, code, landings)
    for landing, obstacle in job.apply(function if sheet.stands_alone(path) else None):
        told = landing._replace(request=request)
        engine.say(told if obstacle is None else Miss(request, obstacle))
    return True


def _derive(
    engine: Engine,
    function: FunctionType,
    request: Request,
    test: Test | None,
    place: tuple[str, Path],
) -> Request:
    """``request`` as it is put into one function, where ``test`` decides whom it concerns."""
    code = function.__code__
    if test is None or not code.co_argcount:
        return request
    key = (request, place, test)
    if key not in engine.derived:
        first = code.co_varnames[0]
        hook = filtered(request.hook, test, first, engine.on_hook_defined)
        captures = (*request.captures, first)
        engine.derived[key] = request._replace(hook=hook, captures=captures)
    return engine.derived[key]
