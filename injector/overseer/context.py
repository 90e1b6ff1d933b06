"""The data of an event: values that are read when it fires, and values that were recorded before.

A plain variable is read when the event fires (:class:`Read`). What cannot be read then is recorded when it
happens (:class:`LastSet`): an event of a function (``#value``, ``#endloop_x``), whichever variable was set
last (``$v``), a variable of another function. :class:`Event` puts both together; :class:`Totals` gathers all
that one activation has set, for selectors without a focus.
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
    """The name of what was set, and its value; MISSING for none."""
    Test = Callable[[Any], Any]
    Deliver = Callable[[dict[str, Any]], Any]

    class ValueSource(Protocol):
        """Knows the value of an element of a function in one of its activations."""

        def found_in(self, activation: Any, element: Element) -> Found: ...


EVENTS_OF_TAG = {"@enter": ("#enter", "#receive"), "@exit": ("#exit", "#yield")}
"""The events that a tag of ptera stands for: those at which control enters a function, or leaves it."""

_OF_WILDCARD = ("#enter", "#receive", "#yield", "#exit")
"""The events that a wildcard (``$v``) stands for as well."""


def is_recorded(element: Element) -> bool:
    """Whether the value of an element cannot be read when another one fires."""
    name = element.name
    return name is None or (name.startswith("#") and name != "#enter")


def comes_with(element: Element, focus: Element) -> bool:
    """Whether ``element`` stands for any variable, and so for the one at which ``focus`` fires."""
    if element.name is not None or element.category is not None:
        return False
    name = focus.name
    return name is None or name in _OF_WILDCARD or not (name.startswith("#") or "." in name)


class Read:
    """Reads variables as they are when the event fires. ``#enter`` has happened by then."""

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
    """Remembers what was last set in each activation of a function, by it or by functions that it calls."""

    def __init__(self, scope: Activations) -> None:
        self._scope = scope
        self._seen: dict[int, dict[str | None, Found]] = {}

    def add(self, element: Element, value: Any, name: str | None) -> None:
        """Note a value that was set in the function itself."""
        activation = self._scope.current()
        if activation is not None:
            self._seen.setdefault(id(activation), {})[element.capture] = name, value

    def add_below(self, element: Element, value: Any, name: str | None) -> None:
        """Note a value that was set in a function that it calls, which all activations are around."""
        for activation, _entered in self._scope.activations():
            self._seen.setdefault(id(activation), {})[element.capture] = name, value

    def found_in(self, activation: Any, element: Element) -> Found:
        return self._seen.get(id(activation), {}).get(element.capture, (None, MISSING))

    def end(self, _: Any) -> None:
        """Forget an activation that ends: the hook of ``#exit``."""
        self._seen.pop(id(calling_frame()), None)


class Event:
    """Makes the data of an event of what the hook was called with.

    ``focus`` is the element that fires, ``others`` are those of the same function. ``outer`` has, for each
    element of an enclosing function, the index of its activation, the source of its value, and the element.
    With ``raw``, values are captures with their names. ``test(element)`` returns the condition of an element.
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
        self._enters = [e for e in others if e.name == "#enter"]
        self._others = [e for e in others if not is_recorded(e) and e.name != "#enter"]
        self.reads = tuple(element.name or "" for element in self._others)
        """The variables with whose values the hook has to be called."""
        self._outer = outer
        self._raw = raw
        wanted = [focus, *others, *(element for _, _, element in outer)]
        self._tests = [(e.capture or e.name or "*", test(e)) for e in wanted if e.value is not None]

    @property
    def tested(self) -> bool:
        """Whether any element has a condition."""
        return bool(self._tests)

    def data(
        self, value: Any, rest: tuple[Any, ...], activations: Sequence[Activation]
    ) -> dict[str, Any] | None:
        """Return the data of the event for one choice of activations; None where a condition does not hold.

        ``rest`` is what the hook was called with after ``value``: for a wildcard the name of the variable,
        then the values of :attr:`reads`.
        """
        name: str | None = self._focus.name
        if name is None:
            name, rest = rest[0], rest[1:]
        captured: list[tuple[str | None, str | None, Any]] = [
            (e.capture, *source.found_in(activations[level][0], e))
            for level, source, e in self._outer
        ]
        for e, v in zip(self._others, rest, strict=False):
            # A hook runs before its variable is assigned, which still has the old value when it is read.
            captured.append((e.capture, e.name, value if e.name == name else v))
        captured += [(e.capture, e.name, True) for e in self._enters]
        captured += [(e.capture, name, value) for e in self._same]
        # The focus comes last: of several elements captured under one name, it is the one that counts.
        captured.append((self.capture, name, value))
        data = {key: v for key, _, v in captured if key is not None and v is not MISSING}
        if any(key not in data or not test(data[key]) for key, test in self._tests):
            return None
        if self._raw:
            from .streams import Capture

            raw_captures = [(key, n or "", v) for key, n, v in captured if key and v is not MISSING]
            return {key: Capture(key, [n], [v]) for key, n, v in raw_captures}
        return data


class TotalNode:
    """What one activation has set, and the activations inside of it. A leaf is one value of the focus."""

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
    """Gathers all values that are set during one activation of ``f`` in ``f(x, y)``, until its end.

    With a focus (a probe of type ``total``) there is one event for each value of the focus. ``scopes`` are
    the activations of the functions down to the focus; without one, those of the outermost function alone.
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
        """Return the handler of what is set in the function of ``scopes[level]``."""

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
        """Return the handler of what is set in functions that are called by that of ``scopes[level]``."""

        def add(element: Element, value: Any, name: str | None) -> None:
            for activations in chains(self._scopes[: level + 1], None):
                self._node(activations).add(element, value, name)

        return add

    def _node(self, activations: Sequence[Activation]) -> TotalNode:
        """Return the node of the last of ``activations``, which lie inside of each other."""
        (root, _), *rest = activations
        node = self._roots.setdefault(id(root), TotalNode())
        for _, entered in rest:
            node = node.below.setdefault(entered, TotalNode())
        return node

    def end(self, _: Any) -> None:
        """Give the events of an activation of the outermost function: the hook of its ``#exit``."""
        root = self._roots.pop(id(calling_frame()), None)
        if root is not None:
            self._give(root, {})

    def _give(self, node: TotalNode, outer: dict[str, tuple[list[str], list[Any]]]) -> None:
        """Deliver the events of ``node`` and of all below it; ``outer`` is what lies around it."""
        seen = {**outer, **node.seen}
        for below in node.below.values():
            self._give(below, seen)
        # An event needs all variables of the selector, and with a focus belongs to a value of it.
        if node.focused != self._focused or not seen or self._names != set(seen):
            return
        if all(test(value) for key, test in self._tests if key for value in seen[key][1]):
            self._deliver({key: self._shown(key, *entry) for key, entry in seen.items()})

    def _shown(self, key: str, names: list[str], values: list[Any]) -> Any:
        if not self._raw:
            return values[-1]
        from .streams import Capture

        return Capture(key, names, values)
