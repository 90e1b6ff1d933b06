"""What entries, parents, conditions and the command line set, laid over each other.

The command line's: ``--override a.b=v``, ``-P key=v``, ``-V key=[…]``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, NamedTuple

from .expressions import compiled
from .keys import problems as problems_of
from .problems import Mistake, Note, Path, ProblemList, SuiteError, Where, meant
from .reading import parse
from .scope import Context, Scope
from .templates import NotKnownYet, template


class SettingsLayer(NamedTuple):
    """Settings of a benchmark, and where each of them was written."""

    data: dict[str, Any]
    places: Mapping[Path, Where]

    def over(self, low: SettingsLayer, unite: bool = True) -> SettingsLayer:
        """This laid over ``low``; ``unite``: tags of both, as an heir has them.

        Conditions of ``low`` do not set what is set here: it is above them as well.
        """
        below = low.data
        if isinstance(below.get("when"), dict):
            whens = {each: _without(sets, self.data) for each, sets in below["when"].items()}
            below = {**below, "when": whens}
        data = merged(below, self.data)
        tags = [each.get("tags") for each in (below, self.data)]
        if unite and all(isinstance(each, list) for each in tags) and any(tags):
            data["tags"] = sorted({str(tag) for each in tags if each for tag in each})
        return SettingsLayer(data, {**low.places, **self.places})

    def below(self, key: str) -> SettingsLayer:
        """What is under one key, as a layer."""
        places = {path[1:]: where for path, where in self.places.items() if path[:1] == (key,)}
        return SettingsLayer(self.data.get(key) or {}, places)


EMPTY = SettingsLayer({}, {})


def _without(low: Any, high: Mapping[str, Any]) -> Any:
    """What of the settings ``low`` is not set by ``high``, at any depth."""
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


def listed(value: Any) -> list[Any]:
    """A list, also of one value that stands alone, or of nothing."""
    return value if isinstance(value, list) else [] if value is None else [value]


def pruned(value: Any) -> Any:
    """A map without what is null in it, at any depth; lists stay as they are."""
    if not isinstance(value, dict):
        return value
    return {key: pruned(each) for key, each in value.items() if each is not None}


def apply_conditions(
    settings: dict[str, Any],
    variables: Mapping[str, Any],
    facts: Context,
    note: Note,
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
            made = SettingsLayer(sets, {}).over(SettingsLayer(made, {})).data
    return made


# --- the command line -------------------------------------------------------------------------------

_VARIABLE = re.compile(r"[A-Za-z_]\w*(?:[.-]\w+)*")
_PIECE = re.compile(r'"([^"]*)"|\'([^\']*)\'|([^.]+)')
_EARLY = {"inherits", "definition", "matrix", "exclude", "job", "search", "name", "when"}
"""Keys that say which benchmarks there are: overridden before they act."""


class Setting(NamedTuple):
    """``KEY=VALUE`` of the command line."""

    where: Where
    key: str
    value: Any


def _settings(option: str, given: Iterable[str], problems: ProblemList) -> Iterator[Setting]:
    """What was given to an option; what has no ``=``, or a value that is not YAML, is a problem."""
    for text in given:
        key, equals, value = text.partition("=")
        where = Where(f"{option} {text}", 0)
        if not equals or not key.strip():
            problems.add(where, "KEY=VALUE is wanted")
            continue
        try:
            found = _value(value, where.file)
        except SuiteError as error:
            problems.extend(each._replace(where=where) for each in error.problems)
        else:
            yield Setting(Where(f"{option} {key.strip()}", 0), key.strip(), found)


def _value(text: str, shown: str) -> Any:
    """A value in YAML; what begins with a placeholder is a text, where YAML sees a map."""
    try:
        document = parse(f"v: {text}", shown)
        if document.problems:
            raise SuiteError(document.problems)
        value = document.data["v"]
    except SuiteError:
        if _is_template(text):
            return text.strip()
        raise
    is_map = isinstance(value, dict) and not any(each is not None for each in value.values())
    return text.strip() if is_map and _is_template(text) else value


def _is_template(text: str) -> bool:
    try:
        return "{" in text and not template(text.strip()).constant
    except Mistake:
        return False


def variables(
    declared: Mapping[str, Any],
    parameters: Sequence[str],
    sweeps: Sequence[str],
    problems: ProblemList,
) -> tuple[dict[str, Any], dict[str, list[Any]]]:
    """Variables by dotted name, and those that are swept with the values that they take."""
    known, swept = flat(declared), {}
    fixed = {each.key: each for each in _settings("-P", parameters, problems)}
    for each in fixed.values():
        _check_name(each, problems)
        known[each.key] = each.value
    for each in _settings("-V", sweeps, problems):
        _check_name(each, problems)
        values = each.value
        if not isinstance(values, list) or not values:
            problems.add(each.where, "a list with at least one value is wanted: [1, 2]")
        elif len({(type(value), str(value)) for value in values}) < len(values):
            problems.add(each.where, "the same value stands there twice")
        elif each.key in fixed:
            problems.add(
                each.where, f"-P sets it, to {fixed[each.key].value!r}: one of both is meant"
            )
        else:
            swept[each.key] = values
            known[each.key] = values[0]
    return known, swept


def _check_name(each: Setting, problems: ProblemList) -> None:
    if not _VARIABLE.fullmatch(each.key):
        text = f"{each.key!r} is no name of a variable: letters, digits, _ and dots make one"
        problems.add(each.where, text)


def flat(declared: Mapping[str, Any], above: str = "") -> dict[str, Any]:
    """Maps of maps as one map with dotted names."""
    made: dict[str, Any] = {}
    for key, value in declared.items():
        inner = isinstance(value, Mapping)
        made.update(flat(value, f"{above}{key}.") if inner else {f"{above}{key}": value})
    return made


class Override(NamedTuple):
    """``--override PATTERN.KEYS=VALUE``."""

    where: Where
    pattern: str
    """A benchmark's or an entry's name, or a glob of such."""
    keys: tuple[str, ...]
    layer: SettingsLayer

    @property
    def early(self) -> bool:
        """Whether it changes which benchmarks there are, or what they inherit."""
        return self.pattern.startswith("_") or self.keys[0] in _EARLY

    def matches(self, *names: str) -> bool:
        return any(fnmatchcase(name, self.pattern) for name in names)


def overrides(
    given: Sequence[str], entries: Mapping[str, SettingsLayer], problems: ProblemList
) -> list[Override]:
    """Read ``--override``.

    A name with dots in it is found where an entry has it; so is a key with dots. Quotes keep dots
    together anywhere: ``'a.argv."train.lr"=1'``. A key that is not known, a value of a wrong kind, an
    entry that is not there are problems.
    """
    found = []
    for each in _settings("--override", given, problems):
        made = _override(each, entries)
        if made is None:
            problems.add(each.where, "BENCHMARK.KEY=VALUE is wanted")
            continue
        found.append(made)
        if made.pattern.startswith("_") and made.pattern not in entries:
            text = f"no entry is called {made.pattern}{meant(made.pattern, entries)}"
            problems.add(each.where, text)
        else:
            for _, text in problems_of(made.layer.data):
                problems.add(each.where, text)
    return found


def _override(each: Setting, entries: Mapping[str, SettingsLayer]) -> Override | None:
    pieces = [a or b or c for a, b, c in _PIECE.findall(each.key)]
    if len(pieces) < 2:
        return None
    dotted = {key for layer in entries.values() for key in _dotted(layer.data)}
    names = [".".join(pieces[: _longest(pieces, set(entries))])]
    rest = pieces[_longest(pieces, set(entries)) :]
    while rest:
        count = _longest(rest, dotted)
        names.append(".".join(rest[:count]))
        rest = rest[count:]
    pattern, *keys = names
    data = each.value
    for key in reversed(keys):
        data = {key: data}
    places: dict[Path, Where] = {tuple(keys[:n]): each.where for n in range(len(names))}
    return Override(each.where, pattern, tuple(keys), SettingsLayer(data, places)) if keys else None


def _dotted(value: Any) -> Iterator[str]:
    """The keys with dots in them, at any depth."""
    for key, each in value.items() if isinstance(value, dict) else ():
        if "." in key:
            yield key
        yield from _dotted(each)


def _longest(pieces: Sequence[str], known: set[str]) -> int:
    """How many pieces, joined by dots, make a key that is known; 1 if none do."""
    counts = range(len(pieces), 1, -1)
    return next((count for count in counts if ".".join(pieces[:count]) in known), 1)
