"""The import hook: it exchanges a module's code where the import system and ``runpy`` execute it.

Nothing stands on ``sys.meta_path`` and no loader is touched. Every loader that executes modules in the
standard way ends in one call, ``_call_with_frames_removed(exec, code, namespace)`` of the frozen importlib.
That function is replaced by one of the same name, file, line and depth, which hands ``exec`` other code when
the client wants the module. So finders, loaders, specs, caches, errors and tracebacks are those of the import
system itself, whatever stands on ``sys.meta_path``, in any order. A module that its loader executes in a way
of its own is met when its import ends, by the release of the import lock of that one module.

A finder on ``sys.meta_path`` would be simpler, and seen: programs that look at ``__loader__``, at
``sys.meta_path`` or that put a finder of their own in front behave otherwise then (``finders.py`` of
``tests/programs``, ``tests/rewrite/test_importing.py``). Without the same name, file and line the import
system would leave our frame in the traceback of every import that fails
(``test_a_failing_import_looks_the_same``). Where a Python has one of the two functions no more, importing
this raises AttributeError: the process reports that it is not probed, and the program runs as written.
"""

from __future__ import annotations

import _frozen_importlib
import _operator
import _thread
import builtins
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import CodeType, ModuleType
    from typing import Any, Protocol

    Namespace = dict[str, Any]

    class Client(Protocol):
        """The engine: it names the modules that it wants, and is notified of them."""

        names: set[str]
        """Modules wanted by their full name."""
        endings: set[str]
        """Modules wanted by their last component."""

        def asks(self, code: CodeType, name: str) -> bool:
            """Whether the module is wanted because of what its code holds. Must not raise."""

        def code_for(self, code: CodeType, namespace: Namespace) -> CodeType:
            """The code to execute in place of ``code``. Must not raise."""

        def main_code_for(self, code: CodeType, namespace: Namespace, name: str) -> CodeType:
            """The same for code that ``runpy`` executes; ``name`` is its module name, if any."""

        def loaded(self, name: str) -> None:
            """The module is in ``sys.modules`` and has been executed. Must not raise."""


# The types are taken from objects: `types` is not loaded in a process that has just started, and importing it
# would cost more than the rest of this module.
_bootstrap: Any = _frozen_importlib
_Function: Any = type(lambda: None)
_Module: Any = type(sys)


