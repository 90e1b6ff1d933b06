"""What comes along with an event: values read when it fires, and what was recorded before.

A plain variable is read when the event fires. What cannot be read then is recorded when it happens: an
event of a function (``#value``, ``#endloop_x``), whichever variable was set last (``$v``), a variable
of another function.
"""

from __future__ import annotations

from ..probe.points import MISSING
from ..variables import follow, read_name, read_variable
from .activations import Activations, calling_frame, chains

TYPE_CHECKING = False  # importing typing would cost 5 ms
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any, Protocol

    from ..rewrite.selector import Element
    from .activations import Activation

    Found = tuple[str | None, Any]
    """The name of what was set, and its value."""
    Test = Callable[[Any], Any]
    Deliver = Callable[[dict[str, Any]], Any]

    class ValueSource(Protocol):
        """Knows what an element of a function has in one of its activations."""

        def found_in(self, activation: Any, element: Element) -> Found: ...


EVENTS_OF_TAG = {"@enter": ("#enter", "#receive"), "@exit": ("#exit", "#yield")}
"""The events that have a tag in ptera: where control comes into a function, and where it leaves."""

_OF_WILDCARD = ("#enter", "#receive", "#yield", "#exit")


def is_recorded(element: Element) -> bool:
    """Whether what an element has cannot be read when another one fires."""
    name = element.name
    return name is None or (name.startswith("#") and name != "#enter")


def comes_with(element: Element, focus: Element) -> bool:
    """Whether ``element`` stands for any variable, and thus for the one that is just set."""
    if element.name is not None or element.category is not None:
        return False
    name = focus.name
    return name is None or name in _OF_WILDCARD or not (name.startswith("#") or "." in name)


class Read:
    """Variables as they are when the event fires. ``#enter`` has always been."""

    def found_in(self, activation: Any, element: Element) -> Found:
        name = element.name or ""
        if name == "#enter":
            return name, True
        if isinstance(activation, dict):
            root, *attributes = name.split(".")
            return name, follow(read_name(activation, root), attributes)
        return name, read_variable(activation, name)


READ = Read()


class LastSet:
    """What was last set, in each activation of a function: in itself, or in functions it calls."""

    def __init__(self, scope: Activations) -> None:
        self._scope = scope
        self._seen: dict[int, dict[str | None, Found]] = {}

    def add(self, element: Element, value: Any, name: str | None) -> None:
        """Something was set in the function itself."""
        activation = self._scope.current()
        if activation is not None:
            self._seen.setdefault(id(activation), {})[element.capture] = name, value

    def add_below(self, element: Element, value: Any, name: str | None) -> None:
        """Something was set in a function that it calls: all activations are around that."""
        for activation, _entered in self._scope.activations():
            self._seen.setdefault(id(activation), {})[element.capture] = name, value

    def found_in(self, activation: Any, element: Element) -> Found:
        return self._seen.get(id(activation), {}).get(element.capture, (None, MISSING))

    def end(self, _: Any) -> None:
        """The hook of the function's ``#exit``."""
        self._seen.pop(id(calling_frame()), None)


class Event:
    """Makes an event's data out of what the hook was called with; ``None`` if a test says no.

    ``outer`` has, for each element of an enclosing function, the number of its activation, the source of
    its value, and the element.
    """

    def __init__(
        self,
        focus: Element,
        others: Sequence[Element],
        outer: Sequence[tuple[int, ValueSource, Element]],
        raw: bool,
        test: Callable[[Element], Test],
    ) -> None:
        self.capture = focus.capture or focus.name or "*"
        self.plain = not (others or outer or raw or focus.value or focus.name is None)
        self._focus = focus
        self._same = [e for e in others if comes_with(e, focus)]
        self._begun = [e for e in others if e.name == "#enter"]
        self._others = [e for e in others if not is_recorded(e) and e.name != "#enter"]
        self.reads = tuple(element.name or "" for element in self._others)
        """The variables whose values the hook is to be called with."""
        self._outer = outer
        self._raw = raw
        wanted = [focus, *others, *(element for _, _, element in outer)]
        self._tests = [(e.capture or e.name or "*", test(e)) for e in wanted if e.value is not None]

    @property
    def tested(self) -> bool:
        """Whether there is a condition on any value."""
        return bool(self._tests)

    def data(
        self, value: Any, rest: tuple[Any, ...], activations: Sequence[Activation]
    ) -> dict[str, Any] | None:
        """The event of one choice of activations."""
        name: str | None = self._focus.name
        if name is None:
            name, rest = rest[0], rest[1:]
        found: list[tuple[str | None, str | None, Any]] = [
            (e.capture, *source.found_in(activations[level][0], e))
            for level, source, e in self._outer
        ]
        for e, v in zip(self._others, rest, strict=False):
            # What any variable stands for is about to be set: the old value is still there.
            found.append((e.capture, e.name, value if e.name == name else v))
        found += [(e.capture, e.name, True) for e in self._begun]
        found += [(e.capture, name, value) for e in self._same]
        found.append((self.capture, name, value))
        data = {key: v for key, _, v in found if key is not None and v is not MISSING}
        if any(key not in data or not test(data[key]) for key, test in self._tests):
            return None
        if self._raw:
            from .streams import Capture

            captures = [(key, n or "", v) for key, n, v in found if key and v is not MISSING]
            return {key: Capture(key, [n], [v]) for key, n, v in captures}
        return data


