"""What is known in one process: requests, sources that were read, hooks, and what was reported.

The modules that put hooks in (exchange, attaching, function_source) are handed the registry; the engine,
which decides when they are used, is the registry's one subclass.
"""

from __future__ import annotations

import _thread

from .request import MAIN, Match, Request, Unmatched

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from types import CodeType
    from typing import Any

    from .module_source import ModuleSource

    Report = Callable[[Match | Unmatched], None]
    Traced = Callable[..., Any]


class Registry:
    """The requests, the sources, the hooks and the reports of one process.

    ``report`` is called with each place where a request matched and with each request that found none;
    from any thread that imports.
    """

    def __init__(self, report: Report) -> None:
        self._lock = _thread.RLock()
        self._requests: dict[str, list[Request]] = {}
        """All requests, by module."""
        self._done: dict[str, set[Request]] = {}
        """Those of them that the module's code has."""
        self.derived: dict[object, Request] = {}
        """Requests made of others for one function and one test, so that none is made twice."""
        self._sources: dict[str, ModuleSource] = {}
        self._main_text = (b"", "")
        self.handler_files: set[str] = set()
        """Voirfiles: what hooks call in them is no part of the program, and no compiler's business."""
        self.compiled: set[tuple[str, str]] = set()
        """File and qualified name of each function that a compiler was given without hooks."""
        self._hooks: list[tuple[Callable[..., Any], Traced | None]] = []
        self._on_hook: list[Callable[[Callable[..., Any], Traced | None], None]] = []
        self._listener = report
        self._reported: set[Match | Unmatched] = set()
        self._held: list[Unmatched] | None = None

    def can_rewrite(self) -> bool:
        """Whether what rewrites is there, which is loaded once something is not in the cache."""
        raise NotImplementedError

    # -- requests --------------------------------------------------------------------------------

    def wanted(self, name: str) -> list[Request]:
        """The requests for a module."""
        with self._lock:
            return list(self._requests.get(name, ()))

    def fresh(self, name: str) -> tuple[list[Request], list[Request]]:
        """All requests for a module, and those not put in so far; from now on they count as such."""
        with self._lock:
            requests = self.wanted(name)
            done = self._done.get(name, ())
            self._done[name] = set(requests)
        return requests, [request for request in requests if request not in done]

    def met(self, name: str, requests: Iterable[Request]) -> None:
        """Remember requests that are put in: rewriting the whole module puts them in again."""
        with self._lock:
            self._requests.setdefault(name, []).extend(requests)
            self._done.setdefault(name, set()).update(requests)

    # -- sources and code --------------------------------------------------------------------------

    def source_of(
        self, name: str, code: CodeType | None, namespace: dict[str, Any]
    ) -> ModuleSource | None:
        """The text of a module about to be executed with ``code``, or of a loaded one (None)."""
        from .source_text import read_source

        if name == MAIN and code is None and name not in self._sources and self._main_text[1]:
            return self._main_source()
        with self._lock:
            known = self._sources.get(name)
        source = read_source(name, code, namespace, known)
        if source is not None:
            with self._lock:
                self._sources[name] = source
        return source

    def _main_source(self) -> ModuleSource:
        from .module_source import ModuleSource
        from .source_text import decode

        text, filename = self._main_text
        source = self._sources[MAIN] = ModuleSource(MAIN, filename, decode(text))
        return source

    def original(self, code: CodeType) -> CodeType | None:
        """The code as written of which ``code`` is the rewritten form; None when it is not ours."""
        for source in self._sources_of(code):
            found = source.original(code)
            if found is not None:
                return found
        return None

    def traced(self, code: CodeType) -> CodeType | None:
        """The code as written, with what overrides values: what a compiler shall see of ``code``."""
        for source in self._sources_of(code):
            found = source.overriding(code)
            if found is not None:
                self.note_compiled(code)
                return found
        return None

    def note_compiled(self, code: CodeType) -> None:
        """Remember that a compiler was given the code as written: no hook of it will be called."""
        for source in self._sources_of(code):
            name = source.name_of(code)
            if name is not None:
                self.compiled.add((source.filename, name))

    def _sources_of(self, code: CodeType) -> list[ModuleSource]:
        with self._lock:
            sources = list(self._sources.values())
        return [
            s for s in sources if (s.versions or s.functions) and s.filename == code.co_filename
        ]

    # -- hooks -----------------------------------------------------------------------------------

    def on_hook_defined(self, hook: Callable[..., Any], traced: Traced | None = None) -> None:
        """Note a callable that rewritten code will call, so that ``torch.compile`` looks through it.

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

    # -- reports ----------------------------------------------------------------------------------

    def not_found(
        self, request: Request, reason: str = "", source: ModuleSource | None = None
    ) -> None:
        """Report that a text holds nothing that ``request`` names."""
        self.report(_missing(source or self._sources.get(request.module), request, reason))

    def unmatched(self, requests: Iterable[Request], reason: str) -> None:
        """Report that ``requests`` cannot be met."""
        for request in requests:
            self.report(Unmatched(request, reason))

    def report(self, what: Match | Unmatched) -> None:
        """Report ``what``, the first time that it is so."""
        with self._lock:
            if what in self._reported:
                return
            if (
                self._held is not None
                and what.request.module == MAIN
                and isinstance(what, Unmatched)
            ):
                self._held.append(what)
                return
            self._reported.add(what)
        try:
            self._listener(what)
        except Exception:
            pass  # the record is lost, the program is not

    def await_main(self) -> None:
        """Hold back requests that the program does not match: it may run another one (a debugger does)."""
        self._held = []

    def settle_main(self) -> None:
        """No other program will come: report what matched in none of them."""
        held, self._held = self._held, None
        if not held:
            return
        matched = {found.request for found in self._reported if isinstance(found, Match)}
        for failed in held:
            if failed.request not in matched:
                self.report(failed)


def _missing(source: ModuleSource | None, request: Request, reason: str = "") -> Unmatched:
    """That ``request`` found nothing in a text, with the names in it that are most like it."""
    where = "the program" if request.module == MAIN else request.module
    path = ".".join(request.path)
    variable = request.variable or "a variable"
    if request.category:
        variable += f" with the tag {request.category}"
    what = " in ".join(part for part in (variable, path) if part)
    return Unmatched(request, reason or f"{what} not found in {where}", _nearest(source, request))


def _nearest(source: ModuleSource | None, request: Request) -> tuple[str, ...]:
    try:
        from .inventory import inventory
        from .names import nearest

        known = inventory(source.text, source.module, source.filename) if source is not None else []
        return nearest(request, known)
    except Exception:
        return ()  # a help that is not worth more than the message itself
