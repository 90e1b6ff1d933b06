"""What is to happen in one scope: its requests, sorted by the things they are about."""

from __future__ import annotations

from collections.abc import Iterable

from .methods import is_method
from .nodes import FUNCTIONS
from .paths import Place
from .request import Landing, Request

WILD_POINTS = ("#enter", "#receive", "#yield", "#exit")
"""The events of a function that count among its variables, for who asks for all of them."""


class Hook:
    """One request as it acts in one scope."""

    __slots__ = ("kind", "name", "override", "request", "wild")

    def __init__(self, request: Request, suffix: str = "", kind: str | None = None) -> None:
        self.request = request
        self.name = request.hook + suffix
        self.override = request.override or suffix == "&"
        self.wild = request.variable is None and not suffix
        self.kind = kind


class Plan:
    """The hooks of one scope."""

    def __init__(
        self, place: Place, bindings: Iterable[Hook] = (), imports: Iterable[Hook] = ()
    ) -> None:
        self.place = place
        self.variables: dict[str, list[Hook]] = {}
        self.wild: list[Hook] = []
        self.points: dict[str, list[Hook]] = {}
        self.methods: dict[str, Hook] = {}
        """By name of a method the hook on its calls: there is one, whoever asks."""
        self.captures = False
        self._merged: dict[str, list[Hook]] = {}
        for request in place.requests:
            self._sort(Hook(request))
        for hook in bindings:
            self.variables.setdefault(hook.request.path[0], []).append(hook)
        self.imports: dict[str, list[Hook]] = {}
        for hook in imports:
            self.imports.setdefault(hook.request.path[0], []).append(hook)
        self.dotted = any("." in variable for variable in self.variables)

    def _sort(self, hook: Hook) -> None:
        variable = hook.request.variable
        self.captures = self.captures or bool(hook.request.captures)
        if variable is None:
            self.wild.append(hook)
            if hook.request.category is None and isinstance(self.place.node, FUNCTIONS):
                for point in WILD_POINTS:
                    self.points.setdefault(point, []).append(hook)
        elif is_method(variable):
            self.methods[variable[1:]] = hook
        elif variable.startswith("#"):
            self.points.setdefault(variable, []).append(hook)
        else:
            self.variables.setdefault(variable, []).append(hook)

    def variable(self, key: str) -> list[Hook]:
        """The hooks for a variable as it is written, the one that acts first first."""
        found = self._merged.get(key)
        if found is None:
            found = self._merged[key] = self._collect(key)
        return found

    def _collect(self, key: str) -> list[Hook]:
        named = list(self.variables.get(key, ()))
        private = self.mangled(key)
        if private != key:
            named += self.variables.get(private, ())
        if "." not in key:
            named += self.wild
        order = {id(request): n for n, request in enumerate(self.place.requests)}
        tags = self.place.facts.tags.get(key, ()) if any(h.request.category for h in named) else ()
        kept = [h for h in named if h.kind or not h.request.category or h.request.category in tags]
        return ordered(kept, order)

    def mangled(self, key: str) -> str:
        """The variable's name after the compiler has made its private parts the class's own."""
        owner = (self.place.owner or "").lstrip("_")
        if not owner or "__" not in key:
            return key
        return ".".join(
            f"_{owner}{part}" if part.startswith("__") and not part.endswith("__") else part
            for part in key.split(".")
        )

    def point(self, variable: str) -> list[Hook]:
        """The hooks for ``#enter`` and the like, the one that acts first first."""
        return ordered(self.points.get(variable, []), {})

    def loops(self, prefix: str, names: Iterable[str]) -> list[Hook]:
        """The hooks for a loop over ``names``: ``#loop_i`` and the bare ``#loop``."""
        wanted = [prefix, *(f"{prefix}_{name}" for name in names)]
        return [hook for variable in wanted for hook in self.points.get(variable, ())]


def ordered(hooks: list[Hook], order: dict[int, int]) -> list[Hook]:
    """Overriding hooks first, then in the order of registration."""
    if len(hooks) < 2:
        return hooks
    return sorted(hooks, key=lambda hook: (not hook.override, order.get(id(hook.request), -1)))


class Record:
    """What came of the requests on one module."""

    def __init__(self, module: str, filename: str, source: str) -> None:
        self.module = module
        self.filename = filename
        self.source = source
        self.landings: list[Landing] = []
        self.landed: set[int] = set()
        """Identities of the requests that were met."""
        self.reasons: dict[int, str] = {}
        self._lines: list[str] | None = None

    def land(self, hook: Hook, function: str, line: int, kind: str) -> None:
        """Note a place where a hook was put."""
        self.landed.add(id(hook.request))
        self.landings.append(
            Landing(
                hook.request,
                self.module,
                function,
                self.filename,
                line,
                self.line(line),
                hook.kind or kind,
            )
        )

    def refuse(self, request: Request, reason: str) -> None:
        """Note why a hook could not be put somewhere."""
        self.reasons.setdefault(id(request), reason)

    def line(self, number: int) -> str:
        """One line of the source, stripped."""
        if self._lines is None:
            # str.splitlines would also split at form feeds, which are no line ends in Python.
            text = self.source.replace("\r\n", "\n").replace("\r", "\n")
            self._lines = text.split("\n")
        return self._lines[number - 1].strip() if 0 < number <= len(self._lines) else ""