class TotalNode:
    """What one activation set, and what lies inside of it; a leaf is one value of the focus."""

    __slots__ = ("below", "focused", "seen")

    def __init__(self) -> None:
        self.seen: dict[str, tuple[list[str], list[Any]]] = {}
        self.below: dict[object, TotalNode] = {}
        self.focused = False

    def add(self, element: Element, value: Any, name: str | None) -> None:
        if element.capture:
            names, values = self.seen.setdefault(element.capture, ([], []))
            names.append(name or "")
            values.append(value)


class Totals:
    """``f(x, y)``: everything seen during one activation of ``f``, given when it ends.

    With a focus (a probe of type ``total``) there is one event for each value of it. ``scopes`` are those
    of the functions down to the focus; without one, of the outermost alone.
    """

    def __init__(
        self, scopes: Sequence[Activations], elements: Sequence[Element], deliver: Deliver, raw: bool,
        test: Callable[[Element], Test],
    ) -> None:  # fmt: skip
        self._scopes = scopes
        self._names = {element.capture for element in elements if element.capture}
        self._focused = any(element.focus for element in elements)
        self._tests = [(e.capture, test(e)) for e in elements if e.value is not None]
        self._deliver = deliver
        self._raw = raw
        self._roots: dict[int, TotalNode] = {}

    def adder(self, level: int) -> Callable[..., None]:
        """The handler of what is set in a function of the chain itself."""

        def add(element: Element, value: Any, name: str | None) -> None:
            own = next(self._scopes[level].activations(), None)
            if own is None:
                return
            for activations in chains(self._scopes[:level], *own):
                node = self._node([*activations, own])
                if element.focus:
                    leaf = node.below[object()] = TotalNode()
                    leaf.focused = True
                    leaf.add(element, value, name)
                else:
                    node.add(element, value, name)

        return add

    def adder_below(self, level: int) -> Callable[..., None]:
        """The handler of what is set in functions beside the chain."""

        def add(element: Element, value: Any, name: str | None) -> None:
            for activations in chains(self._scopes[: level + 1], None):
                self._node(activations).add(element, value, name)

        return add

    def _node(self, activations: Sequence[Activation]) -> TotalNode:
        (root, _), *rest = activations
        node = self._roots.setdefault(id(root), TotalNode())
        for _, entered in rest:
            node = node.below.setdefault(entered, TotalNode())
        return node

    def end(self, _: Any) -> None:
        """The hook of the outermost function's ``#exit``."""
        root = self._roots.pop(id(calling_frame()), None)
        if root is not None:
            self._give(root, {})

    def _give(self, node: TotalNode, outer: dict[str, tuple[list[str], list[Any]]]) -> None:
        seen = {**outer, **node.seen}
        for below in node.below.values():
            self._give(below, seen)
        if node.focused != self._focused or not seen or self._names != set(seen):
            return
        if all(test(value) for key, test in self._tests if key for value in seen[key][1]):
            self._deliver({key: self._shown(key, *found) for key, found in seen.items()})

    def _shown(self, key: str, names: list[str], values: list[Any]) -> Any:
        if not self._raw:
            return values[-1]
        from .streams import Capture

        return Capture(key, names, values)
