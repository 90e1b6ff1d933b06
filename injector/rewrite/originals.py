"""What others than Python see of a probed function is the function as it was written.

Picklers of code objects (cloudpickle, in joblib, Ray and PySpark too, and dill) take a function by its
code: a process that loads it needs nothing of ours. Dynamo is given the original code, with the
overriding hooks, which are part of what the program shall do, and nothing else: graphs, graph breaks
and guards are those of the plain program, and hooks fire where code runs uncompiled. A hook that is
met in a trace all the same is a function that gives back its argument. Numba reads bytecode, and would
refuse the name of a hook in it: it is given a twin with the original code.

Nothing is imported or costs anything here until the program imports one of them.
"""

from __future__ import annotations

import os
import sys

from ..origin import shipped

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Container
    from types import CodeType, FunctionType, ModuleType
    from typing import Any

    from .registry import Registry

    AfterImport = Callable[[str, Callable[[ModuleType], None]], None]
    Traced = Callable[..., Any]
    Lookup = Callable[[CodeType], CodeType | None]

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_STREAMS = ("giving", "reactivex", "rx")
"""Packages by way of which we call what voirfiles subscribe; a program may use them too."""

_Function: Any = type(lambda: None)
_Code: Any = type((lambda: None).__code__)


def watch(registry: Registry, after_import: AfterImport) -> None:
    """Wait for picklers of code objects and for compilers to be imported."""
    for name in ("*.cloudpickle", "*.cloudpickle_fast"):
        after_import(name, lambda module: _patch_cloudpickle(registry, module))
    after_import("dill._dill", lambda module: _patch_dill(registry, module))
    after_import("dill.detect", _patch_dill_detect)
    _watch_compilers(registry, after_import)


def _patch_cloudpickle(registry: Registry, module: ModuleType) -> None:
    for name in ("CloudPickler", "Pickler"):
        pickler = getattr(module, name, None)
        for table_name in ("_dispatch_table", "dispatch"):
            table = getattr(pickler, table_name, None)
            if table is not None and _Code in table:
                table[_Code] = _original_first(registry, table[_Code], 0)


def _patch_dill(registry: Registry, module: ModuleType) -> None:
    table = module.Pickler.dispatch
    if _Code in table:
        table[_Code] = _original_first(registry, table[_Code], 1)


def _patch_dill_detect(detect: ModuleType) -> None:
    """dill takes along what a function's names mean in builtins: not where they are hooks."""
    native = detect.globalvars

    def globalvars(*args: Any, **kwargs: Any) -> Any:
        found = native(*args, **kwargs)
        for name in [name for name in found if name.startswith("injector:")]:
            del found[name]
        return found

    detect.globalvars = globalvars  # type: ignore[attr-defined]


def _original_first(
    registry: Registry, reduce: Callable[..., Any], position: int
) -> Callable[..., Any]:
    """``reduce`` with the code at ``position`` of its arguments replaced by the original."""
    if getattr(reduce, "_registry", None) is registry:
        return reduce  # a table that two modules share

    def reduce_original(*args: Any, **kwargs: Any) -> Any:
        code = args[position]
        original = registry.original(code) if isinstance(code, _Code) else None
        if original is not None:
            args = (*args[:position], original, *args[position + 1 :])
        return reduce(*args, **kwargs)

    reduce_original._registry = registry  # type: ignore[attr-defined]
    return reduce_original


_NEEDED = (
    "torch._dynamo",
    "torch._dynamo.convert_frame",
    "torch._dynamo.variables.functions",
    "torch._dynamo.variables.builder",
)


def _watch_compilers(registry: Registry, after_import: AfterImport) -> None:
    """When a compiler is imported, give it original code; make Dynamo look through every hook."""
    listening = False

    def imported(module: ModuleType) -> None:
        nonlocal listening
        if not listening and _complete():
            listening = True
            _quietly(trace_originals, registry.traced)
            _quietly(leave_alone, own_folders(), registry.handler_files)
            registry.each_hook(transparent)

    def numba_imported(module: ModuleType) -> None:
        def original(code: CodeType) -> CodeType | None:
            found = registry.original(code)
            if found is not None:
                registry.note_compiled(code)
            return found

        compile_originals(module, original)

    after_import("numba.core.bytecode", numba_imported)
    for name in _NEEDED:  # whichever is complete last: torches differ in what imports what
        after_import(name, imported)


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


def own_folders() -> tuple[str, ...]:
    """Where code of ours lies that programs call into, each with a separator at its end.

    Not all of the package: an installed one holds the programs of the shipped benchmarks.
    """
    from importlib.util import find_spec  # torch has it loaded by now

    rooms = [each.path for each in os.scandir(_PACKAGE) if each.is_dir()]
    found = [path for path in rooms if os.path.basename(path) != "shipped"]
    for name in _STREAMS:
        spec = find_spec(name)
        found += [] if spec is None else spec.submodule_search_locations or ()
    return tuple(os.path.join(path, "") for path in (*found, shipped("voirfiles")))


def leave_alone(folders: tuple[str, ...], files: Container[str]) -> None:
    """Let Dynamo compile no function of ours, or of ``files``, that is called where a graph is broken.

    Where that is (in ``backward``, which hooks are in), Dynamo compiles whatever Python function is called
    next. It would break ours into graphs, and warn the program of what they do. What a compiled region calls
    itself is inlined all the same, and so is compiled what a voirfile has compiled by itself. Raises
    AttributeError where this Dynamo has other parts than those from 2.4 to 2.13.
    """
    frames = sys.modules["torch._dynamo.convert_frame"]
    wanted, converter = frames.always_optimize_code_objects, frames.CatchErrorsWrapper
    convert, outcome = converter.__call__, getattr(frames, "ConvertFrameReturn", None)

    def convert_frame(self: Any, frame: Any, *state: Any, **named: Any) -> Any:
        code = frame.f_code
        ours = code.co_filename in files or code.co_filename.startswith(folders)
        if ours and code not in wanted and not code.co_name.startswith(_RESUMED):
            return None if outcome is None else outcome()
        return convert(self, frame, *state, **named)

    converter.__call__ = convert_frame


_RESUMED = "torch_dynamo_resume_in_"
"""How the rest of a compiled function is called, after a break of its graph."""


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


_kept: list[Any] = []


def compile_originals(module: ModuleType, lookup: Lookup) -> None:
    """Let Numba read ``lookup(code)`` instead of a function's code, where that is not None.

    Raises AttributeError where this Numba reads functions elsewhere.
    """
    identity: Any = module.FunctionIdentity
    from_function = identity.from_function.__func__

    def original(cls: Any, pyfunc: Any) -> Any:
        code = lookup(pyfunc.__code__) if isinstance(pyfunc, _Function) else None
        return from_function(cls, pyfunc if code is None else twin(pyfunc, code))

    identity.from_function = classmethod(original)


def twin(function: FunctionType, code: CodeType) -> FunctionType:
    """Another function that is like ``function`` in all but its code."""
    cells = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
    closure = tuple(cells[name] for name in code.co_freevars)
    defaults = function.__defaults__
    made: FunctionType = _Function(code, function.__globals__, function.__name__, defaults, closure)
    made.__kwdefaults__ = function.__kwdefaults__
    made.__annotations__ = function.__annotations__
    made.__module__, made.__qualname__ = function.__module__, function.__qualname__
    made.__doc__ = function.__doc__
    made.__dict__.update(function.__dict__)
    return made
