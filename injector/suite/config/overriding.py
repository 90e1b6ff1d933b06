"""What the command line says over the YAML: ``--override a.b=v``, ``-P key=v``, ``-V key=[…]``."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, NamedTuple

from .keys import problems as problems_of
from .layers import Layer
from .problems import Mistake, Path, Problem, SuiteError, Where, meant
from .reading import parse
from .templates import template

_VARIABLE = re.compile(r"[A-Za-z_]\w*(?:[.-]\w+)*")
_PIECE = re.compile(r'"([^"]*)"|\'([^\']*)\'|([^.]+)')
_EARLY = {"inherits", "definition", "matrix", "exclude", "job", "search", "name", "when"}
"""Keys that say which benchmarks there are: overridden before they act."""


class Setting(NamedTuple):
    """``KEY=VALUE`` of the command line."""

    option: str
    key: str
    value: Any

    @property
    def where(self) -> Where:
        return Where(f"{self.option} {self.key}", 0)


def settings(option: str, given: Iterable[str]) -> list[Setting]:
    """Read what was given to an option.

    Raises:
        SuiteError: something has no ``=``, or its value is not YAML.
    """
    found, problems = [], []
    for text in given:
        key, equals, value = text.partition("=")
        where = Where(f"{option} {text}", 0)
        if not equals or not key.strip():
            problems.append(Problem(where, "KEY=VALUE is wanted"))
            continue
        try:
            found.append(Setting(option, key.strip(), _value(value, where.file)))
        except SuiteError as error:
            problems += [Problem(where, each.text) for each in error.problems]
    if problems:
        raise SuiteError(problems)
    return found


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
    declared: Mapping[str, Any], parameters: Sequence[str], sweeps: Sequence[str]
) -> tuple[dict[str, Any], dict[str, list[Any]]]:
    """Variables by dotted name, and those that are swept with the values that they take.

    Raises:
        SuiteError: a name is none, a sweep has no values, or is set as well.
    """
    known = flat(declared)
    problems = []
    for each in settings("-P", parameters):
        problems += _named(each)
        known[each.key] = each.value
    swept: dict[str, list[Any]] = {}
    for each in settings("-V", sweeps):
        problems += _named(each)
        if not isinstance(each.value, list) or not each.value:
            problems.append(Problem(each.where, "a list with at least one value is wanted: [1, 2]"))
        elif any(_same(each.value[:n], value) for n, value in enumerate(each.value)):
            problems.append(Problem(each.where, "the same value stands there twice"))
        else:
            swept[each.key] = each.value
            known[each.key] = each.value[0]
    if problems:
        raise SuiteError(problems)
    return known, swept


def _same(before: list[Any], value: Any) -> bool:
    return any(each == value and type(each) is type(value) for each in before)


def _named(each: Setting) -> list[Problem]:
    if _VARIABLE.fullmatch(each.key):
        return []
    text = f"{each.key!r} is no name of a variable: letters, digits, _ and dots make one"
    return [Problem(each.where, text)]


def flat(declared: Mapping[str, Any], above: str = "") -> dict[str, Any]:
    """Maps of maps as one map with dotted names."""
    made: dict[str, Any] = {}
    for key, value in declared.items():
        if isinstance(value, Mapping):
            made.update(flat(value, f"{above}{key}."))
        else:
            made[f"{above}{key}"] = value
    return made


class Override(NamedTuple):
    """``--override PATTERN.KEYS=VALUE``."""

    setting: Setting
    pattern: str
    """A benchmark's or an entry's name, or a glob of such."""
    keys: tuple[str, ...]

    @property
    def early(self) -> bool:
        """Whether it changes which benchmarks there are, or what they inherit."""
        return self.pattern.startswith("_") or self.keys[0] in _EARLY

    def matches(self, *names: str) -> bool:
        return any(fnmatchcase(name, self.pattern) for name in names)

    @property
    def layer(self) -> Layer:
        data: Any = self.setting.value
        for key in reversed(self.keys):
            data = {key: data}
        places: dict[Path, Where] = {(): self.setting.where}
        for length in range(1, len(self.keys) + 1):
            places[self.keys[:length]] = self.setting.where
        return Layer(data, places)

    def laid(self, value: dict[str, Any]) -> dict[str, Any]:
        """``value`` with this over it."""
        return self.layer.over(Layer(value, {}), unite=False).data


def overrides(given: Sequence[str], entries: Mapping[str, Layer]) -> list[Override]:
    """Read ``--override``.

    A name with dots in it is found where an entry has it; so is a key with dots. Quotes keep dots
    together anywhere: ``'a.argv."train.lr"=1'``.

    Raises:
        SuiteError: a key that nobody knows, a value of a wrong kind, an entry that is not there.
    """
    found, problems = [], []
    for each in settings("--override", given):
        made = _override(each, entries)
        wrong = _wrong(made, entries) if made else ["BENCHMARK.KEY=VALUE is wanted"]
        problems += [Problem(each.where, text) for text in wrong]
        if made:
            found.append(made)
    if problems:
        raise SuiteError(problems)
    return found


def _override(each: Setting, entries: Mapping[str, Layer]) -> Override | None:
    pieces = [a or b or c for a, b, c in _PIECE.findall(each.key)]
    if len(pieces) < 2:
        return None
    taken = _longest(pieces, set(entries))
    dotted = {key for layer in entries.values() for key in _dotted(layer.data)}
    keys: list[str] = []
    rest = pieces[taken:]
    while rest:
        count = _longest(rest, dotted)
        keys.append(".".join(rest[:count]))
        rest = rest[count:]
    return Override(each, ".".join(pieces[:taken]), tuple(keys)) if keys else None


def _dotted(value: Any) -> Iterator[str]:
    """The keys with dots in them, at any depth."""
    for key, each in value.items() if isinstance(value, dict) else ():
        if "." in key:
            yield key
        yield from _dotted(each)


def _longest(pieces: Sequence[str], known: set[str]) -> int:
    """How many pieces, joined by dots, make a key that is known; 1 if none do."""
    for count in range(len(pieces), 1, -1):
        if ".".join(pieces[:count]) in known:
            return count
    return 1


def _wrong(made: Override, entries: Mapping[str, Layer]) -> list[str]:
    if made.pattern.startswith("_") and made.pattern not in entries:
        return [f"no entry is called {made.pattern}{meant(made.pattern, entries)}"]
    return [text for _, text in problems_of(made.layer.data)]
