"""Functions leave the process as they were written.

cloudpickle (its own, and the copies in joblib, Ray, PySpark and others) and dill pickle a function by
its code object. Where that code is ours, they are given the original, so that whoever loads it needs
to know nothing of us. Nothing is done, and nothing costs anything, until such a pickler is imported.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType
    from typing import Any

    from .engine import Engine

_Code: Any = type((lambda: None).__code__)


def watch(engine: Engine) -> None:
    """Teach picklers of code objects, when they are imported, to ask for the original."""
    for name in ("*.cloudpickle", "*.cloudpickle_fast"):
        engine.after_import(name, lambda module: _teach_cloudpickle(engine, module))
    engine.after_import("dill._dill", lambda module: _teach_dill(engine, module))
    engine.after_import("dill.detect", _teach_dill_to_look)


def _teach_cloudpickle(engine: Engine, module: ModuleType) -> None:
    for name in ("CloudPickler", "Pickler"):
        pickler = getattr(module, name, None)
        for table_name in ("_dispatch_table", "dispatch"):
            table = getattr(pickler, table_name, None)
            if table is not None and _Code in table:
                table[_Code] = _original_first(engine, table[_Code], 0)


def _teach_dill(engine: Engine, module: ModuleType) -> None:
    table = module.Pickler.dispatch
    if _Code in table:
        table[_Code] = _original_first(engine, table[_Code], 1)


def _teach_dill_to_look(detect: ModuleType) -> None:
    """dill takes along what a function's names mean in builtins: not where they are hooks."""
    native = detect.globalvars

    def globalvars(*args: Any, **kwargs: Any) -> Any:
        found = native(*args, **kwargs)
        for name in [name for name in found if name.startswith("injector:")]:
            del found[name]
        return found

    detect.globalvars = globalvars  # type: ignore[attr-defined]


def _original_first(
    engine: Engine, reduce: Callable[..., Any], position: int
) -> Callable[..., Any]:
    """``reduce`` with the code at ``position`` of its arguments replaced by the original."""
    if getattr(reduce, "_asks", None) is engine:
        return reduce  # a table that two modules share

    def ask(*args: Any, **kwargs: Any) -> Any:
        code = args[position]
        original = engine.original(code) if isinstance(code, _Code) else None
        if original is not None:
            args = (*args[:position], original, *args[position + 1 :])
        return reduce(*args, **kwargs)

    ask._asks = engine  # type: ignore[attr-defined]
    return ask
