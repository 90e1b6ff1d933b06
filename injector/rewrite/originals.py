"""Others than Python itself see a probed function as it was written: picklers and compilers.

- Picklers of code objects (dill, and cloudpickle, which joblib, Ray and PySpark use) take the original code,
  and a process that loads it needs nothing of ours.
- Dynamo (``torch.compile``) is given the original code with the hooks that override values, which are part of
  what the program shall do, and without any other. Graphs, graph breaks and guards are those of the plain
  program, and hooks fire where code runs uncompiled. A hook that is met in a trace all the same is traced as
  a function that returns its argument.
- Numba reads bytecode, and would refuse the name of a hook in it. It is given a twin of the function with the
  original code.

Nothing is imported, and nothing costs time, until the program imports one of them. Their insides are patched,
as far as their parts have the names known here. A version with other parts is left alone, and sees the code
with hooks.
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
"""Packages through which hooks call what voirfiles subscribe. A program may use them too."""

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
    """Let the reducers of code objects in a module of cloudpickle get the original code."""
    for name in ("CloudPickler", "Pickler"):
        pickler = getattr(module, name, None)
        for table_name in ("_dispatch_table", "dispatch"):
            table = getattr(pickler, table_name, None)
            if table is not None and _Code in table:
                table[_Code] = _original_first(registry, table[_Code], 0)


def _patch_dill(registry: Registry, module: ModuleType) -> None:
    """Let the function that saves code objects in dill get the original code."""
    table = module.Pickler.dispatch
    if _Code in table:
        table[_Code] = _original_first(registry, table[_Code], 1)


def _patch_dill_detect(detect: ModuleType) -> None:
    """Let dill pickle no hooks.

    With a function it takes along the globals and builtins that the code names, names of hooks among them.
    """
    native = detect.globalvars

    def globalvars(*args: Any, **kwargs: Any) -> Any:
        variables = native(*args, **kwargs)
        for name in [name for name in variables if name.startswith("injector:")]:
            del variables[name]
        return variables

    detect.globalvars = globalvars  # type: ignore[attr-defined]


def _original_first(
    registry: Registry, reduce: Callable[..., Any], position: int
) -> Callable[..., Any]:
    """``reduce`` with the code at ``position`` of its arguments replaced by the original."""
    if getattr(reduce, "_registry", None) is registry:
        return reduce  # two modules share the table, and it has been patched already

    def reduce_original(*args: Any, **kwargs: Any) -> Any:
        code = args[position]
        original = registry.original(code) if isinstance(code, _Code) else None
        if original is not None:
            args = (*args[:position], original, *args[position + 1 :])
        return reduce(*args, **kwargs)

    reduce_original._registry = registry  # type: ignore[attr-defined]
    return reduce_original


# The modules of Dynamo that are patched. It can only be done once all of them have been imported.
_NEEDED = (
    "torch._dynamo",
    "torch._dynamo.convert_frame",
    "torch._dynamo.variables.functions",
    "torch._dynamo.variables.builder",
)


def _watch_compilers(registry: Registry, after_import: AfterImport) -> None:
    """When a compiler is imported, let it take original code, and let Dynamo look through every hook."""
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
    for name in _NEEDED:  # versions of torch differ in which of them is complete last
        after_import(name, imported)


def _complete() -> bool:
    """Whether all needed modules of Dynamo have been imported to their end."""
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
    """The folders of code that hooks call into, each with a separator at its end.

    Not the whole package: an installed one also holds the programs of the shipped benchmarks.
    """
    from importlib.util import find_spec  # torch has it loaded by now

    rooms = [entry.path for entry in os.scandir(_PACKAGE) if entry.is_dir()]
    folders = [path for path in rooms if os.path.basename(path) != "shipped"]
    for name in _STREAMS:
        spec = find_spec(name)
        folders += [] if spec is None else spec.submodule_search_locations or ()
    return tuple(os.path.join(path, "") for path in (*folders, shipped("voirfiles")))


def leave_alone(folders: tuple[str, ...], files: Container[str]) -> None:
    """Let Dynamo compile no function of ours, or of ``files``, that is called where a graph is broken.

    There (as in ``backward``, where hooks are), Dynamo compiles whatever Python function is called next. It
    would break ours into graphs, and warn the program of what they do. What a compiled region itself calls is
    inlined all the same, and what a voirfile compiles by itself is compiled. Raises AttributeError where this
    Dynamo has other parts than those from 2.4 to 2.13.
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
"""Begins the name of the function in which Dynamo puts the rest of a function after a graph break."""


def transparent(hook: Callable[..., Any], traced: Traced | None = None) -> None:
    """Let Dynamo trace ``traced`` where a program calls ``hook``; by default, its first argument.

    Nothing happens if Dynamo is not loaded. ``traced`` is a function without defaults or closure, since
    guards on these would be looked for on the hook, or an object that torch itself knows.
    """
    if _complete() and not _quietly(_by_identity, hook, traced or _first):
        _quietly(_by_substitution, hook, traced or _first)


def _first(*arguments: Any) -> Any:
    return arguments[0] if arguments else None


def _by_identity(hook: Any, traced: Any) -> None:
    """Let Dynamo recognise a hook by its identity, which leaves no guard.

    A hook may then be replaced by another one without a compilation.
    """
    builder = sys.modules["torch._dynamo.variables.builder"].VariableBuilder
    variable = sys.modules["torch._dynamo.variables.functions"].UserFunctionVariable

    def build(self: Any, value: Any) -> Any:
        return variable(traced) if isinstance(traced, _Function) else self._wrap(traced)

    builder._id_dispatch()[id(hook)] = build
    _kept.append(hook)  # an id is only good for as long as its object lives


def _by_substitution(hook: Any, traced: Any) -> None:
    """The public way (torch 2.5 and later), with a guard on the hook's identity."""
    substitute = sys.modules["torch._dynamo"].substitute_in_graph
    substitute(hook, skip_signature_check=True)(traced)


def _quietly(patch: Callable[..., None], *args: Any) -> bool:
    """Whether ``act`` succeeded. If not, this version has other parts, and Dynamo traces the hooks."""
    try:
        patch(*args)
    except Exception:
        return False
    return True


_kept: list[Any] = []
"""Hooks that Dynamo knows by identity."""


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
    """A function that is like ``function`` in all but its code."""
    cells = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
    closure = tuple(cells[name] for name in code.co_freevars)
    defaults = function.__defaults__
    copy: FunctionType = _Function(code, function.__globals__, function.__name__, defaults, closure)
    copy.__kwdefaults__ = function.__kwdefaults__
    copy.__annotations__ = function.__annotations__
    copy.__module__, copy.__qualname__ = function.__module__, function.__qualname__
    copy.__doc__ = function.__doc__
    copy.__dict__.update(function.__dict__)
    return copy
