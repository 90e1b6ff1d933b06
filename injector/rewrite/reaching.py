"""Requests for modules that are already loaded."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from types import ModuleType
from typing import TYPE_CHECKING

from .attaching import attach_path
from .lazy import postponed
from .live import Exchange
from .methods import is_method
from .request import Miss, Request

if TYPE_CHECKING:
    from .engine import Engine


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
        if is_method(request.variable):
            continue  # that a name is read does not say that it is called
        try:
            if not postponed(engine, module, request):
                attach_path(engine, module, request.path, request)
        except Exception as error:
            engine.miss([request], f"could not be attached: {error!r}")
