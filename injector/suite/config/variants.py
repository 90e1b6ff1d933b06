"""What makes many benchmarks of one entry: the rows of a matrix, the trials of a search, and their names.

All of it is a function of the suite alone. A search draws the same trials on every machine and each time, so
that two machines train the same models and a run can be resumed.
"""

from __future__ import annotations

import math
import random
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import product
from typing import Any, NamedTuple

from ...analysis.wording import count
from .expressions import compiled
from .functions import number, read_number
from .problems import Mistake, meant
from .scope import Context, Scope
from .templates import NotKnownYet

MOST = 100_000
"""The most benchmarks that one entry may make."""

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
    """How many combinations axes of these ``sizes`` have. It is computed before any is made.

    Raises Mistake if they are more than :data:`MOST`.
    """
    count = math.prod(sizes)
    if count > MOST:
        raise Mistake(f"{what} of {count} combinations: at most {MOST} are made")
    return count


def matrix(axes: Mapping[str, Any]) -> Iterator[Values]:
    """The combinations of a matrix.

    A name takes a list of values, or one value. Names with commas between them (``model, batch``) take lists
    of as many values, which belong together. Raises Mistake if there are no values, or a name is none.
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
    """The names under one key of a matrix, and the values that they take together, row by row."""
    names = [name.strip() for name in key.split(",")]
    _check_names(names)
    listed = _not_empty(key, values if isinstance(values, list) else [values])
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


def _not_empty(key: str, values: list[Any]) -> list[Any]:
    if not values:
        raise Mistake(f"{key} has no values: a list needs at least one")
    return values


def excluded(values: Values, conditions: Sequence[Any], scope: Scope) -> bool:
    """Whether a combination is one of those that the ``conditions`` of ``exclude`` name.

    A condition is a map of values, or an expression, which is evaluated in ``scope``. Raises Mistake, and
    NotKnownYet if it needs what is not known when a suite is read.
    """
    for condition in conditions:
        if isinstance(condition, Mapping):
            if unknown := [key for key in condition if key not in values]:
                raise Mistake(f"the matrix has no {unknown[0]}{meant(str(unknown[0]), values)}")
            if all(values[key] == value for key, value in condition.items()):
                return True
        elif compiled(str(condition)).value(scope):
            return True
    return False


def trials(study: Mapping[str, Any], name: str) -> list[Values]:
    """The values of each trial of a study, which depend on the study and its ``name`` alone.

    Raises Mistake if a range is empty or has no values, or a random search no number of trials.
    """
    space: Mapping[str, Any] = study.get("space") or {}
    if not space:
        raise Mistake("space is empty: it has names with lists or ranges of values")
    _check_names(space)
    if study.get("method", "grid") == "random":
        return _random_trials(study, space, name)
    if "trials" in study:
        raise Mistake("a grid has as many trials as its space: trials belongs to method: random")
    axes = {key: _grid(key, declared) for key, declared in space.items()}
    limited_count([len(values) for values in axes.values()], "a grid")
    return list(combinations(axes))


def _random_trials(study: Mapping[str, Any], space: Mapping[str, Any], name: str) -> list[Values]:
    if "trials" not in study:
        raise Mistake("a random search has a number of trials: trials is missing")
    count = limited_count([int(number(study["trials"]))], "a search")
    drawn = []
    for trial in range(count):
        # Each trial has a generator of its own, so that the first ten of twenty trials are the ten of ten.
        chance = random.Random(f"{study.get('seed', 0)}:{name}:{trial}")
        drawn.append(
            {key: _draw(key, declared, chance.random()) for key, declared in space.items()}
        )
    return drawn


class _Range:
    """A range of numbers from ``low`` to ``high``, both included. Raises Mistake if it makes no sense."""

    def __init__(self, key: str, declared: Mapping[str, Any]) -> None:
        self.low, self.high = number(declared["low"]), number(declared["high"])
        step = declared.get("step")
        self.step = None if step is None else number(step)
        self.log = bool(declared.get("log", False))
        self.whole = isinstance(self.low, int) and isinstance(self.high, int)
        """Whether all values are whole numbers, as both ends are."""
        self.n = declared.get("n")
        """How many values a grid takes."""
        if self.high <= self.low:
            raise Mistake(f"{key}: high ({self.high}) is not more than low ({self.low})")
        if self.log and self.low <= 0:
            raise Mistake(f"{key}: a logarithmic range begins above 0, not at {self.low}")
        if self.log and self.step is not None:
            raise Mistake(f"{key}: a logarithmic range has no step; n says how many values")
        if self.step is not None:
            self.whole = self.whole and isinstance(self.step, int)

    def at(self, share: float) -> int | float:
        """The value at a ``share``, from 0 to 1, of the way from low to high."""
        if self.log:
            value: float = self.low * (self.high / self.low) ** share
        else:
            value = self.low + (self.high - self.low) * share
        # Rounding may lead past either end by a hair.
        value = min(max(value, self.low), self.high)
        return round(value) if self.whole else value

    def steps(self) -> int:
        """How many steps fit into a range that has a step."""
        assert self.step is not None
        # From 0 to 0.3 in steps of 0.1 are 2.9999999999999996 steps.
        return math.floor((self.high - self.low) / self.step + 1e-9)

    def step_at(self, index: int) -> int | float:
        """The value after ``index`` steps, rounded so that names show 0.3 and not 0.30000000000000004."""
        assert self.step is not None
        value = self.low + index * self.step
        return value if self.whole else round(value, 12)


def _grid(key: str, declared: Any) -> list[Any]:
    """The values that a grid takes of a list or a range."""
    if isinstance(declared, list):
        return [_plain(value) for value in _not_empty(key, declared)]
    span = _Range(key, declared)
    if span.step is not None:
        limited_count([span.steps() + 1], "a range")
        return [span.step_at(index) for index in range(span.steps() + 1)]
    if span.n is None:
        raise Mistake(f"{key}: a range of a grid has n (the number of values) or step")
    count = limited_count([int(number(span.n))], "a range")
    # More values than there are whole numbers are rounded to the same ones.
    return list(dict.fromkeys(span.at(index / (count - 1)) for index in range(count)))


def _draw(key: str, declared: Any, share: float) -> Any:
    """The value of a list or a range for ``share``, a number from 0 up to but without 1."""
    if isinstance(declared, list):
        return _plain(_not_empty(key, declared)[int(share * len(declared))])
    span = _Range(key, declared)
    if span.step is not None:
        return span.step_at(int(share * (span.steps() + 1)))
    if span.whole and not span.log:
        # Rounding would make both ends half as likely as the numbers between them.
        return int(span.low) + int(share * (int(span.high) - int(span.low) + 1))
    return span.at(share)


def _plain(value: Any) -> Any:
    """``value`` as a number if it is one that YAML 1.1 takes for text, such as 1e-4."""
    if isinstance(value, str) and "e" in value.lower() and read_number(value) is not None:
        return read_number(value)
    return value


class Naming(NamedTuple):
    """Names the benchmarks of an entry: by its pattern, or by the values in which they differ.

    To a pattern that uses no value of a swept variable or of a search, these are added: they come from the
    command line, or there are too many to name them, and without them names would be equal.
    """

    family: str
    pattern: str | None
    varied: Sequence[str]
    """The names of the values in which the family's benchmarks differ."""
    mentioned: set[str]
    """The names of values and variables that the pattern uses."""

    def plain(self, values: Values) -> str:
        """The name by values that differ, whatever the pattern."""
        return self.family + _suffix(values, [name for name in self.varied if name in values])

    def name(
        self, values: Values, swept: Values, variables: Mapping[str, Any], trial: str = ""
    ) -> str:
        """The name of a benchmark with these values; ``trial`` is its number in a search, as text.

        Raises Mistake if the pattern has no value, or one that is no name.
        """
        if self.pattern is None:
            name = self.plain({**swept, **values})
        else:
            name = self._by_pattern(values, variables)
            missing = [one for one in self.varied if one in swept and one not in self.mentioned]
            name += _suffix(swept, missing)
        if trial and not self.mentioned & {*values, "trial"}:
            name += f"-trial{trial}"
        if not NAME.fullmatch(name):
            raise Mistake(no_name(name))
        return name

    def _by_pattern(self, values: Values, variables: Mapping[str, Any]) -> str:
        scope = Scope({"matrix": values}, variables, Context({"name": self.family}), False)
        try:
            return str(scope.at(("name",), str(self.pattern)))
        except NotKnownYet as missing:
            raise Mistake(f"name: {{{missing.name}}} is not known when names are given") from None
        except Mistake as error:
            raise Mistake(f"name: {error}") from None


def no_name(name: str) -> str:
    """What is wrong with ``name``, which does not match :data:`NAME`."""
    return f"{name!r} is no name: letters, digits and _ - + . make one, up to 150 of them"


def _suffix(values: Values, varied: Sequence[str]) -> str:
    """The values of the ``varied`` names, each after a dash: ``-32-adam``."""
    return "".join(f"-{_short(values[name])}" for name in varied)


def _short(value: Any) -> str:
    """A value as a part of a name, which is a folder's as well; it is never empty.

    A value of which no letter is fit for that is written by the numbers of its letters: ``u2026``.
    """
    if isinstance(value, float):
        value = f"{value:.6g}"
    if isinstance(value, (list, tuple)):
        value = "+".join(map(_short, value))
    word = str(value).lower() if isinstance(value, bool) else str(value)
    text = "" if value is None else _UNFIT.sub("_", word.replace(":", "+")).strip("_")
    return text or "".join(f"u{ord(letter):x}" for letter in word.strip() if value) or "none"
