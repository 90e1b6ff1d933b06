"""One entry, many benchmarks: a matrix, a search, and the names of what they make."""

from __future__ import annotations

import math
import random
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import product
from typing import Any

from ...analysis.wording import count
from .expressions import compiled, number, read_number
from .problems import Mistake, meant
from .scope import Context, Scope
from .templates import NotKnownYet

MOST = 100_000
"""More benchmarks than this from one entry are a mistake."""

_KEY = re.compile(r"(?:--)?[A-Za-z_]\w*(?:[.-]\w+)*")
_UNFIT = re.compile(r"[^A-Za-z0-9_.+-]+")

NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]{0,149}")
"""What may be a benchmark's name: it is that of a folder as well."""

Values = dict[str, Any]


def combinations(axes: Mapping[str, Sequence[Any]]) -> Iterator[Values]:
    """The Cartesian product: the last name changes fastest."""
    names = list(axes)
    for values in product(*axes.values()):
        yield dict(zip(names, values, strict=True))


def limited_count(sizes: Sequence[int], what: str) -> int:
    """How many combinations there are.

    Raises:
        Mistake: more than MOST.
    """
    count = math.prod(sizes)
    if count > MOST:
        raise Mistake(f"{what} of {count} combinations: at most {MOST} are made")
    return count


def matrix(axes: Mapping[str, Any]) -> Iterator[Values]:
    """The combinations of a matrix.

    A name takes a list of values, or one. Names with commas between take lists of that many values
    each, which belong together.

    Raises:
        Mistake: no values, or names that are none.
    """
    if not axes:
        raise Mistake("is empty: a matrix has names with lists of values, size: [1, 2]")
    columns = [_column(str(key), values) for key, values in axes.items()]
    names = [name for column in columns for name in column[0]]
    if doubled := {name for name in names if names.count(name) > 1}:
        raise Mistake(f"{', '.join(sorted(doubled))} is there twice")
    limited_count([len(rows) for _, rows in columns], "a matrix")
    for rows in product(*(rows for _, rows in columns)):
        yield dict(zip(names, (value for row in rows for value in row), strict=True))


def _column(key: str, values: Any) -> tuple[list[str], list[Sequence[Any]]]:
    names = [name.strip() for name in key.split(",")]
    _check_names(names)
    listed = _some(key, values if isinstance(values, list) else [values])
    if len(names) == 1:
        return names, [[value] for value in listed]
    for row in listed:
        if not isinstance(row, list) or len(row) != len(names):
            raise Mistake(f"each value of {key} is a list of {count(len(names), 'value')}")
    return names, listed


def _check_names(names: Iterable[str]) -> None:
    for name in names:
        if not _KEY.fullmatch(name):
            raise Mistake(f"{name!r} is no name: letters, digits, _ and - make one")


def _some(key: str, values: list[Any]) -> list[Any]:
    if not values:
        raise Mistake(f"{key} has no values: a list needs at least one")
    return values


def excluded(values: Values, conditions: Sequence[Any], scope: Scope) -> bool:
    """Whether a combination is one of those that ``exclude`` names."""
    for each in conditions:
        if isinstance(each, Mapping):
            if unknown := [key for key in each if key not in values]:
                raise Mistake(f"the matrix has no {unknown[0]}{meant(str(unknown[0]), values)}")
            if all(values[key] == value for key, value in each.items()):
                return True
        elif compiled(str(each)).value(scope):
            return True
    return False


def trials(study: Mapping[str, Any], name: str) -> list[Values]:
    """The values of each trial of a study; the same for the same study and name.

    Raises:
        Mistake: a range without width or values, or no number of trials.
    """
    space: Mapping[str, Any] = study.get("space") or {}
    if not space:
        raise Mistake("space is empty: it has names with lists or ranges of values")
    _check_names(space)
    if study.get("method", "grid") == "random":
        return _drawn(study, space, name)
    if "trials" in study:
        raise Mistake("a grid has as many trials as its space: trials belongs to method: random")
    axes = {key: _grid(key, each) for key, each in space.items()}
    limited_count([len(values) for values in axes.values()], "a grid")
    return list(combinations(axes))


def _drawn(study: Mapping[str, Any], space: Mapping[str, Any], name: str) -> list[Values]:
    if "trials" not in study:
        raise Mistake("a random search has a number of trials: trials is missing")
    count = limited_count([int(number(study["trials"]))], "a search")
    made = []
    for trial in range(count):
        # Each trial has its own: the first ten of twenty are the ten of ten.
        chance = random.Random(f"{study.get('seed', 0)}:{name}:{trial}")
        made.append({key: _draw(key, each, chance.random()) for key, each in space.items()})
    return made


