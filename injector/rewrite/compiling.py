"""Probes under ``torch.compile``: what is compiled is the program as it was written.

Where Dynamo is about to trace a function of ours, it is given the function's original code (with the
overriding hooks, which are part of what the program shall do, and with nothing else). So graphs,
graph breaks and guards are those of the plain program; hooks fire where code runs uncompiled. Should
a hook be met in a trace all the same, it is a function that gives back its argument. torch is never
imported here: this waits until the program imports it.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import CodeType, ModuleType
    from typing import Any

    from .engine import Engine

    Traced = Callable[..., Any]
    Lookup = Callable[[CodeType], "CodeType | None"]

_NEEDED = (
    "torch._dynamo",
    "torch._dynamo.convert_frame",
    "torch._dynamo.variables.functions",
    "torch._dynamo.variables.builder",
)


def watch(engine: Engine) -> None:
    """When a compiler is imported, give it original code; make Dynamo look through every hook."""
    listening = False

    def imported(module: ModuleType) -> None:
        nonlocal listening
        if not listening and _complete():
            listening = True
            _quietly(trace_originals, engine.traced)
            engine.each_hook(transparent)

    def numba_imported(module: ModuleType) -> None:
        from .jitting import compile_originals

        def original(code: CodeType) -> CodeType | None:
            found = engine.original(code)
            if found is not None:
                engine.note_compiled(code)
            return found

        compile_originals(module, original)

    engine.after_import("numba.core.bytecode", numba_imported)
    for name in _NEEDED:  # whichever is complete last: torches differ in what imports what
        engine.after_import(name, imported)


def _complete() -> bool:
    modules = [sys.modules.get(name) for name in _NEEDED]
    specs = [getattr(module, "__spec__", None) for module in modules]
    return not any(getattr(spec, "_initializing", True) for spec in specs)


def trace_originals(lookup: Lookup) -> None:
    """Let Dynamo compile and inline ``lookup(code)`` instead of ``code``, where that is not None.

    Raises AttributeError where this Dynamo has other parts than those from 2.0 to 2.13.
    """
    frames = sys.modules["torch._dynamo.convert_frame"]
    function = sys.modules["torch._dynamo.variables.functions"].UserFunctionVariable
    compile_frame, get_code = frames._compile, function.get_code

    def _compile(code: CodeType, *args: Any, **kwargs: Any) -> Any:
        return compile_frame(lookup(code) or code, *args, **kwargs)

    def own_code(self: Any) -> Any:
        code = get_code(self)
        return lookup(code) or code

    frames._compile, function.get_code = _compile, own_code  # type: ignore[attr-defined]


def transparent(hook: Callable[..., Any], traced: Traced | None = None) -> None:
    """Let Dynamo trace ``traced`` where a program calls ``hook``: by default, what it is given.

    Nothing happens where Dynamo is not loaded. ``traced`` is a function without defaults or closure
    (guards on these would be looked for on the hook), or something torch itself knows.
    """
    if _complete() and not _quietly(_by_identity, hook, traced or _first):
        _quietly(_by_substitution, hook, traced or _first)


def _first(*arguments: Any) -> Any:
    return arguments[0] if arguments else None


def _by_identity(hook: Any, traced: Any) -> None:
    """The way that leaves no guard: a hook may then be exchanged without compiling anew."""
    builder = sys.modules["torch._dynamo.variables.builder"].VariableBuilder
    variable = sys.modules["torch._dynamo.variables.functions"].UserFunctionVariable

    def found(self: Any, value: Any) -> Any:
        return variable(traced) if isinstance(traced, _Function) else self._wrap(traced)

    builder._id_dispatch()[id(hook)] = found
    _kept.append(hook)  # an id is only good for as long as its object lives


def _by_substitution(hook: Any, traced: Any) -> None:
    """The public way (torch 2.5 and later), with a guard on the hook's identity."""
    substitute = sys.modules["torch._dynamo"].substitute_in_graph
    substitute(hook, skip_signature_check=True)(traced)


def _quietly(act: Callable[..., None], *args: Any) -> bool:
    """Whether ``act`` did it: a Dynamo in which it cannot be done traces the hooks' own code."""
    try:
        act(*args)
    except Exception:
        return False
    return True


_Function = type(_first)
_kept: list[Any] = []
