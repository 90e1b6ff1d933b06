"""Layers of settings: what entries, parents, conditions and the command line set, laid over each other.

A :class:`SettingsLayer` keeps with its settings where each was written, so that a mistake which shows only in
what the layers come to can still name its file and line. The second part reads the command line's options
``--override a.b=v``, ``-P key=v`` and ``-V key=[…]``.
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
        """This layer laid over ``low``. With ``unite``, tags are those of both, as an heir has them."""
        below = low.data
        # Conditions are applied last. Those of a lower layer must not set what is set above them.
        if isinstance(below.get("when"), dict):
            whens = {
                condition: _without(sets, self.data) for condition, sets in below["when"].items()
            }
            below = {**below, "when": whens}
        data = merged(below, self.data)
        tags = [settings.get("tags") for settings in (below, self.data)]
        if unite and all(isinstance(listed, list) for listed in tags) and any(tags):
            data["tags"] = sorted({str(tag) for listed in tags if listed for tag in listed})
        return SettingsLayer(data, {**low.places, **self.places})

    def below(self, key: str) -> SettingsLayer:
        """The settings under one key as a layer, with places relative to it."""
        places = {path[1:]: where for path, where in self.places.items() if path[:1] == (key,)}
        return SettingsLayer(self.data.get(key) or {}, places)


EMPTY = SettingsLayer({}, {})


def _without(low: Any, high: Mapping[str, Any]) -> Any:
    """The settings ``low`` without those that ``high`` sets, at any depth."""
    if not isinstance(low, dict):
        return low
    rest = {}
    for key, value in low.items():
        above = high.get(key)
        if key not in high:
            rest[key] = value
        elif isinstance(value, dict) and isinstance(above, dict):
            rest[key] = _without(value, above)
    return rest


def merged(low: Any, high: Any) -> Any:
    """``high`` over ``low``: maps are merged, ``{append: […]}`` adds to a list, else ``high`` wins.

    Null wins as well, so that it hides what lower layers set; :func:`pruned` removes it in the end. Neither
    argument is changed.
    """
    if isinstance(low, dict) and isinstance(high, dict):
        result = dict(low)
        for key, value in high.items():
            result[key] = merged(low[key], value) if key in low else value
        return result
    if isinstance(low, list) and isinstance(high, dict) and list(high) == ["append"]:
        return [*low, *high["append"]]
    return high


def listed(value: Any) -> list[Any]:
    """``value`` as a list: of one value if it is none itself, of none if it is null."""
    return value if isinstance(value, list) else [] if value is None else [value]


def pruned(value: Any) -> Any:
    """``value`` without what is null in its maps, at any depth; lists stay as they are."""
    if not isinstance(value, dict):
        return value
    return {key: pruned(inner) for key, inner in value.items() if inner is not None}


def apply_conditions(
    settings: dict[str, Any],
    variables: Mapping[str, Any],
    facts: Context,
    note: Note,
    complete: bool = False,
) -> dict[str, Any]:
    """``settings`` with what the conditions of its ``when`` set, as far as they can be evaluated.

    A condition sees what those before it have set. Therefore the first one that needs a fact which is not
    known yet stays in ``when``, and so do all after it. With ``complete``, no fact will be known later.
    Mistakes in conditions go to ``note``.
    """
    waiting = dict(settings.get("when") or {})
    result = {key: value for key, value in settings.items() if key != "when"}
    while waiting:
        condition = next(iter(waiting))
        scope = Scope(result, variables, facts, complete)
        scope.path = ("when", condition)
        try:
            holds = bool(compiled(condition).value(scope))
        except NotKnownYet:
            return {**result, "when": waiting}
        except Mistake as error:
            note(("when", condition), str(error))
            holds = False
        sets = waiting.pop(condition)
        if holds and sets:
            result = SettingsLayer(sets, {}).over(SettingsLayer(result, {})).data
    return result


# --- the command line -------------------------------------------------------------------------------

_VARIABLE = re.compile(r"[A-Za-z_]\w*(?:[.-]\w+)*")
_KEY = re.compile(r'(?:"[^"]*"|\'[^\']*\'|[^=])*')
"""What stands before the first ``=`` outside of quotes."""
_PIECE = re.compile(r'"([^"]*)"|\'([^\']*)\'|([^.]+)')
_EARLY = {"inherits", "definition", "matrix", "exclude", "job", "search", "name", "when"}
"""Keys that decide which benchmarks there are: they are overridden before benchmarks are made."""


class Setting(NamedTuple):
    """``KEY=VALUE`` of the command line."""

    where: Where
    key: str
    value: Any


def _settings(option: str, given: Iterable[str], problems: ProblemList) -> Iterator[Setting]:
    """The settings that an option of the command line was ``given``.

    What has no ``=``, or a value that is not YAML, is added to ``problems``.
    """
    for text in given:
        key = _KEY.match(text)[0]  # type: ignore[index]
        equals, value = text[len(key) : len(key) + 1], text[len(key) + 1 :]
        where = Where(f"{option} {text}", 0)
        if not equals or not key.strip():
            problems.add(where, "KEY=VALUE is wanted")
            continue
        try:
            parsed = _value(value, where.file)
        except SuiteError as error:
            problems.extend(problem._replace(where=where) for problem in error.problems)
        else:
            yield Setting(Where(f"{option} {key.strip()}", 0), key.strip(), parsed)


def _value(text: str, shown: str) -> Any:
    """A value of the command line, which is YAML. Raises SuiteError if it is not.

    A text that begins with a placeholder needs quotes in a file, since YAML sees a map there. A shell takes
    the user's quotes away, so that here it is a text without them: ``--override 'a.argv.--n={n}'``.
    """
    try:
        document = parse(f"v: {text}", shown)
        if document.problems:
            raise SuiteError(document.problems)
        value = document.data["v"]
    except SuiteError:
        if _is_template(text):
            return text.strip()
        raise
    # {n} is a map to YAML whose key n has no value.
    is_map = isinstance(value, dict) and not any(inner is not None for inner in value.values())
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
    """The variables by dotted name, and those of them that are swept with the values that they take.

    ``declared`` are those of the suite, ``parameters`` and ``sweeps`` the words of ``-P`` and ``-V``. A swept
    variable has its first value until it is swept.
    """
    known, swept = flat(declared), {}
    fixed = {setting.key: setting for setting in _settings("-P", parameters, problems)}
    for setting in fixed.values():
        _check_name(setting, problems)
        known[setting.key] = setting.value
    for setting in _settings("-V", sweeps, problems):
        _check_name(setting, problems)
        values = setting.value
        if not isinstance(values, list) or not values:
            problems.add(setting.where, "a list with at least one value is wanted: [1, 2]")
        elif len({(type(value), str(value)) for value in values}) < len(values):
            problems.add(setting.where, "the same value stands there twice")
        elif setting.key in fixed:
            problems.add(
                setting.where, f"-P sets it, to {fixed[setting.key].value!r}: one of both is meant"
            )
        else:
            swept[setting.key] = values
            known[setting.key] = values[0]
    return known, swept


def _check_name(setting: Setting, problems: ProblemList) -> None:
    if not _VARIABLE.fullmatch(setting.key):
        text = f"{setting.key!r} is no name of a variable: letters, digits, _ and dots make one"
        problems.add(setting.where, text)


def flat(declared: Mapping[str, Any], above: str = "") -> dict[str, Any]:
    """Maps of maps as one map with dotted names: ``{exp: {gpus: 2}}`` as ``{exp.gpus: 2}``."""
    result: dict[str, Any] = {}
    for key, value in declared.items():
        inner = isinstance(value, Mapping)
        result.update(flat(value, f"{above}{key}.") if inner else {f"{above}{key}": value})
    return result


class Override(NamedTuple):
    """``--override PATTERN.KEYS=VALUE``."""

    where: Where
    pattern: str
    """The name of a benchmark or an entry, or a glob."""
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
    """Read the words of ``--override``.

    Dots separate keys. A name or a key that has dots itself is recognised if an entry has it; quotes keep
    dots together anywhere: ``'a.argv."train.lr"=1'``. An unknown key, a value of a wrong kind and an entry
    that does not exist are added to ``problems``.
    """
    read = []
    for setting in _settings("--override", given, problems):
        override = _override(setting, entries)
        if override is None:
            problems.add(setting.where, "BENCHMARK.KEY=VALUE is wanted")
            continue
        read.append(override)
        if override.pattern.startswith("_") and override.pattern not in entries:
            text = f"no entry is called {override.pattern}{meant(override.pattern, entries)}"
            problems.add(setting.where, text)
        else:
            for _, text in problems_of(override.layer.data):
                problems.add(setting.where, text)
    return read


def _override(setting: Setting, entries: Mapping[str, SettingsLayer]) -> Override | None:
    """``setting`` as an override; None if it names no key."""
    pieces = [double or single or bare for double, single, bare in _PIECE.findall(setting.key)]
    if len(pieces) < 2:
        return None
    dotted = {key for layer in entries.values() for key in _dotted(layer.data)}
    names: list[str] = []
    while pieces:
        count = _longest(pieces, dotted if names else set(entries))
        names.append(".".join(pieces[:count]))
        pieces = pieces[count:]
    pattern, *keys = names
    data = setting.value
    for key in reversed(keys):
        data = {key: data}
    places: dict[Path, Where] = {tuple(keys[:n]): setting.where for n in range(len(names))}
    layer = SettingsLayer(data, places)
    return Override(setting.where, pattern, tuple(keys), layer) if keys else None


def _dotted(value: Any) -> Iterator[str]:
    """The keys with dots in them, at any depth of ``value``."""
    for key, inner in value.items() if isinstance(value, dict) else ():
        if "." in key:
            yield key
        yield from _dotted(inner)


def _longest(pieces: Sequence[str], known: set[str]) -> int:
    """How many of the first ``pieces``, joined by dots, make a known key; 1 if none do."""
    counts = range(len(pieces), 1, -1)
    return next((count for count in counts if ".".join(pieces[:count]) in known), 1)
