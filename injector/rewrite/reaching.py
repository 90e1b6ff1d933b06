"""Requests for modules and functions that are already loaded."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from types import FunctionType, ModuleType
from typing import TYPE_CHECKING, Any

from .attaching import attach_path
from .filters import filtered
from .live import Exchange
from .request import Miss, Request
from .sheet import Path, descend

if TYPE_CHECKING:
    from .engine import Engine

Test = Callable[[Any], bool]


def exchange(engine: Engine, names: Sequence[str]) -> None:
    """Give the functions of loaded modules the code that all requests together ask for."""
    job = Exchange()
    unmet: dict[str, list[Request]] = {}
    for name in names:
        requests, fresh = engine.fresh(name)
        try:
            unmet[name] = _prepare(engine, job, name, requests, fresh)
        except Exception as error:
            engine.miss(fresh, f"the module could not be rewritten: {error!r}")
    for landing, obstacle in job.apply():
        engine.say(landing if obstacle is None else Miss(landing.request, obstacle))
    for name, rest in unmet.items():
        find_on(engine, sys.modules[name], rest)


def _prepare(
    engine: Engine, job: Exchange, name: str, requests: list[Request], fresh: list[Request]
) -> list[Request]:
    """Put the module's new code into ``job``; what must be found on the live module."""
    namespace = getattr(sys.modules[name], "__dict__", {})
    sheet = engine.sheet_of(name, None, namespace)
    if sheet is None:
        return fresh
    code, landings, unmet = sheet.rewrite(requests)
    news = [landing for landing in landings if landing.request in fresh]
    if code is not None:
        job.add(sheet, namespace, code, [n for n in news if n.kind != "binding"])
    bound = {landing.request: None for landing in news if landing.kind == "binding"}
    return [request for request in (*bound, *unmet) if request in fresh]


def find_on(engine: Engine, module: ModuleType, requests: Iterable[Request]) -> None:
    """Meet requests on the live module: names it got from elsewhere or makes on demand."""
    for request in requests:
        try:
            attach_path(engine, module, request.path, request)
        except Exception as error:
            engine.miss([request], f"could not be attached: {error!r}")


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
