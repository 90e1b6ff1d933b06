"""What is known in one process: requests, sources that were read, hooks, and what was reported.

The modules that put hooks in (exchange, attaching, function_source) are handed the registry. The engine,
which decides when they are used, is its one subclass.
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

    ``report`` is called once with each place where a request matched, and with each request that found none,
    from whichever thread imports.
    """

    def __init__(self, report: Report) -> None:
        self._lock = _thread.RLock()
        self._requests: dict[str, list[Request]] = {}
        """All requests, by module."""
        self._done: dict[str, set[Request]] = {}
        """Those that have been put into the module's code."""
        self.derived: dict[object, Request] = {}
        """Requests that were derived from others for one function and one test."""
        self._sources: dict[str, ModuleSource] = {}
        self._main_text = (b"", "")
        self.handler_files: set[str] = set()
        """Files of voirfiles: hooks call functions in them, which no compiler of the program may compile."""
        self.compiled: set[tuple[str, str]] = set()
        """File and qualified name of each function that a compiler was given without hooks."""
        self._hooks: list[tuple[Callable[..., Any], Traced | None]] = []
        self._on_hook: list[Callable[[Callable[..., Any], Traced | None], None]] = []
        self._listener = report
        self._reported: set[Match | Unmatched] = set()
        self._held: list[Unmatched] | None = None
        """What is held back of the program: see :meth:`await_main`."""

    def can_rewrite(self) -> bool:
        """Whether the rewriter is there. It is loaded when something is first missing in the cache."""
        raise NotImplementedError

    # -- requests --------------------------------------------------------------------------------

    def wanted(self, name: str) -> list[Request]:
        """The requests for a module."""
        with self._lock:
            return list(self._requests.get(name, ()))

    def fresh(self, name: str) -> tuple[list[Request], list[Request]]:
        """All requests for a module, and those not put in so far. From now on all count as put in."""
        with self._lock:
            requests = self.wanted(name)
            done = self._done.get(name, ())
            self._done[name] = set(requests)
        return requests, [request for request in requests if request not in done]

    def met(self, name: str, requests: Iterable[Request]) -> None:
        """Remember requests that were put in another way, so that rewriting the module keeps them."""
        with self._lock:
            self._requests.setdefault(name, []).extend(requests)
            self._done.setdefault(name, set()).update(requests)

    # -- sources and code --------------------------------------------------------------------------

    def source_of(
        self, name: str, code: CodeType | None, namespace: dict[str, Any]
    ) -> ModuleSource | None:
        """The text of a module: one about to be executed with ``code``, or a loaded one (None).

        Returns None if it cannot be read, or is not the text of the code.
        """
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
        """The code as written of which ``code`` is the rewritten form; None if ``code`` is not ours."""
        for source in self._sources_of(code):
            original = source.original(code)
            if original is not None:
                return original
        return None

    def traced(self, code: CodeType) -> CodeType | None:
        """The code as written with the hooks that override values, which is what a compiler sees of ``code``.

        None if ``code`` is not ours.
        """
        for source in self._sources_of(code):
            plain = source.overriding(code)
            if plain is not None:
                self.note_compiled(code)
                return plain
        return None

    def note_compiled(self, code: CodeType) -> None:
        """Remember that a compiler was given this code without hooks: none of them will be called."""
        for source in self._sources_of(code):
            name = source.name_of(code)
            if name is not None:
                self.compiled.add((source.filename, name))

    def _sources_of(self, code: CodeType) -> list[ModuleSource]:
        """The rewritten sources that ``code`` may come from."""
        with self._lock:
            sources = list(self._sources.values())
        return [
            s for s in sources if (s.versions or s.functions) and s.filename == code.co_filename
        ]

    # -- hooks -----------------------------------------------------------------------------------

    def on_hook_defined(self, hook: Callable[..., Any], traced: Traced | None = None) -> None:
        """Note a callable that rewritten code calls, so that ``torch.compile`` looks through it.

        ``traced`` is what is traced in its place; by default it returns its argument.
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
        """Report ``what``, unless it has been reported before."""
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
        """Hold back requests that the program does not match, until :meth:`settle_main`.

        The program that starts may run another one (a debugger does), which they match.
        """
        self._held = []

    def settle_main(self) -> None:
        """Report what matched in no program that ran: none will come any more."""
        held, self._held = self._held, None
        if not held:
            return
        matched = {report.request for report in self._reported if isinstance(report, Match)}
        for unmatched in held:
            if unmatched.request not in matched:
                self.report(unmatched)


def _missing(source: ModuleSource | None, request: Request, reason: str = "") -> Unmatched:
    """That ``request`` found nothing in a text, with the names in it that are most like the wanted one."""
    where = "the program" if request.module == MAIN else request.module
    path = ".".join(request.path)
    variable = request.variable or "a variable"
    if request.category:
        variable += f" with the tag {request.category}"
    what = " in ".join(part for part in (variable, path) if part)
    return Unmatched(request, reason or f"{what} not found in {where}", _nearest(source, request))


def _nearest(source: ModuleSource | None, request: Request) -> tuple[str, ...]:
    """The names in a source that are most like those of ``request``."""
    try:
        from .inventory import inventory
        from .names import nearest

        known = inventory(source.text, source.module, source.filename) if source is not None else []
        return nearest(request, known)
    except Exception:
        return ()  # the names are a help: without them, the message is still right
