"""A request for one function object, wherever it was found."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from types import FunctionType
from typing import TYPE_CHECKING, Any

from .filters import OneObject, filtered
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
    place = (name, path)
    derived = _derive(engine, function, request, test, place)
    if not inside and not sheet.stands_alone(path):
        derived = _one_closure(engine, function, derived, place)
    landings, reason = sheet.pin(path, derived)
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
    return _filtered(engine, request, place, test, code.co_varnames[0])


def _one_closure(
    engine: Engine, function: FunctionType, request: Request, place: tuple[str, Path]
) -> Request:
    """``request`` for this one of the closures that share its code, told apart by a function it holds.

    Whatever one decorator was put on shares the code of the decorator's closure.
    """
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            held = cell.cell_contents
        except ValueError:  # it is empty
            continue
        if isinstance(held, FunctionType) and held is not function:
            return _filtered(engine, request, place, OneObject(held), name)
    return request


def _filtered(
    engine: Engine, request: Request, place: tuple[str, Path], test: Test, variable: str
) -> Request:
    key = (request, place, test)
    if key not in engine.derived:
        hook = filtered(request.hook, test, variable, engine.on_hook_defined)
        captures = (*request.captures, variable)
        engine.derived[key] = request._replace(hook=hook, captures=captures)
    return engine.derived[key]
