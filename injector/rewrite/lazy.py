"""Names that a module makes on demand: met when the program asks for them, never earlier."""

from __future__ import annotations

import functools
import sys
from typing import TYPE_CHECKING, Any

from .attaching import Binding
from .follow import imported
from .locate import Program, Source

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

    from .engine import Engine
    from .request import Request


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
    sheet = engine.sheet_of(name, None, vars(module))
    if sheet is None:
        return None
    source = Source(name, sheet.filename, sheet.source, hasattr(module, "__path__"))
    for found, path in imported(Program(None, sys.path, ""), source, request.path):
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
