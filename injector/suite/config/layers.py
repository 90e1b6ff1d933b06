"""What entries, parents and conditions set, laid over each other."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from .expressions import compiled
from .placeholders import Context
from .problems import Mistake, Path, Where
from .scope import Scope
from .templates import NotKnownYet


class Layer(NamedTuple):
    """Settings of a benchmark, and where each of them was written."""

    data: dict[str, Any]
    places: Mapping[Path, Where]

    def over(self, low: Layer, unite: bool = True) -> Layer:
        """This laid over ``low``; ``unite``: tags of both, as an heir has them.

        Conditions of ``low`` do not set what is set here: it is above them as well.
        """
        data = merged(_yielding(low.data, self.data), self.data)
        if unite and (tags := _tags(low.data, self.data)):
            data["tags"] = tags
        return Layer(data, {**low.places, **self.places})

    def below(self, key: str) -> Layer:
        """What is under one key, as a layer."""
        places = {path[1:]: where for path, where in self.places.items() if path[:1] == (key,)}
        return Layer(self.data.get(key) or {}, places)


EMPTY = Layer({}, {})


def _yielding(low: dict[str, Any], high: Mapping[str, Any]) -> dict[str, Any]:
    """``low``, whose ``when`` sets nothing that ``high`` sets itself."""
    if not isinstance(low.get("when"), dict):
        return low
    return {**low, "when": {each: _without(sets, high) for each, sets in low["when"].items()}}


def _without(low: Any, high: Mapping[str, Any]) -> Any:
    if not isinstance(low, dict):
        return low
    made = {}
    for key, value in low.items():
        above = high.get(key)
        if key not in high:
            made[key] = value
        elif isinstance(value, dict) and isinstance(above, dict):
            made[key] = _without(value, above)
    return made


def merged(low: Any, high: Any) -> Any:
    """``high`` over ``low``: maps are merged, ``{append: […]}`` adds to a list, else ``high`` wins.

    Null wins as well: :func:`pruned` takes away what is null in the end. Neither is changed.
    """
    if isinstance(low, dict) and isinstance(high, dict):
        made = dict(low)
        for key, value in high.items():
            made[key] = merged(low[key], value) if key in low else value
        return made
    if isinstance(low, list) and isinstance(high, dict) and list(high) == ["append"]:
        return [*low, *high["append"]]
    return high


def _tags(low: Mapping[str, Any], high: Mapping[str, Any]) -> list[str]:
    lists = [each.get("tags") for each in (low, high)]
    if not all(isinstance(each, list) for each in lists):
        return []
    return sorted({str(tag) for each in lists if each for tag in each})


def listed(value: Any) -> list[Any]:
    """A list, also of one value that stands alone, or of nothing."""
    return value if isinstance(value, list) else [] if value is None else [value]


def laid(layers: Iterable[Layer]) -> Layer:
    """Each layer over the one before."""
    whole = EMPTY
    for layer in layers:
        whole = layer.over(whole)
    return whole


def pruned(value: Any) -> Any:
    """A map without what is null in it, at any depth; lists stay as they are."""
    if not isinstance(value, dict):
        return value
    return {key: pruned(each) for key, each in value.items() if each is not None}


def apply_conditions(
    settings: dict[str, Any],
    variables: Mapping[str, Any],
    facts: Context,
    note: Callable[[Path, str], None],
    complete: bool = False,
) -> dict[str, Any]:
    """``settings`` with what its ``when`` sets while a condition holds, one after the other.

    A condition sees what those before it have set. One that needs a fact which is not known yet
    stays, and so do all after it. ``complete``: no fact will be known later.
    """
    waiting = dict(settings.get("when") or {})
    made = {key: value for key, value in settings.items() if key != "when"}
    while waiting:
        condition = next(iter(waiting))
        scope = Scope(made, variables, facts, complete)
        scope.path = ("when", condition)
        try:
            holds = bool(compiled(condition).value(scope))
        except NotKnownYet:
            return {**made, "when": waiting}
        except Mistake as error:
            note(("when", condition), str(error))
            holds = False
        sets = waiting.pop(condition)
        if holds and sets:
            made = Layer(sets, {}).over(Layer(made, {})).data
    return made
