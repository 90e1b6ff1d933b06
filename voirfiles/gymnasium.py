"""Gymnasium and Gym: `env` is the time in environments that a library steps and resets.

The outermost call counts: of an environment in wrappers, or of several that run side by side, it is the one
that the training makes. Calls in the program's own files, of environments of any class, are recorded with
torch (`torch_functions.py`).
"""

from __future__ import annotations

from types import FunctionType
from typing import Any

LIBRARY = ("gymnasium", "gym")
TESTED = ("0.26", "1.4")


def instrument_environments(ov: Any) -> None:
    """``env``: ``step`` and ``reset`` of wrapped environments, and of several side by side."""
    for library in LIBRARY:
        for module, kind in (("core", "Wrapper"), ("vector.vector_env", "VectorEnv")):
            ov.after_import(
                f"{library}.{module}",
                lambda imported, kind=kind: _record_classes(ov, imported, kind),
            )


def _record_classes(ov: Any, module: Any, kind: str) -> None:
    """Record the classes of wrappers, and of what they wrap, when the first instance of each is made.

    A base class whose instances cannot be noticed has its own methods recorded at once.
    """
    seen: set[type] = set()

    def made(self: Any) -> Any:
        wrapped = vars(self).get("env")
        for owner in (*type(self).__mro__, *type(wrapped).__mro__):
            if owner not in seen and owner is not object:
                seen.add(owner)
                for name in ("step", "reset"):
                    method = vars(owner).get(name)
                    if hasattr(method, "__code__"):
                        _record_method(ov, method)
        return self

    base = getattr(module, kind, None)
    if base is not None and "__init__" in vars(base):
        ov.override(f"/{module.__name__}/{kind}/__init__ > self", made)
    elif base is not None:
        for name in ("step", "reset"):
            _record_method(ov, vars(base)[name])


def _record_method(ov: Any, method: Any) -> None:
    code = method.__code__
    if not code.co_argcount:
        return  # step(*args) does not say where the environment is

    def reads(get: Any) -> Any:
        """``get``, of the parameter that the program may call otherwise than ``self``."""
        return FunctionType(get.__code__.replace(co_varnames=code.co_varnames[:1]), globals())

    ov.region(
        method,
        "env",
        of=reads(lambda self: type(self)),
        what=reads(lambda self: type(self).__name__),
        outermost=True,
    )