class _Range:
    """A range of numbers."""

    def __init__(self, key: str, declared: Mapping[str, Any]) -> None:
        self.low, self.high = number(declared["low"]), number(declared["high"])
        step = declared.get("step")
        self.step = None if step is None else number(step)
        self.log = bool(declared.get("log", False))
        self.whole = isinstance(self.low, int) and isinstance(self.high, int)
        self.n = declared.get("n")
        if self.high <= self.low:
            raise Mistake(f"{key}: high ({self.high}) is not more than low ({self.low})")
        if self.log and self.low <= 0:
            raise Mistake(f"{key}: a logarithmic range begins above 0, not at {self.low}")
        if self.log and self.step is not None:
            raise Mistake(f"{key}: a logarithmic range has no step; n says how many values")
        if self.step is not None:
            self.whole = self.whole and isinstance(self.step, int)

    def at(self, share: float) -> int | float:
        """The value at ``share`` of the way from low to high."""
        if self.log:
            value: float = self.low * (self.high / self.low) ** share
        else:
            value = self.low + (self.high - self.low) * share
        value = min(max(value, self.low), self.high)
        return round(value) if self.whole else value

    def steps(self) -> int:
        """How many steps fit, where there is a step."""
        assert self.step is not None
        return math.floor((self.high - self.low) / self.step + 1e-9)

    def step_at(self, index: int) -> int | float:
        assert self.step is not None
        value = self.low + index * self.step
        return value if self.whole else round(value, 12)


def _grid(key: str, declared: Any) -> list[Any]:
    if isinstance(declared, list):
        return [_plain(value) for value in _some(key, declared)]
    found = _Range(key, declared)
    if found.step is not None:
        limited_count([found.steps() + 1], "a range")
        return [found.step_at(index) for index in range(found.steps() + 1)]
    if found.n is None:
        raise Mistake(f"{key}: a range of a grid has n (the number of values) or step")
    count = limited_count([int(number(found.n))], "a range")
    return list(dict.fromkeys(found.at(index / (count - 1)) for index in range(count)))


def _draw(key: str, declared: Any, share: float) -> Any:
    """A value of what is given, by a number from 0 up to and without 1."""
    if isinstance(declared, list):
        return _plain(_some(key, declared)[int(share * len(declared))])
    found = _Range(key, declared)
    if found.step is not None:
        return found.step_at(int(share * (found.steps() + 1)))
    if found.whole and not found.log:
        return int(found.low) + int(share * (int(found.high) - int(found.low) + 1))
    return found.at(share)


def _plain(value: Any) -> Any:
    """A number where YAML 1.1 takes one for text: 1e-4."""
    if isinstance(value, str) and "e" in value.lower() and read_number(value) is not None:
        return read_number(value)
    return value


class Naming:
    """Names by a pattern, or by the values that differ.

    A pattern that does not use a swept variable, or a search's values, gets them added.
    """

    def __init__(
        self, family: str, pattern: str | None, varied: Sequence[str], mentioned: set[str]
    ) -> None:
        self.family = family
        self.pattern = pattern
        self.varied = varied
        """The values that differ between the family's benchmarks."""
        self.mentioned = mentioned
        """The values and variables that the pattern uses."""

    def plain(self, values: Values) -> str:
        """A name by the values that differ, whatever the pattern."""
        return self.family + _suffix(values, [each for each in self.varied if each in values])

    def name(
        self, values: Values, swept: Values, variables: Mapping[str, Any], trial: str = ""
    ) -> str:
        """The name of a benchmark with these values; ``trial``: its number in a search, as text.

        Raises:
            Mistake: the pattern has no value, or one that is no name.
        """
        if self.pattern is None:
            name = self.plain({**swept, **values})
        else:
            name = self.by_pattern(values, variables)
            added = [each for each in self.varied if each in swept and each not in self.mentioned]
            name += _suffix(swept, added)
        if trial and not self.mentioned & {*values, "trial"}:
            name += f"-trial{trial}"
        if not NAME.fullmatch(name):
            raise Mistake(no_name(name))
        return name

    def by_pattern(self, values: Values, variables: Mapping[str, Any]) -> str:
        scope = Scope({"matrix": values}, variables, Context({"name": self.family}), False)
        try:
            return str(scope.at(("name",), str(self.pattern)))
        except NotKnownYet as missing:
            raise Mistake(f"name: {{{missing.name}}} is not known when names are given") from None
        except Mistake as error:
            raise Mistake(f"name: {error}") from None


def no_name(name: str) -> str:
    """What is wrong with a name that is none."""
    return f"{name!r} is no name: letters, digits and _ - + . make one, up to 150 of them"


def _suffix(values: Values, varied: Sequence[str]) -> str:
    """What names a combination, for a file name as well: the values that differ, with dashes."""
    return "".join(f"-{_short(values[name])}" for name in varied)


def _short(value: Any) -> str:
    if isinstance(value, float):
        value = f"{value:.6g}"
    if isinstance(value, (list, tuple)):
        value = "+".join(map(_short, value))
    word = str(value).lower() if isinstance(value, bool) else str(value)
    text = "" if value is None else _UNFIT.sub("_", word.replace(":", "+")).strip("_")
    return text or "".join(f"u{ord(letter):x}" for letter in word.strip() if value) or "none"