class ImportHook:
    """Looks at every module that is about to be executed, for one client."""

    def __init__(self, client: Client) -> None:
        self.names = client.names
        self.endings = client.endings
        self.asks = client.asks
        self.client = client
        self._armed: set[str] = set()
        """Modules whose import lock notifies us of its release."""

    def install(self) -> None:
        """Begin to look. The first hook of a process replaces the functions of the import system."""
        if not _installed:
            _replace_functions()
        _installed.append(self)
        _listen(self, True)
        runpy = sys.modules.get("runpy")
        if isinstance(runpy, _Module) and "_run_code" in vars(runpy):
            self._watch_runpy(runpy)

    def uninstall(self) -> None:
        """Look no more. The last hook of a process puts the functions of the import system back."""
        _installed.remove(self)
        _listen(self, False)
        if not _installed:
            _bootstrap._call_with_frames_removed, _bootstrap._init_module_attrs = _natives
            vars(sys.modules.get("runpy", sys)).pop("exec", None)

    def rest(self) -> None:
        """Look at no further module. It may be called while a module is looked at, unlike ``uninstall``."""
        _listen(self, False)

    def wants(self, name: str) -> bool:
        """Whether the client wants the module of this name."""
        if name in self.names:
            return True
        return bool(self.endings) and name.rpartition(".")[2] in self.endings

    def exchanged(self, code: CodeType, namespace: Namespace) -> CodeType:
        """The code to execute instead of ``code``."""
        name = namespace["__name__"]
        if not (self.wants(name) or self.asks(code, name)):
            return code
        return self.client.code_for(code, namespace)

    def executed(self, namespace: Namespace) -> None:
        """Notify the client that the code of a module has run to its end."""
        name = namespace["__name__"]
        # If its lock is watched, the client is notified when the import ends, which is a little later.
        if name not in self._armed and self.wants(name):
            self.client.loaded(name)

    def starting(self, spec: Any, module: ModuleType) -> None:
        """A module object has been created: watch for the end of its import."""
        name = spec.name
        if name == "runpy":
            self._watch_runpy(module)
            return
        lock = _lock_of(name)
        # If this thread does not hold the lock, the program creates the module by hand, outside of an import,
        # and only its execution is seen.
        if name not in self._armed and lock is not None and lock.owner == _thread.get_ident():
            self._arm(name, spec, lock)

    def expect(self, name: str) -> bool:
        """Whether the module is being imported now; if so, the client hears when the import ends.

        It is looked at again after the lock is watched, since another thread's import may have ended.
        """
        module = sys.modules.get(name)
        spec = None if is_lazy(module) else getattr(module, "__spec__", None)
        lock = _lock_of(name)
        if lock is None or lock.owner is None or not getattr(spec, "_initializing", False):
            return False
        if name not in self._armed:
            self._arm(name, spec, lock)
        return bool(getattr(spec, "_initializing", False))

    def _arm(self, name: str, spec: Any, lock: Any) -> None:
        """Notify the client when the lock under which ``name`` is being imported is released.

        The instance gets a ``release`` of its own, which shadows the method of its class. Python creates such
        a lock for each import and drops it afterwards, so nothing of ours stays behind.
        """
        self._armed.add(name)
        release = lock.release

        def released() -> None:
            if getattr(spec, "_initializing", False):
                release()  # a circular import of the same module
                return
            try:
                lock.release = release
                self._armed.discard(name)
                # A failed import has removed its module again.
                if name in sys.modules and not is_lazy(sys.modules[name]):
                    self.client.loaded(name)
            except Exception:
                pass  # the program's import goes on
            finally:
                release()

        lock.release = released

    def _watch_runpy(self, runpy: ModuleType) -> None:
        """Give ``runpy`` a global ``exec``, which its functions find before the one in builtins."""
        vars(runpy).setdefault("exec", _RunpyExec())


def _lock_of(name: str) -> Any:
    """The lock of a module that is being imported, or None. importlib keeps weak references to them."""
    reference = _bootstrap._module_locks.get(name)
    return reference() if reference is not None else None


_installed: list[ImportHook] = []
_listening: tuple[ImportHook, ...] = ()
"""Those of them that still look at modules."""
_natives: tuple[Any, Any] = (_bootstrap._call_with_frames_removed, _bootstrap._init_module_attrs)


def _listen(hook: ImportHook, listens: bool) -> None:
    """Have ``hook`` look at modules from now on, or no more."""
    global _listening
    others = tuple(other for other in _listening if other is not hook)
    _listening = (*others, hook) if listens else others


def _replace_functions() -> None:
    """Replace the two functions of importlib through which every import goes."""
    native_call, native_init = _natives

    def call(f: Any, *args: Any, **kwds: Any) -> Any:
        as_it_is = f is not exec or _unwanted(args)
        # One line, as in the original: a traceback through it shows no other line than Python's own, and a
        # failing import looks the same (test_a_failing_import_looks_the_same).
        return f(*args, **kwds) if as_it_is else _after(f(*(args := _before(args))), args)

    def init_module_attrs(spec: Any, module: ModuleType, *, override: bool = False) -> Any:
        result = native_init(spec, module, override=override)
        _starting(spec, module)
        return result

    _bootstrap._call_with_frames_removed = _relabelled(call, native_call)
    _bootstrap._init_module_attrs = _relabelled(init_module_attrs, native_init)


def _unwanted(args: tuple[Any, ...]) -> bool:
    """Whether no client wants the module that ``exec`` is about to execute with these arguments.

    It runs in every import, and so it is short and repeats :meth:`ImportHook.wants`.
    """
    try:
        name = args[1]["__name__"]
        for hook in _listening:
            if name in hook.names or hook.asks(args[0], name):
                return False
            if hook.endings and name.rpartition(".")[2] in hook.endings:
                return False
    except Exception:
        pass  # exec with other arguments: not a module that is being imported
    return True


