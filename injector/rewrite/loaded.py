"""Requests for modules that are already loaded, and for names that those make on demand."""

from __future__ import annotations

import functools
import sys
from collections.abc import Iterable, Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any

from .attaching import Binding, attach_path
from .exchange import Exchange
from .locate import Program, Source
from .method_calls import is_method
from .names import imported
from .request import Request, Unmatched

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

    from .engine import Engine
    from .request import Request


def exchange(engine: Engine, names: Sequence[str]) -> None:
    """Give the functions of loaded modules the code that all requests together ask for."""
    job = Exchange()
    unmet: dict[str, list[Request]] = {}
    for name in names:
        requests, fresh = engine.fresh(name)
        try:
            unmet[name] = _prepare(engine, job, name, requests, fresh)
        except Exception as error:
            engine.unmatched(fresh, f"the module could not be rewritten: {error!r}")
    for match, obstacle in job.apply():
        engine.report(match if obstacle is None else Unmatched(match.request, obstacle))
    for name, rest in unmet.items():
        find_on(engine, sys.modules[name], rest)


def _prepare(
    engine: Engine, job: Exchange, name: str, requests: list[Request], fresh: list[Request]
) -> list[Request]:
    """Put the module's new code into ``job``; what must be found on the live module."""
    namespace = getattr(sys.modules[name], "__dict__", {})
    source = engine.source_of(name, None, namespace)
    if source is None:
        return fresh
    code, matches, unmet = source.rewrite(requests)
    news = [match for match in matches if match.request in fresh]
    if code is not None:
        job.add(source, namespace, code, [n for n in news if n.kind != "binding"])
    bound = {match.request: None for match in news if match.kind == "binding"}
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
            engine.unmatched([request], f"could not be attached: {error!r}")


def postponed(engine: Engine, module: ModuleType, request: Request) -> bool:
    """Whether ``module`` has a ``__getattr__`` for the name that ``request`` begins with.

    If so, the request waits: for the module that an import statement of the source names, although it
    was not executed (``if TYPE_CHECKING:``), else for the first time that ``__getattr__`` gives it.
    """
    namespace = vars(module)
    if not request.path or request.path[0] in namespace:
        return False
    own = namespace.get("__getattr__")
    if own is None and not hasattr(type(module), "__getattr__"):
        return False
    elsewhere = _imported(engine, module, request)
    if elsewhere is not None:
        engine.add([elsewhere])
    elif own is None:
        return False
    else:
        _watch(engine, namespace, own).setdefault(request.path[0], []).append(request)
    return True


def _imported(engine: Engine, module: ModuleType, request: Request) -> Request | None:
    """The same request for the module that the name is imported from, as the source has it."""
    name = request.module
    source = engine.source_of(name, None, vars(module))
    if source is None:
        return None
    file = Source(name, source.filename, source.text, hasattr(module, "__path__"))
    for found, path in imported(Program(None, sys.path, ""), file, request.path):
        if found != name:
            return request._replace(module=found, path=path)
    return None


def _watch(
    engine: Engine, namespace: dict[str, Any], make: Callable[[str], Any]
) -> dict[str, list[Request]]:
    """Have ``__getattr__`` attach what it makes; what waits, by name."""
    waiting: dict[str, list[Request]] | None = getattr(make, "_injector_waiting", None)
    if waiting is not None:
        return waiting
    found: dict[str, list[Request]] = {}

    @functools.wraps(make)
    def __getattr__(name: str) -> Any:
        try:
            value = make(name)
        except BaseException as error:
            # The program's traceback goes on where it would without us.
            error.__traceback__ = error.__traceback__ and error.__traceback__.tb_next
            raise
        for request in found.pop(name, ()):
            value = Binding(engine, request)(value)
            if name in namespace:
                namespace[name] = value
        return value

    __getattr__._injector_waiting = found  # type: ignore[attr-defined]
    namespace["__getattr__"] = __getattr__
    return found
