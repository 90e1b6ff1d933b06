"""The rewriter at work in one process: which hooks are requested, and what is done when code is met.

Code is met in four ways: a module is about to be executed (import hook), a program is about to be
executed (``main_code``, ``runpy``), a module is already there when it is requested (exchange of code
objects), and an object is given instead of a name (``attach``). Everything here fails open: what
cannot be done is reported as an :class:`Unmatched`, and the program runs its own code.
"""

from __future__ import annotations

import _thread
import builtins
import sys

from .importing import ImportHook, is_lazy
from .method_calls import MethodCalls, hook_of, is_method
from .registry import Registry
from .request import MAIN, Match, Request

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from types import CodeType, ModuleType
    from typing import Any

    from .module_source import ModuleSource
    from .registry import Report

    Callback = Callable[[ModuleType], None]


class Engine(Registry):
    """Puts requested hooks into the program. One per process.

    ``report`` is that of :class:`Registry`. ``main_names`` are module names whose execution by
    ``runpy`` is the program's; ``main_met`` is true from when the program's code was handed out
    (a caller that runs it without ``main_code`` sets it): before, requests for it just wait.
    ``method_calls`` says of which methods the calls in the program's own files are hooked.
    """

    def __init__(self, report: Report, method_calls: MethodCalls | None = None) -> None:
        super().__init__(report)
        self.method_calls = method_calls or MethodCalls()
        self.asks = self.method_calls.asks
        self.main_names: set[str] = set()
        self.names: set[str] = set()
        self.endings: set[str] = set()
        self._pending: dict[str, list[Request]] = {}
        self._late: dict[str, list[Request]] = {}
        self._callbacks: dict[str, list[Callback]] = {}
        self._import_hook = ImportHook(self)
        self._tooled = self._tooled_late = False
        self._tool_error = ""
        self._tooling: dict[int, list[str]] = {}
        self.main_met = False

    # -- requests -------------------------------------------------------------------------------

    def install(self) -> None:
        """Look at every module from now on. Once per process."""
        from . import originals

        self.prepare(self.method_calls.methods)
        self._import_hook.install()
        originals.watch(self, self.after_import)

    def uninstall(self) -> None:
        """Look at no further module; what is put in stays."""
        self._import_hook.uninstall()

    def add(self, requests: Iterable[Request]) -> None:
        """Weave ``requests`` in: at import, or at once where the module is already loaded."""
        fresh: dict[str, None] = {}
        with self._lock:
            for request in requests:
                known = self._requests.setdefault(request.module, [])
                if request not in known:
                    known.append(request)
                    fresh[request.module] = None
                self.names.add(request.module)
        ready = [name for name in fresh if self._is_ready(name) and self._tools(name)]
        for name in fresh:
            if name not in ready and not self._import_hook.expect(name) and self._is_ready(name):
                ready.append(name)  # its import ended while we looked
        if ready:
            self._exchange(ready)

    def add_late(self, requests: Iterable[Request]) -> None:
        """Weave ``requests`` into functions of modules once those have been loaded.

        For libraries: costs little where modules are big, and misses what happens during their import.
        """
        names: dict[str, None] = {}
        with self._lock:
            for request in requests:
                self._late.setdefault(request.module, []).append(request)
                self.names.add(request.module)
                names[request.module] = None
        for name in names:
            if self._is_ready(name) or (
                not self._import_hook.expect(name) and self._is_ready(name)
            ):
                self._reach_late(name)

    def _reach_late(self, name: str) -> None:
        ready = self._tools(name, late=True)
        if not ready and _thread.get_ident() in self._tooling:
            return  # it is loaded for the rewriter itself, and reached when that is done
        with self._lock:
            late = self._late.pop(name, [])
        if not ready:
            self.unmatched(late, self._tool_error)
        elif late:
            from .function_source import reach

            rest, source = reach(self, name, sys.modules[name], late, self._tools)
            if rest and source is not None and source.versions:
                self.add(rest)
            elif rest:
                self._find_on(name, rest)

    def add_method(self, method: str, joint: bool = False) -> None:
        """Hook the calls of every method of this name in the program's own files.

        ``joint``: a method that counts only beside others stays so.
        """
        self.prepare([method])
        method_calls = self.method_calls
        known = (
            method_calls.methods
            if joint
            else method_calls.methods - method_calls.joint | method_calls.single
        )
        if method not in known:
            method_calls.methods.add(method)
            method_calls.single.add(method)
            for name in list(sys.modules):
                if self._is_ready(name):
                    self._reach_method(name, method)

    def prepare(self, methods: Iterable[str]) -> None:
        """Let what code calls around the hooked methods be there before it is defined."""
        for method in methods:
            for name in (hook_of(method), hook_of(method) + "="):
                if name not in builtins.__dict__:
                    builtins.__dict__[name] = _same
        self.on_hook_defined(_same)

    def _reach_method(self, name: str, method: str) -> None:
        """Hook the calls in the functions of a module that is loaded."""
        namespace = getattr(sys.modules[name], "__dict__", {})
        file = namespace.get("__file__")
        if (
            not isinstance(file, str)
            or not self.method_calls.own(name, file)
            or not self._tools(name)
        ):
            return
        source = self.source_of(name, None, namespace)
        if source is not None and "." + method in source.text:
            self.add(r for r in self.method_calls.requests(source.plain, name) if r.path)

    def attach(self, target: object, request: Request) -> None:
        """Weave ``request`` into the object ``target``: its module and path are not looked at."""
        self._tools(late=True)
        from .attaching import attach_object

        try:
            attach_object(self, target, request)
        except Exception as error:
            self.unmatched([request], f"could not be attached: {error!r}")

    def after_import(self, name: str, callback: Callback) -> None:
        """Call ``callback(module)`` when the module has been imported; at once if it is there.

        ``name`` is a full name, or ``"*.last"`` for every module with that last component. What the
        callback raises is dropped: it guards itself.
        """
        with self._lock:
            self._callbacks.setdefault(name, []).append(callback)
            if name.startswith("*."):
                self.endings.add(name[2:])
            else:
                self.names.add(name)
        for loaded in _named(name):
            if self._is_ready(loaded):
                _call(callback, sys.modules[loaded])

    def main_code(self, source: bytes, filename: str, plain: CodeType | None = None) -> CodeType:
        """The program's code, rewritten where it is named. Raises SyntaxError as ``compile`` does.

        ``plain`` is what it was compiled to already.
        """
        requests = self.wanted(MAIN) if plain is None else self._all_requests(MAIN, plain)
        self.main_met = True
        self._main_text = (source, filename)
        code = None
        if requests:
            try:
                if self._tools():
                    code = self._main_rewritten(self._main_source(), requests)
                else:
                    self.unmatched(requests, self._tool_error)
            except Exception as error:
                self.unmatched(requests, f"the program could not be rewritten: {error!r}")
        return code or compile(source, filename, "exec", dont_inherit=True)

    # -- for the import hook ---------------------------------------------------------------------

    def code_for(self, code: CodeType, namespace: dict[str, Any]) -> CodeType:
        """The code to execute for a module that is being imported."""
        name = namespace["__name__"]
        requests = self._all_requests(name, code)
        if not requests or not self._tools(late=True):
            return code
        try:
            source = self.source_of(name, code, namespace)
            if source is None:
                self._no_methods(requests, "its source cannot be read")
                return code
            from .function_source import instrument_module

            new, matches, unmet = instrument_module(source, code, requests, self.can_rewrite)
        except Exception as error:
            self._no_methods(requests, f"it could not be rewritten: {error!r}")
            return code  # tried again on the loaded module, which says what is wrong
        with self._lock:
            self._done[name] = set(requests)
            missing = [request for request in unmet if not is_method(request.variable)]
            self._pending[name] = [*missing, *_only_bound(matches)]
        self._report_matches(matches)
        self._await_star_imports(source)
        return new or code

    def main_code_for(self, code: CodeType, namespace: dict[str, Any], name: str) -> CodeType:
        """The code to execute for a program that ``runpy`` runs under ``namespace``'s name."""
        requests = self.wanted(name) if name else []
        if namespace.get("__name__") in (MAIN, "__mp_main__") or name in self.main_names:
            self.main_met = True
            own = (
                self._all_requests(MAIN, code)
                if self.asks(code, name or MAIN)
                else self.wanted(MAIN)
            )
            requests = list(dict.fromkeys([*own, *requests]))
        if not requests or not self._tools():
            return code
        try:
            source = self.source_of(MAIN, code, namespace)
            if source is not None:
                return self._main_rewritten(source, requests) or code
            self.unmatched(requests, "the program's source cannot be read")
        except Exception as error:
            self.unmatched(requests, f"the program could not be rewritten: {error!r}")
        return code

    def loaded(self, name: str) -> None:
        """A wanted module has been executed: what could only be found on it, and the callbacks."""
        module = sys.modules.get(name)
        if module is None:
            return
        wanted = self.wanted(name)
        if wanted and not self._tools(name):
            if _thread.get_ident() not in self._tooling:
                self.unmatched(wanted, self._tool_error)
            return
        with self._lock:
            done = self._done.get(name, ())
            late = [request for request in self._requests.get(name, ()) if request not in done]
            unmet = [request for request in self._pending.pop(name, []) if not _was_bound(request)]
            ending = "*." + name.rpartition(".")[2]
            callbacks = [*self._callbacks.get(name, ()), *self._callbacks.get(ending, ())]
        if late:
            self._exchange([name])
        if unmet:
            self._find_on(name, unmet)
        if name in self._late:
            self._reach_late(name)
        for callback in callbacks:
            _call(callback, module)

    def can_rewrite(self) -> bool:
        return self._tools()

    def _tools(self, name: str = "", *, late: bool = False) -> bool:
        """Load what rewriting needs; False in the middle of that, for this very thread.

        What we need may itself be named: it is loaded as it is, and reached as ``name`` afterwards.
        ``late``: functions that were instrumented before need less than others do.
        """
        if self._tooled or (late and self._tooled_late):
            return True
        here = _thread.get_ident()
        if here in self._tooling:
            if name:
                self._tooling[here].append(name)
            return False
        postponed = self._tooling[here] = []
        try:
            from . import attaching, function_source, source_text  # noqa: F401

            self._tooled_late = True
            if not late:
                from . import transform  # noqa: F401

                self._tooled = True
        except Exception as error:  # such as a module of these that is itself half loaded
            self._tool_error = f"the rewriter could not be loaded: {error!r}"
        finally:
            del self._tooling[here]
        for name in postponed:
            self.loaded(name)
        return self._tooled or (late and self._tooled_late)

    # -- rewriting -------------------------------------------------------------------------------

    def _all_requests(self, name: str, code: CodeType) -> list[Request]:
        """The requests for a module that is about to be executed: with those for what it holds.

        They are kept: the next rewriting of the module puts them in as well.
        """
        with self._lock:
            known = self._requests.setdefault(name, [])
            if self.asks(code, name):
                known += [r for r in self.method_calls.requests(code, name) if r not in known]
            return list(known)

    def _no_methods(self, requests: list[Request], reason: str) -> None:
        """Calls of methods are not tried again where no request names the module."""
        for request in requests:
            if is_method(request.variable) and request.module not in self.names:
                self.unmatched([request], f"{request.module}: {reason}")

    def _main_rewritten(self, source: ModuleSource, requests: list[Request]) -> CodeType | None:
        """The program's code with ``requests``: what is not found in its text is missing."""
        code, matches, unmet = source.rewrite(requests)
        with self._lock:
            self._done[MAIN] = set(requests)
        self._report_matches(matches)
        self._await_star_imports(source)
        for request, reason in unmet.items():
            if request not in source.star_imports and not is_method(request.variable):
                self.not_found(request, reason)
        return code

    def _report_matches(self, matches: Iterable[Match]) -> None:
        """Report ``matches``; what is bound to a name reports itself, once it is known what it is."""
        for match in matches:
            if match.kind == "binding":
                from .attaching import Binding

                builtins.__dict__[match.request.hook + "&"] = Binding(self, match.request)
            else:
                self.report(match)

    def _await_star_imports(self, source: ModuleSource) -> None:
        """Define what the code will call after each ``import *``."""
        for request, line in source.star_imports.items():
            from .attaching import StarBinding

            builtins.__dict__[request.hook + "*"] = StarBinding(self, request, line)

    # -- what is already loaded ------------------------------------------------------------------

    def _is_ready(self, name: str) -> bool:
        """Whether the module has been executed to its end (the program: has begun)."""
        if name == MAIN:
            return self.main_met
        module = sys.modules.get(name)
        if module is None or is_lazy(module):
            return False
        return not getattr(getattr(module, "__spec__", None), "_initializing", False)

    def _exchange(self, names: list[str]) -> None:
        """Put all requests for loaded modules in."""
        from .exchange import exchange

        for name, rest in exchange(self, names).items():
            self._find_on(name, rest)

    def _find_on(self, name: str, requests: list[Request]) -> None:
        """Meet requests on a loaded module that its text does not answer."""
        from .attaching import find_on

        find_on(self, self.add, sys.modules[name], requests)


def _only_bound(matches: list[Match]) -> list[Request]:
    """The requests that wait for a name to be bound, and have no other place."""
    elsewhere = {found.request for found in matches if found.kind != "binding"}
    bound = dict.fromkeys(found.request for found in matches if found.kind == "binding")
    return [request for request in bound if request not in elsewhere]


def _was_bound(request: Request) -> bool:
    """Whether one of the statements ran that bind the name of ``request``."""
    return bool(getattr(builtins.__dict__.get(request.hook + "&"), "called", False))


def _same(value: object = None, *_: object) -> object:
    return value


def _named(name: str) -> list[str]:
    """The loaded modules of the full name ``name``, or with the last component that ``*.last`` gives."""
    if not name.startswith("*."):
        return [name] if name in sys.modules else []
    return [
        loaded for loaded in list(sys.modules) if loaded.endswith(name[1:]) or loaded == name[2:]
    ]


def _call(callback: Callback, module: ModuleType) -> None:
    try:
        callback(module)
    except Exception:
        pass  # a callback guards itself and reports its own mistakes
