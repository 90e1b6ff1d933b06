"""Probes under ``torch.compile``: the traced graph is the one that would be traced without them.

Dynamo is told that a hook, met while it traces, is a function that gives back its argument. So a
compiled region holds nothing of a hook, not even a guard on it, and hooks fire outside of it. torch
is never imported here: this waits until the program imports it.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType
    from typing import Any

    from .engine import Engine

    Traced = Callable[..., Any]


def watch(engine: Engine) -> None:
    """When Dynamo is imported, make it look through every hook, also those defined later."""

    listening = False

    def imported(module: ModuleType) -> None:
        nonlocal listening
        if not listening and _builder() is not None:
            listening = True
            engine.each_hook(transparent)

    for name in _NEEDED:  # whichever is complete last: a torch may import the one without the other
        engine.after_import(name, imported)


def _builder() -> Any:
    """Dynamo's module that decides how a value is traced, once everything needed is complete."""
    modules = [sys.modules.get(name) for name in _NEEDED]
    if any(getattr(getattr(m, "__spec__", None), "_initializing", True) for m in modules):
        return None
    return modules[-1]


def transparent(hook: Callable[..., Any], traced: Traced | None = None) -> None:
    """Let Dynamo trace ``traced`` where a program calls ``hook``: by default, what it is given.

    Nothing happens where Dynamo is not loaded. ``traced`` is a function without defaults or closure
    (guards on these would be looked for on the hook), or something torch itself knows.
    """
    builder = _builder()
    if builder is None:
        return
    try:
        _by_identity(builder, hook, traced or _first)
    except Exception:
        _by_substitution(hook, traced or _first)


def _first(*arguments: Any) -> Any:
    return arguments[0] if arguments else None


def _by_identity(builder: Any, hook: Any, traced: Any) -> None:
    """The way that leaves no guard: a hook may then be exchanged without compiling anew."""
    function = sys.modules["torch._dynamo.variables.functions"].UserFunctionVariable

    def found(self: Any, value: Any) -> Any:
        return function(traced) if isinstance(traced, _Function) else self._wrap(traced)

    builder.VariableBuilder._id_dispatch()[id(hook)] = found
    _kept.append(hook)  # an id is only good for as long as its object lives


def _by_substitution(hook: Any, traced: Any) -> None:
    """The public way (torch 2.5 and later), with a guard on the hook's identity."""
    try:
        substitute = sys.modules["torch._dynamo"].substitute_in_graph
        substitute(hook, skip_signature_check=True)(traced)
    except Exception:
        pass  # not a function, registered before, or a torch that has no such way


_NEEDED = ("torch._dynamo", "torch._dynamo.variables.builder")
_Function = type(_first)
_kept: list[Any] = []
