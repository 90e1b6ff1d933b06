"""Probes in functions that Numba compiles: what is compiled is the function as it was written.

Numba reads the bytecode of a function, and would refuse the name of a hook in it. Where it takes a
function of ours it is given a twin with the original code; called as Python, the function is probed.
"""

from __future__ import annotations

from types import FunctionType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import CodeType, ModuleType

    Lookup = Callable[[CodeType], CodeType | None]


def compile_originals(module: ModuleType, lookup: Lookup) -> None:
    """Let Numba read ``lookup(code)`` instead of a function's code, where that is not None.

    Raises AttributeError where this Numba reads functions elsewhere.
    """
    identity: Any = module.FunctionIdentity
    from_function = identity.from_function.__func__

    def original(cls: Any, pyfunc: Any) -> Any:
        code = lookup(pyfunc.__code__) if isinstance(pyfunc, FunctionType) else None
        return from_function(cls, pyfunc if code is None else twin(pyfunc, code))

    identity.from_function = classmethod(original)


def twin(function: FunctionType, code: CodeType) -> FunctionType:
    """Another function that is like ``function`` in all but its code."""
    cells = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
    closure = tuple(cells[name] for name in code.co_freevars)
    defaults = function.__defaults__
    made = FunctionType(code, function.__globals__, function.__name__, defaults, closure)
    made.__kwdefaults__ = function.__kwdefaults__
    made.__annotations__ = function.__annotations__
    made.__module__, made.__qualname__ = function.__module__, function.__qualname__
    made.__doc__ = function.__doc__
    made.__dict__.update(function.__dict__)
    return made