def _before(args: tuple[Any, ...]) -> tuple[Any, ...]:
    """The arguments of an ``exec``, with the code that the clients want to be executed."""
    try:
        code, namespace = args
        for hook in _installed:
            code = hook.exchanged(code, namespace)
        return code, namespace
    except Exception:
        return args  # exec with other arguments: not a module that is being imported


def _after(result: object, args: tuple[Any, ...]) -> object:
    """Notify the clients after an ``exec``. Returns ``result``, what it gave."""
    try:
        for hook in tuple(_installed):
            hook.executed(args[1])
    except Exception:
        pass  # the program's import goes on
    return result


def _starting(spec: Any, module: ModuleType) -> None:
    """Notify the clients that a module object has been created for ``spec``."""
    try:
        name = spec.name
        for hook in _listening:
            if name in hook.names or name == "runpy" or (hook.endings and hook.wants(name)):
                hook.starting(spec, module)
    except Exception:
        pass  # an unusual spec: its execution is still seen


def is_lazy(module: object) -> bool:
    """Whether ``module`` is waiting for its first use (``importlib.util.LazyLoader``)."""
    return type(module).__name__ == "_LazyModule" and type(module).__module__ == "importlib.util"


class _RunpyExec:
    """What ``runpy._run_code`` finds under the name ``exec``.

    The program's frame must have that of ``_run_code`` as its caller, as under plain Python. So no frame of
    ours may be on the stack when the program starts: Python looks ``__call__`` up on the type, which runs the
    property's getter ``_choose`` to its end, and calls what that returned. It is either ``exec`` itself or a
    chain of C functions.
    """

    __slots__ = ()

    def _choose(self) -> object:
        try:
            # A getter gets no arguments. Those of `exec` are local variables of its caller; where a runpy
            # names them differently, the program runs as it was written.
            variables = sys._getframe(1).f_locals
            code, namespace, spec = (
                variables["code"],
                variables["run_globals"],
                variables["mod_spec"],
            )
            new = code
            # Not a copy: a client may install another hook meanwhile, which has to be in the loop as well.
            for hook in _installed:
                new = hook.client.main_code_for(new, namespace, spec.name if spec else "")
        except Exception:
            return exec
        if new is code:
            return exec
        # `exec` would add this to the namespace; making a function of the code does not.
        namespace.setdefault("__builtins__", builtins.__dict__)
        return _Program(_Function(new, namespace))

    __call__ = property(_choose)


class _Program:
    """Runs ``body()`` when it is called with any arguments, without a Python frame in between."""

    __slots__ = ("body",)

    def __init__(self, body: Callable[[], None]) -> None:
        self.body = body

    ran = property(_operator.methodcaller("body"))
    # Python looks up `__call__`: attrgetter looks up `ran`, whose getter calls the body, which returns None.
    # What is then called with the arguments of `exec` is `None.__init__`, which ignores them.
    __call__ = property(_operator.attrgetter("ran.__init__"))


def _relabelled(function: Any, model: Any) -> Any:
    """``function`` with the name, file and line of ``model``, so that a traceback cannot tell them apart."""
    model_code = model.__code__
    own_code = function.__code__
    labels: dict[str, Any] = {
        "co_filename": model_code.co_filename,
        "co_name": model_code.co_name,
        "co_firstlineno": _last_line(model_code) - (_last_line(own_code) - own_code.co_firstlineno),
    }
    if hasattr(model_code, "co_qualname"):
        labels["co_qualname"] = model_code.co_qualname
    function.__code__ = own_code.replace(**labels)
    function.__name__, function.__qualname__ = model.__name__, model.__qualname__
    function.__module__, function.__doc__ = model.__module__, model.__doc__
    return function


def _last_line(code: CodeType) -> int:
    return max((line for _, _, line in code.co_lines() if line), default=code.co_firstlineno)
