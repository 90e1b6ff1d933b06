"""Gymnasium and Gym: `env` is the time in environments that a library steps and resets.

The outermost call counts: of an environment in wrappers, or of several that run side by side, it is the
one that the training makes. Calls in the program's own files are recorded with torch
(`torch_functions.py`), whatever kind of environment it is.
"""

from __future__ import annotations

from typing import Any

LIBRARY = ("gymnasium", "gym")
TESTED = ("0.26", "1.4")


def instrument_environments(ov: Any) -> None:
    for library in LIBRARY:
        for module, kind in (("core", "Wrapper"), ("vector.vector_env", "VectorEnv")):
            ov.after_import(f"{library}.{module}", lambda found, kind=kind: _watch(ov, found, kind))


def _watch(ov: Any, module: Any, kind: str) -> None:
    """Each class of wrappers, and of what they wrap, once there is an instance."""
    seen: set[type] = set()

    def made(self: Any) -> Any:
        inner = vars(self).get("env")
        for each in (*type(self).__mro__, *type(inner).__mro__):
            if each not in seen and each is not object:
                seen.add(each)
                for name in ("step", "reset"):
                    method = vars(each).get(name)
                    if hasattr(method, "__code__"):
                        _record(ov, method)
        return self

    base = getattr(module, kind, None)
    if base is not None and "__init__" in vars(base):
        ov.override(f"/{module.__name__}/{kind}/__init__ > self", made)
    elif base is not None:
        for name in ("step", "reset"):
            _record(ov, vars(base)[name])


def _record(ov: Any, method: Any) -> None:
    ov.region(
        method,
        "env",
        of=lambda self: type(self),
        what=lambda self: type(self).__name__,
        outermost=True,
    )
