"""The rewriter at work in one process: it takes requests for hooks and meets them in the program's code.

Code is met in four ways::

    a module is about to be executed     import hook           -> code_for
    a program is about to be executed    launcher, runpy       -> main_code, main_code_for
    a module is already loaded           add, add_late         -> exchange of code objects
    an object is given, not a name       attach                -> attaching

A request waits in ``_requests`` until its module comes. What rewriting itself needs (``ast``, the
transforms) is loaded only when the first request meets code that is not in the cache.

Everything here fails open: what cannot be done is reported as an :class:`Unmatched`, and the program runs
its own code.
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

    ``report`` is that of :class:`Registry`. ``method_calls`` says of which methods the calls in the program's
    own files are hooked.
    """

    def __init__(self, report: Report, method_calls: MethodCalls | None = None) -> None:
        super().__init__(report)
        self.method_calls = method_calls or MethodCalls()
        self.asks = self.method_calls.asks
        self.main_names: set[str] = set()
        """Names of modules that are the program itself when ``runpy`` executes them."""
        self.names: set[str] = set()
        self.endings: set[str] = set()
        self._pending: dict[str, list[Request]] = {}
        """Requests that a module's text did not answer, to be looked for on it once it is loaded."""
        self._late: dict[str, list[Request]] = {}
        """Requests of :meth:`add_late`, by module."""
        self._callbacks: dict[str, list[Callback]] = {}
        self._import_hook = ImportHook(self)
        self._can_transform = self._can_patch_functions = False
        self._load_error = ""
        self._loading: dict[int, list[str]] = {}
        """By thread that loads the rewriter's own modules: names to be reached once it has them."""
        self.main_met = False
        """Whether the program's code was handed out, before which requests for it just wait. A caller that
        runs the program without ``main_code`` sets it."""

    # -- requests -------------------------------------------------------------------------------

    def install(self) -> None:
        """Look at every module that is executed from now on. To be called once per process."""
        from . import originals

        self.prepare(self.method_calls.methods)
        self._import_hook.install()
        originals.watch(self, self.after_import)

    def uninstall(self) -> None:
        """Look at no further module; hooks that are in place stay."""
        self._import_hook.uninstall()

    def add(self, requests: Iterable[Request]) -> None:
        """Put ``requests`` in: when their module is imported, or at once if it is loaded already."""
        modules: dict[str, None] = {}
        with self._lock:
            for request in requests:
                requests_of_module = self._requests.setdefault(request.module, [])
                if request not in requests_of_module:
                    requests_of_module.append(request)
                    modules[request.module] = None
                self.names.add(request.module)
        ready = [name for name in modules if self._is_ready(name) and self._load_rewriter(name)]
        for name in modules:
            if name not in ready and not self._import_hook.expect(name) and self._is_ready(name):
                ready.append(name)  # another thread's import of it ended while we looked
        if ready:
            self._exchange(ready)

    def add_late(self, requests: Iterable[Request]) -> None:
        """Put ``requests`` into functions of modules once these have been loaded.

        Each function is instrumented by itself, which is cheap in the big modules of libraries where the
        whole text would have to be parsed. Calls during the module's own import are missed.
        """
        modules: dict[str, None] = {}
        with self._lock:
            for request in requests:
                self._late.setdefault(request.module, []).append(request)
                self.names.add(request.module)
                modules[request.module] = None
        for name in modules:
            # Looked at twice, since another thread's import of it may end between the two questions.
            if self._is_ready(name) or (
                not self._import_hook.expect(name) and self._is_ready(name)
            ):
                self._reach_late(name)

    def _reach_late(self, name: str) -> None:
        """Meet the requests of :meth:`add_late` in a module that is loaded now."""
        can_patch = self._load_rewriter(name, late=True)
        if not can_patch and _thread.get_ident() in self._loading:
            return  # the rewriter itself is being loaded and needs it: it is reached after that
        with self._lock:
            late = self._late.pop(name, [])
        if not can_patch:
            self.unmatched(late, self._load_error)
        elif late:
            from .function_source import reach

            rest, source = reach(self, name, sys.modules[name], late, self._load_rewriter)
            # If the module was rewritten as a whole before, its text is parsed already: it answers more
            # than the names that the live module has.
            if rest and source is not None and source.versions:
                self.add(rest)
            elif rest:
                self._find_on(name, rest)

    def add_method(self, method: str, joint: bool = False) -> None:
        """Hook the calls of every method of this name in the program's own files.

        Some methods count only in modules that call other ones too (:attr:`MethodCalls.joint`). ``joint``
        keeps this restriction for ``method``; by default it counts by itself from now on.
        """
        self.prepare([method])
        method_calls = self.method_calls
        hooked = (
            method_calls.methods
            if joint
            else method_calls.methods - method_calls.joint | method_calls.single
        )
        if method not in hooked:
            method_calls.methods.add(method)
            method_calls.single.add(method)
            for name in list(sys.modules):
                if self._is_ready(name):
                    self._hook_method_calls(name, method)

    def prepare(self, methods: Iterable[str]) -> None:
        """Define identity functions as the hooks of ``methods``, until real ones take their place.

        Code with the calls may run before anything defines the hooks, and would raise NameError.
        """
        for method in methods:
            for name in (hook_of(method), hook_of(method) + "="):
                if name not in builtins.__dict__:
                    builtins.__dict__[name] = _same
        self.on_hook_defined(_same)

    def _hook_method_calls(self, name: str, method: str) -> None:
        """Hook the calls of ``method`` in the functions of a module that is loaded."""
        namespace = getattr(sys.modules[name], "__dict__", {})
        file = namespace.get("__file__")
        if (
            not isinstance(file, str)
            or not self.method_calls.own(name, file)
            or not self._load_rewriter(name)
        ):
            return
        source = self.source_of(name, None, namespace)
        if source is not None and "." + method in source.text:
            self.add(r for r in self.method_calls.requests(source.plain, name) if r.path)

    def attach(self, target: object, request: Request) -> None:
        """Put ``request`` into the object ``target``, whatever module and path the request names."""
        self._load_rewriter(late=True)
        from .attaching import attach_object

        try:
            attach_object(self, target, request)
        except Exception as error:
            self.unmatched([request], f"could not be attached: {error!r}")

    def after_import(self, name: str, callback: Callback) -> None:
        """Call ``callback(module)`` when a module has been imported; at once if it is there.

        ``name`` is a full name, or ``"*.last"`` for every module with that last component. Exceptions of the
        callback are dropped: it is expected to guard itself.
        """
        with self._lock:
            self._callbacks.setdefault(name, []).append(callback)
            if name.startswith("*."):
                self.endings.add(name[2:])
            else:
                self.names.add(name)
        for loaded in _loaded_modules(name):
            if self._is_ready(loaded):
                _call_back(callback, sys.modules[loaded])

    def main_code(self, source: bytes, filename: str, plain: CodeType | None = None) -> CodeType:
        """The code of the program, with hooks where requests name it.

        ``plain`` is what ``source`` was compiled to, if it was already. Raises SyntaxError.
        """
        requests = (
            self.wanted(MAIN) if plain is None else self._requests_with_method_calls(MAIN, plain)
        )
        self.main_met = True
        self._main_text = (source, filename)
        code = None
        if requests:
            try:
                if self._load_rewriter():
                    code = self._rewritten_main(self._main_source(), requests)
                else:
                    self.unmatched(requests, self._load_error)
            except Exception as error:
                self.unmatched(requests, f"the program could not be rewritten: {error!r}")
        return code or compile(source, filename, "exec", dont_inherit=True)

    # -- for the import hook ---------------------------------------------------------------------

    def code_for(self, code: CodeType, namespace: dict[str, Any]) -> CodeType:
        """The code to execute for a module that is being imported, in place of ``code``."""
        name = namespace["__name__"]
        requests = self._requests_with_method_calls(name, code)
        if not requests or not self._load_rewriter(late=True):
            return code
        try:
            source = self.source_of(name, code, namespace)
            if source is None:
                self._refuse_method_calls(requests, "its source cannot be read")
                return code
            from .function_source import instrument_module

            instrumented, matches, unmet = instrument_module(
                source, code, requests, self.can_rewrite
            )
        except Exception as error:
            self._refuse_method_calls(requests, f"it could not be rewritten: {error!r}")
            return code  # the exchange on the loaded module tries again, and reports what is wrong
        with self._lock:
            self._done[name] = set(requests)
            to_find = [request for request in unmet if not is_method(request.variable)]
            self._pending[name] = [*to_find, *_met_by_bindings_only(matches)]
        self._report_matches(matches)
        self._await_star_imports(source)
        return instrumented or code

    def main_code_for(self, code: CodeType, namespace: dict[str, Any], name: str) -> CodeType:
        """The code to execute for a program that ``runpy`` runs under ``namespace``'s name."""
        requests = self.wanted(name) if name else []
        if namespace.get("__name__") in (MAIN, "__mp_main__") or name in self.main_names:
            self.main_met = True
            for_main = (
                self._requests_with_method_calls(MAIN, code)
                if self.asks(code, name or MAIN)
                else self.wanted(MAIN)
            )
            requests = list(dict.fromkeys([*for_main, *requests]))
        if not requests or not self._load_rewriter():
            return code
        try:
            source = self.source_of(MAIN, code, namespace)
            if source is not None:
                return self._rewritten_main(source, requests) or code
            self.unmatched(requests, "the program's source cannot be read")
        except Exception as error:
            self.unmatched(requests, f"the program could not be rewritten: {error!r}")
        return code

    def loaded(self, name: str) -> None:
        """Meet the rest of the requests for a module that has been executed, and call its callbacks.

        Requests that came during its import are put in by exchange. Those that its text does not answer are
        looked for on the module itself: names from elsewhere, and names that are set dynamically.
        """
        module = sys.modules.get(name)
        if module is None:
            return
        wanted = self.wanted(name)
        if wanted and not self._load_rewriter(name):
            if _thread.get_ident() not in self._loading:
                self.unmatched(wanted, self._load_error)
            return
        with self._lock:
            done = self._done.get(name, ())
            added_since = [
                request for request in self._requests.get(name, ()) if request not in done
            ]
            unmet = [request for request in self._pending.pop(name, []) if not _has_bound(request)]
            ending = "*." + name.rpartition(".")[2]
            callbacks = [*self._callbacks.get(name, ()), *self._callbacks.get(ending, ())]
        if added_since:
            self._exchange([name])
        if unmet:
            self._find_on(name, unmet)
        if name in self._late:
            self._reach_late(name)
        for callback in callbacks:
            _call_back(callback, module)

    def can_rewrite(self) -> bool:
        """Whether the transforms are there, loading them if need be."""
        return self._load_rewriter()

    def _load_rewriter(self, name: str = "", *, late: bool = False) -> bool:
        """Whether the modules that rewriting needs are loaded; loads them at the first call.

        ``late``: those that put cached code into single functions are enough, which are fewer.

        While a thread loads them, calls from that same thread return False: a module that the rewriter
        imports may itself be requested. It is executed as written, noted as ``name``, and reached afterwards.
        """
        if self._can_transform or (late and self._can_patch_functions):
            return True
        thread = _thread.get_ident()
        if thread in self._loading:
            if name:
                self._loading[thread].append(name)
            return False
        postponed = self._loading[thread] = []
        try:
            from . import attaching, function_source, source_text  # noqa: F401

            self._can_patch_functions = True
            if not late:
                from . import transform  # noqa: F401

                self._can_transform = True
        except Exception as error:  # the program may be in the middle of importing ast itself
            self._load_error = f"the rewriter could not be loaded: {error!r}"
        finally:
            del self._loading[thread]
        for name in postponed:
            self.loaded(name)
        return self._can_transform or (late and self._can_patch_functions)

    # -- rewriting -------------------------------------------------------------------------------

    def _requests_with_method_calls(self, name: str, code: CodeType) -> list[Request]:
        """The requests for a module about to be executed, with those for calls of methods in its ``code``.

        The latter are kept among the module's requests, so that rewriting it again puts them in as well.
        """
        with self._lock:
            requests = self._requests.setdefault(name, [])
            if self.asks(code, name):
                requests += [r for r in self.method_calls.requests(code, name) if r not in requests]
            return list(requests)

    def _refuse_method_calls(self, requests: list[Request], reason: str) -> None:
        """Report the calls of methods among ``requests`` as unmatched, unless a request names the module.

        A module that is named comes back through :meth:`loaded`, where they are tried again.
        """
        for request in requests:
            if is_method(request.variable) and request.module not in self.names:
                self.unmatched([request], f"{request.module}: {reason}")

    def _rewritten_main(self, source: ModuleSource, requests: list[Request]) -> CodeType | None:
        """The code of the program with ``requests``, or None if none of them matches.

        Those that its text does not answer are reported as not found: the program has no end of import after
        which they could be looked for.
        """
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
        """Report ``matches``. For a name that gets bound, the hook reports once it knows to what."""
        for match in matches:
            if match.kind == "binding":
                from .attaching import Binding

                builtins.__dict__[match.request.hook + "&"] = Binding(self, match.request)
            else:
                self.report(match)

    def _await_star_imports(self, source: ModuleSource) -> None:
        """Define the hooks that code calls after each ``import *``."""
        for request, line in source.star_imports.items():
            from .attaching import StarBinding

            builtins.__dict__[request.hook + "*"] = StarBinding(self, request, line)

    # -- what is already loaded ------------------------------------------------------------------

    def _is_ready(self, name: str) -> bool:
        """Whether the module has been executed to its end; for the program, whether it has begun."""
        if name == MAIN:
            return self.main_met
        module = sys.modules.get(name)
        if module is None or is_lazy(module):
            return False
        # importlib sets this private flag for its own check for half-imported modules. Where a Python has it
        # no more, a module counts as ready too early, and names that it has yet to set are unmatched.
        return not getattr(getattr(module, "__spec__", None), "_initializing", False)

    def _exchange(self, names: list[str]) -> None:
        """Put all requests for loaded modules into their living functions."""
        from .exchange import exchange

        for name, rest in exchange(self, names).items():
            self._find_on(name, rest)

    def _find_on(self, name: str, requests: list[Request]) -> None:
        """Meet requests that the text of a loaded module does not answer on its attributes."""
        from .attaching import find_on

        find_on(self, self.add, sys.modules[name], requests)


def _met_by_bindings_only(matches: list[Match]) -> list[Request]:
    """The requests that matched only where the module binds a name, whose object is not known yet."""
    elsewhere = {match.request for match in matches if match.kind != "binding"}
    bound = dict.fromkeys(match.request for match in matches if match.kind == "binding")
    return [request for request in bound if request not in elsewhere]


def _has_bound(request: Request) -> bool:
    """Whether a statement that binds the name of ``request`` has run: its hook has attached then."""
    return bool(getattr(builtins.__dict__.get(request.hook + "&"), "called", False))


def _same(value: object = None, *_: object) -> object:
    return value


def _loaded_modules(name: str) -> list[str]:
    """The names of loaded modules that ``name`` stands for: a full name, or ``*.last``."""
    if not name.startswith("*."):
        return [name] if name in sys.modules else []
    return [
        module for module in list(sys.modules) if module.endswith(name[1:]) or module == name[2:]
    ]


def _call_back(callback: Callback, module: ModuleType) -> None:
    try:
        callback(module)
    except Exception:
        pass  # a callback guards itself and reports its own mistakes
