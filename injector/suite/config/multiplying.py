"""One entry, many benchmarks: a matrix, a search, and the names of what they make."""

from __future__ import annotations

import math
import random
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import Any

from ..words import counted
from .expressions import compiled, number, read_number
from .problems import Mistake
from .scope import Scope

MOST = 100_000
"""More benchmarks than this from one entry are a mistake."""

_KEY = re.compile(r"(?:--)?[A-Za-z_]\w*(?:[.-]\w+)*")
_UNFIT = re.compile(r"[^A-Za-z0-9_.+-]+")

Values = dict[str, Any]


def combinations(axes: Mapping[str, Sequence[Any]]) -> Iterator[Values]:
    """The Cartesian product: the last name changes fastest."""
    names = list(axes)
    for values in product(*axes.values()):
        yield dict(zip(names, values, strict=True))


def limited_count(sizes: Sequence[int], what: str) -> int:
    """How many combinations there are.

    Raises:
        Mistake: more than anybody means.
    """
    count = math.prod(sizes)
    if count > MOST:
        raise Mistake(f"{what} of {count} combinations: more than {MOST} are not made")
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
        raise Mistake(f"{', '.join(sorted(doubled))} stands there twice")
    limited_count([len(rows) for _, rows in columns], "a matrix")
    for rows in product(*(rows for _, rows in columns)):
        yield dict(zip(names, (value for row in rows for value in row), strict=True))


def _column(key: str, values: Any) -> tuple[list[str], list[Sequence[Any]]]:
    names = [name.strip() for name in key.split(",")]
    for name in names:
        if not _KEY.fullmatch(name):
            raise Mistake(f"{name!r} is no name: letters, digits, _ and - make one")
    listed = values if isinstance(values, list) else [values]
    if not listed:
        raise Mistake(f"{key} has no values: a list with at least one is wanted")
    if len(names) == 1:
        return names, [[value] for value in listed]
    for row in listed:
        if not isinstance(row, list) or len(row) != len(names):
            raise Mistake(f"each value of {key} is a list of {counted(len(names), 'value')}")
    return names, listed


def excluded(values: Values, conditions: Sequence[Any], scope: Scope) -> bool:
    """Whether a combination is one of those that ``exclude`` names."""
    for each in conditions:
        if isinstance(each, Mapping):
            if unknown := [key for key in each if key not in values]:
                from ..words import meant

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
    for key in space:
        if not _KEY.fullmatch(key):
            raise Mistake(f"{key!r} is no name: letters, digits, _ and - make one")
    if study.get("method", "grid") == "random":
        return _drawn(study, space, name)
    if "trials" in study:
        raise Mistake("a grid has as many trials as its space: trials belongs to method: random")
    axes = {key: _grid(key, each) for key, each in space.items()}
    limited_count([len(values) for values in axes.values()], "a grid")
    return list(combinations(axes))


def _drawn(study: Mapping[str, Any], space: Mapping[str, Any], name: str) -> list[Values]:
    if "trials" not in study:
        raise Mistake("a random search says how many trials")
    count = limited_count([int(number(study["trials"]))], "a search")
    made = []
    for trial in range(count):
        # Each trial has its own: the first ten of twenty are the ten of ten.
        chance = random.Random(f"{study.get('seed', 0)}:{name}:{trial}")
        made.append({key: _draw(key, each, chance.random()) for key, each in space.items()})
    return made


class _Range:
    """A declared range of numbers."""

    def __init__(self, key: str, said: Mapping[str, Any]) -> None:
        self.low, self.high = number(said["low"]), number(said["high"])
        step = said.get("step")
        self.step = None if step is None else number(step)
        self.log = bool(said.get("log", False))
        self.whole = isinstance(self.low, int) and isinstance(self.high, int)
        self.n = said.get("n")
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


def _grid(key: str, said: Any) -> list[Any]:
    if isinstance(said, list):
        if not said:
            raise Mistake(f"{key} has no values: a list with at least one is wanted")
        return [_plain(value) for value in said]
    found = _Range(key, said)
    if found.step is not None:
        limited_count([found.steps() + 1], "a range")
        return [found.step_at(index) for index in range(found.steps() + 1)]
    if found.n is None:
        raise Mistake(f"{key}: a grid wants n (how many values) or step of a range")
    count = limited_count([int(number(found.n))], "a range")
    return list(dict.fromkeys(found.at(index / (count - 1)) for index in range(count)))


def _draw(key: str, said: Any, share: float) -> Any:
    """A value of what is declared, by a number from 0 up to and without 1."""
    if isinstance(said, list):
        if not said:
            raise Mistake(f"{key} has no values: a list with at least one is wanted")
        return _plain(said[int(share * len(said))])
    found = _Range(key, said)
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


def suffix(values: Values, varied: Sequence[str]) -> str:
    """What names a combination, for a file name as well: the values that differ, with dashes."""
    return "".join(f"-{_short(values[name])}" for name in varied)


def _short(value: Any) -> str:
    if isinstance(value, float):
        value = f"{value:.6g}"
    if isinstance(value, (list, tuple)):
        value = "+".join(map(_short, value))
    word = str(value).lower() if isinstance(value, bool) else str(value)
    text = "" if value is None else _UNFIT.sub("_", word).strip("_")
    return text or "none"
