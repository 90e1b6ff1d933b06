"""An event's data: what a hook was called with, what was set before, and whether the tests hold."""

from __future__ import annotations

from ..probe import MISSING
from ..rewrite.selector import BEGIN
from ..variables import read_variable
from .scope import Scope, Siblings, meant, read_for

TYPE_CHECKING = False  # importing typing would cost 5 ms
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import FrameType
    from typing import Any

    from ..rewrite.selector import Element


def _has_been(element: Element) -> bool:
    """Whether an event has surely been when another fires: ``#enter``, the first of two focuses."""
    name = element.name or ""
    return name == "#enter" or (bool(element.focus & BEGIN) and name.startswith("#loop"))


class Gather:
    """Makes the event's data out of what the hook was called with; ``None`` if a test says no."""

    def __init__(
        self,
        focus: Element,
        others: list[Element],
        outer: list[tuple[Scope | Siblings, Element]],
        raw: bool,
        matcher: Callable[[Element], Callable[[Any], Any]],
    ) -> None:
        self.capture = focus.capture or focus.name or "*"
        self.plain = not (others or outer or raw or focus.value or focus.name is None)
        self._focus = focus
        self._been = [e for e in others if _has_been(e)]
        self._same = [e for e in others if e.name is None]
        """Any variable beside the one that fires is the one set last: that which fires."""
        self._others = [
            e
            for e in others
            if e not in self._been and e.name is not None and not read_for(e).startswith("#")
        ]
        self.reads = tuple(read_for(element) for element in self._others)
        """The variables whose values the hook is to be called with."""
        self._outer = outer
        self._raw = raw
        wanted = [focus, *others, *(element for _, element in outer)]
        self._tests = [
            (e.capture or e.name or "*", matcher(e)) for e in wanted if e.value is not None
        ]

    def __call__(
        self, value: Any, rest: tuple[Any, ...], frames: Sequence[FrameType] = ()
    ) -> dict[str, Any] | None:
        """``frames``: whose variables those of outer functions are, where several may be meant."""
        name = self._focus.name
        if name is None:
            name, *rest_list = rest
            rest = tuple(rest_list)
        entries: list[tuple[str | None, str | None, Any]] = []
        for number, (scope, element) in enumerate(self._outer):
            if frames:
                found = meant(element, read_variable(frames[number], read_for(element)))
            else:
                found = scope.value_of(element)
            entries.append((element.capture, element.name, found))
        for element, found in zip(self._others, rest, strict=False):
            entries.append((element.capture, element.name, meant(element, found)))
        entries += [(e.capture, e.name, True) for e in self._been]
        entries += [(e.capture, name, value) for e in self._same]
        entries.append((self.capture, name, value))
        data = {key: v for key, _, v in entries if key is not None and v is not MISSING}
        if any(key not in data or not test(data[key]) for key, test in self._tests):
            return None
        if self._raw:
            from .streams import Capture

            captures = [(key, n or "", v) for key, n, v in entries if key and v is not MISSING]
            return {key: Capture(key, n, v) for key, n, v in captures}
        return data
