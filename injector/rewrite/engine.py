"""The rewriter at work in one process: who wants what, and what is done when code is met.

Code is met in four ways: a module is about to be executed (import hook), a program is about to be
executed (``main_code``, ``runpy``), a module is already there when it is asked for (exchange of code
objects), and an object is given instead of a name (``attach``). Everything here fails open: what
cannot be done is reported as a :class:`Miss`, and the program runs its own code.
"""

from __future__ import annotations

import _thread
import builtins
import sys

from .importing import ImportHook, is_lazy
from .request import MAIN, Landing, Miss, Request

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from types import CodeType, FunctionType, ModuleType
    from typing import Any

    from .live import Exchange
    from .sheet import Path, Sheet

    Report = Callable[[Landing | Miss], None]
    Callback = Callable[[ModuleType], None]
    Test = Callable[[Any], bool]
    Traced = Callable[..., Any]


class Engine:
    """Weaves requested hooks into the program. One per process.

    ``report`` hears of each place where a request landed and of each request that found none; it may
    be called from any thread that imports. ``main_names`` are module names whose execution by
    ``runpy`` is the program's; ``main_met`` is true from when the program's code was handed out
    (whoever runs it without asking for ``main_code`` sets it): before, requests for it just wait.
    """

    def __init__(self, report: Report) -> None:
        self.main_names: set[str] = set()
        self.names: set[str] = set()
        self.endings: set[str] = set()
        self._report = report
        self._lock = _thread.RLock()
        self._requests: dict[str, list[Request]] = {}
        self._done: dict[str, set[Request]] = {}
        self._pending: dict[str, list[Request]] = {}
        self._sheets: dict[str, Sheet] = {}
        self._callbacks: dict[str, list[Callback]] = {}
        self._derived: dict[tuple[Request, str, Path, Test | None], Request] = {}
        self._said: set[Landing | Miss] = set()
        self._hooks: list[tuple[Callable[..., Any], Traced | None]] = []
        self._on_hook: list[Callable[[Callable[..., Any], Traced | None], None]] = []
        self._import_hook = ImportHook(self)
        self._main_source = (b"", "")
        self.main_met = False

    # -- what is asked ---------------------------------------------------------------------------

    def install(self) -> None:
        """Look at every module from now on. Once per process."""
        from . import compiling, originals

        self._import_hook.install()
        originals.watch(self)
        compiling.watch(self)

    def uninstall(self) -> None:
        """Look at no further module; what is woven in stays."""
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
        ready = [name for name in fresh if self._is_ready(name)]
        for name in fresh:
            if name not in ready and not self._import_hook.expect(name) and self._is_ready(name):
                ready.append(name)  # its import ended while we looked
        self._exchange(ready)

    def attach(self, target: object, request: Request) -> None:
        """Weave ``request`` into the object ``target``: its module and path are not looked at."""
        from .attaching import attach_object

        self.guarded(request, lambda: attach_object(self, target, request))

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
        for loaded in list(sys.modules):
            if name in (loaded, _ending(loaded)) and self._is_ready(loaded):
                _call(callback, sys.modules[loaded])

    def main_code(self, source: bytes, filename: str) -> CodeType:
        """The program's code, rewritten where it is named. Raises SyntaxError as ``compile`` does."""
        requests = self._wanted(MAIN)
        self.main_met = True
        self._main_source = (source, filename)
        code = None
        if requests:
            try:
                code = self._main_rewritten(self._main_sheet(), requests)
            except Exception as error:
                self._miss(requests, f"the program could not be rewritten: {error!r}")
        return code or compile(source, filename, "exec", dont_inherit=True)

    def original(self, code: CodeType) -> CodeType | None:
        """The code as written of which ``code`` is the rewritten form; None when it is not ours."""
        with self._lock:
            sheets = list(self._sheets.values())
        for sheet in sheets:
            if sheet.versions and sheet.filename == code.co_filename:
                found = sheet.original(code)
                if found is not None:
                    return found
        return None

    # -- hooks -----------------------------------------------------------------------------------

    def on_hook_defined(self, hook: Callable[..., Any], traced: Traced | None = None) -> None:
        """Hear of a callable that rewritten code will call, so that ``torch.compile`` looks through it.

        ``traced`` is what shall be traced in its place; by default it gives back its argument.
        """
        with self._lock:
            self._hooks.append((hook, traced))
            listeners = list(self._on_hook)
        for listener in listeners:
            listener(hook, traced)

    def each_hook(self, listener: Callable[[Callable[..., Any], Traced | None], None]) -> None:
        """Call ``listener`` with every hook defined so far and with every later one."""
        with self._lock:
            self._on_hook.append(listener)
            known = list(self._hooks)
        for hook, traced in known:
            listener(hook, traced)

    # -- what the import hook asks ---------------------------------------------------------------

    def code_for(self, code: CodeType, namespace: dict[str, Any]) -> CodeType:
        """The code to execute for a module that is being imported."""
        name = namespace["__name__"]
        requests = self._wanted(name)
        if not requests:
            return code
        try:
            sheet = self._sheet_of(name, code, namespace)
            if sheet is None:
                return code
            new, landings, unmet = sheet.rewrite(requests)
        except Exception:
            return code  # tried again on the loaded module, which says what is wrong
        with self._lock:
            self._done[name] = set(requests)
            self._pending[name] = list(unmet)
        self._landed(landings)
        self._hope(sheet)
        return new or code

    def main_code_for(self, code: CodeType, namespace: dict[str, Any], name: str) -> CodeType:
        """The code to execute for a program that ``runpy`` runs under ``namespace``'s name."""
        requests = self._wanted(name) if name else []
        if namespace.get("__name__") in (MAIN, "__mp_main__") or name in self.main_names:
            self.main_met = True
            requests = list(dict.fromkeys([*self._wanted(MAIN), *requests]))
        if not requests:
            return code
        try:
            sheet = self._sheet_of(MAIN, code, namespace)
            if sheet is not None:
                return self._main_rewritten(sheet, requests) or code
            self._miss(requests, "the program's source cannot be read")
        except Exception as error:
            self._miss(requests, f"the program could not be rewritten: {error!r}")
        return code

    def loaded(self, name: str) -> None:
        """A wanted module has been executed: what could only be found on it, and the callbacks."""
        module = sys.modules.get(name)
        if module is None:
            return
        with self._lock:
            done = self._done.get(name, ())
            late = [request for request in self._requests.get(name, ()) if request not in done]
            unmet = self._pending.pop(name, [])
            callbacks = [*self._callbacks.get(name, ()), *self._callbacks.get(_ending(name), ())]
        if late:
            self._exchange([name])
        self._find_on(module, unmet)
        for callback in callbacks:
            _call(callback, module)

    # -- rewriting -------------------------------------------------------------------------------

    def _wanted(self, name: str) -> list[Request]:
        with self._lock:
            return list(self._requests.get(name, ()))

    def _main_rewritten(self, sheet: Sheet, requests: list[Request]) -> CodeType | None:
        """The program's code with ``requests``: what is not found in its text is missing."""
        code, landings, unmet = sheet.rewrite(requests)
        with self._lock:
            self._done[MAIN] = set(requests)
        self._landed(landings)
        self._hope(sheet)
        for request, reason in unmet.items():
            if request not in sheet.hoped:
                self.not_found(request, reason)
        return code

    def _landed(self, landings: Iterable[Landing]) -> None:
        """Report ``landings``, and define what the code will call where they are bindings."""
        for landing in landings:
            if landing.kind == "binding":
                from .attaching import Binding

                builtins.__dict__[landing.request.hook + "&"] = Binding(self, landing.request)
            self.say(landing)

    def _hope(self, sheet: Sheet) -> None:
        """Define what the code will call after each ``import *``."""
        for request, line in sheet.hoped.items():
            from .attaching import StarBinding

            builtins.__dict__[request.hook + "*"] = StarBinding(self, sheet, request, line)

    def _sheet_of(
        self, name: str, code: CodeType | None, namespace: dict[str, Any]
    ) -> Sheet | None:
        from .source import read_sheet

        if name == MAIN and code is None and name not in self._sheets and self._main_source[1]:
            return self._main_sheet()
        with self._lock:
            known = self._sheets.get(name)
        sheet = read_sheet(name, code, namespace, known)
        if sheet is not None:
            with self._lock:
                self._sheets[name] = sheet
        return sheet

    def _main_sheet(self) -> Sheet:
        from .sheet import Sheet
        from .source import decode

        source, filename = self._main_source
        sheet = self._sheets[MAIN] = Sheet(MAIN, filename, decode(source))
        return sheet

    # -- what is already loaded ------------------------------------------------------------------

    def _is_ready(self, name: str) -> bool:
        """Whether the module has been executed to its end (the program: has begun)."""
        if name == MAIN:
            return self.main_met
        module = sys.modules.get(name)
        if module is None or is_lazy(module):
            return False
        return not getattr(getattr(module, "__spec__", None), "_initializing", False)

    def _exchange(self, names: Iterable[str]) -> None:
        """Give the functions of loaded modules the code that all requests together ask for."""
        from .live import Exchange

        exchange = Exchange()
        unmet: dict[str, list[Request]] = {}
        for name in names:
            with self._lock:
                requests = self._wanted(name)
                done = self._done.get(name, ())
                fresh = [request for request in requests if request not in done]
                self._done[name] = set(requests)
            try:
                unmet[name] = self._prepare(exchange, name, requests, fresh)
            except Exception as error:
                self._miss(fresh, f"the module could not be rewritten: {error!r}")
        for landing, obstacle in exchange.apply():
            self.say(landing if obstacle is None else Miss(landing.request, obstacle))
        for name, rest in unmet.items():
            self._find_on(sys.modules[name], rest)

    def _prepare(
        self, exchange: Exchange, name: str, requests: list[Request], fresh: list[Request]
    ) -> list[Request]:
        """Put the module's new code into ``exchange``; what must be found on the live module."""
        namespace = getattr(sys.modules[name], "__dict__", {})
        sheet = self._sheet_of(name, None, namespace)
        if sheet is None:
            return fresh
        code, landings, unmet = sheet.rewrite(requests)
        news = [landing for landing in landings if landing.request in fresh]
        if code is not None:
            exchange.add(sheet, namespace, code, [n for n in news if n.kind != "binding"])
        bound = {landing.request: None for landing in news if landing.kind == "binding"}
        return [request for request in (*bound, *unmet) if request in fresh]

    def _find_on(self, module: ModuleType, requests: Iterable[Request]) -> None:
        """Meet requests on the live module: names it got from elsewhere or makes on demand."""
        from .attaching import attach_path

        for request in requests:
            self.guarded(request, lambda r=request: attach_path(self, module, r.path, r))  # type: ignore[misc]

    def weave_function(
        self,
        function: FunctionType,
        request: Request,
        test: Test | None = None,
        inside: tuple[str, ...] = (),
    ) -> bool:
        """Weave ``request`` into this function alone, or one ``inside`` it; False if its text is unknown.

        ``test`` decides by the function's first argument whether an event concerns anybody.
        """
        from .live import Exchange
        from .sheet import descend

        name = function.__globals__.get("__name__", "")
        namespace = getattr(sys.modules.get(name), "__dict__", {})
        sheet = self._sheet_of(name, None, namespace) if namespace else None
        path = None if sheet is None else sheet.place(function.__code__)
        path = None if sheet is None or not path else descend(sheet.plain, path, inside)
        if sheet is None or not path:
            return False
        landings, reason = sheet.pin(path, self._derive(function, request, test, name, path))
        code = sheet.rewrite(self._wanted(name))[0] if landings else None
        if code is None:
            what = f"{request.variable or 'a variable'} in {'.'.join((function.__qualname__, *inside))}"
            self.not_found(request, reason or f"{what} not found", sheet)
            return True
        exchange = Exchange()
        exchange.add(sheet, namespace, code, landings)
        for landing, obstacle in exchange.apply(function if sheet.stands_alone(path) else None):
            told = landing._replace(request=request)
            self.say(told if obstacle is None else Miss(request, obstacle))
        return True

    def _derive(
        self, function: FunctionType, request: Request, test: Test | None, name: str, path: Path
    ) -> Request:
        """``request`` as it is put into one function, where ``test`` decides whom it concerns."""
        code = function.__code__
        if test is None or not code.co_argcount:
            return request
        key = (request, name, path, test)
        with self._lock:
            if key in self._derived:
                return self._derived[key]
        from .filters import filtered

        first = code.co_varnames[0]
        hook = filtered(request.hook, test, first, self.on_hook_defined)
        derived = request._replace(hook=hook, captures=(*request.captures, first))
        with self._lock:
            return self._derived.setdefault(key, derived)

    # -- saying ----------------------------------------------------------------------------------

    def guarded(self, request: Request, act: Callable[[], None]) -> None:
        """Run ``act``; what it raises becomes a Miss."""
        try:
            act()
        except Exception as error:
            self._miss([request], f"could not be attached: {error!r}")

    def not_found(self, request: Request, reason: str = "", sheet: Sheet | None = None) -> None:
        """Report that a text holds nothing that ``request`` names."""
        from .source import missing

        self.say(missing(sheet or self._sheets.get(request.module), request, reason))

    def _miss(self, requests: Iterable[Request], reason: str) -> None:
        for request in requests:
            self.say(Miss(request, reason))

    def say(self, what: Landing | Miss) -> None:
        """Report ``what``, the first time that it is so."""
        with self._lock:
            if what in self._said:
                return
            self._said.add(what)
        try:
            self._report(what)
        except Exception:
            pass  # the record is lost, the program is not


def _ending(name: str) -> str:
    return "*." + name.rpartition(".")[2]


def _call(callback: Callback, module: ModuleType) -> None:
    try:
        callback(module)
    except Exception:
        pass  # whoever asked to be called guards and reports its own mistakes
