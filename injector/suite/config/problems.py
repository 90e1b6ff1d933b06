"""Mistakes in what a user wrote: where each is, what it is, and what was likely meant.

A function that finds a mistake raises :class:`Mistake`, without knowing the file. A caller that knows the
place adds it to a :class:`ProblemList`, and goes on. At the end :meth:`ProblemList.check` raises all of them
as one :class:`SuiteError`, so that a user corrects a suite once, and not once for each mistake.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from difflib import get_close_matches
from typing import NamedTuple

from ...analysis.wording import leading
from ...errors import UserError

Path = tuple[str | int, ...]
"""The keys that lead to a value."""
Note = Callable[[Path, str], None]
"""A function that is called with the place of a mistake, and what it is."""

MANY = 12
"""The most known words that a message lists."""


class Mistake(ValueError):
    """A mistake whose place the caller knows. The text says what is wrong, and what would be right."""


class Where(NamedTuple):
    """A place in a YAML file."""

    file: str
    line: int
    """From 1; 0 for what is in no file: ``--override a.b``."""
    key: str = ""
    """The keys that lead there, joined by dots: ``resnet50.argv.--lr``."""

    def __str__(self) -> str:
        at = f"{self.file}:{self.line}" if self.line else self.file
        return f"{at}: {self.key}" if self.key else at


class Problem(NamedTuple):
    """One mistake with its place; None if it has none."""

    where: Where | None
    text: str

    def __str__(self) -> str:
        return f"{self.where}: {self.text}" if self.where else self.text


class SuiteError(UserError):
    """All that is wrong with a suite, at once."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(map(str, self.problems)))


class ProblemList:
    """Collects mistakes: each once, in the order in which they are found.

    A mistake in an entry that many benchmarks inherit is found as often as there are benchmarks.
    """

    def __init__(self, problems: Iterable[Problem] = ()) -> None:
        self.found = dict.fromkeys(problems)

    def add(self, where: Where | None, text: str) -> None:
        self.found.setdefault(Problem(where, text))

    def extend(self, problems: Iterable[Problem]) -> None:
        self.found.update(dict.fromkeys(problems))

    def add_below(
        self, places: Mapping[Path, Where], start: Path, found: Iterable[tuple[Path, str]]
    ) -> None:
        """Add what was ``found`` to be wrong, at paths below ``start``."""
        for path, text in found:
            self.add(nearest_place(places, (*start, *path)), text)

    @contextmanager
    def collecting(self, where: Where | None = None) -> Iterator[None]:
        """A context that adds a mistake which is raised inside, and ends there; ``where`` is its place."""
        try:
            yield
        except SuiteError as error:
            self.extend(error.problems)
        except Mistake as error:
            self.add(where, str(error))

    def check(self) -> None:
        """Raise SuiteError if there is any mistake, ordered by file as they were met, and by line."""
        if self.found:
            files = dict.fromkeys(problem.where.file for problem in self.found if problem.where)
            order = {file: number for number, file in enumerate(files)}

            def place(problem: Problem) -> tuple[int, int]:
                at = problem.where
                return (order[at.file], at.line) if at else (-1, 0)

            raise SuiteError(sorted(self.found, key=place))


def nearest_place(places: Mapping[Path, Where], path: Path) -> Where | None:
    """Where ``path`` was written, else where the nearest key above it was; None if neither is known.

    What has no place of its own is implied, or was written in a list; the text names it nonetheless.
    """
    for length in range(len(path), -1, -1):
        if at := places.get(path[:length]):
            rest = path[length:]
            return at._replace(key=".".join(map(str, (at.key, *rest)))) if rest else at
    return None


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The known word that ``word`` was most likely meant to be; None if there is none like it.

    It is the one with the most letters in common, else the first that contains ``word``.
    """
    words = [other for other in known if isinstance(other, str)]
    # Reversed, so that of two words that differ only in case the first one is kept.
    lower = {other.lower(): other for other in reversed(words)}
    if near := get_close_matches(word.lower(), lower, 1):
        return lower[near[0]]
    return next((other for other in words if word and word.lower() in other.lower()), None)


def meant(word: str, known: Iterable[str]) -> str:
    """What to add to a message about an unknown ``word``: ``; did you mean X?``, else the known words.

    It is empty if there are no known words.
    """
    words = list(dict.fromkeys(known))
    near = nearest(word, words)
    if near is not None:
        return f"; did you mean {near}?"
    if not words:
        return ""
    return f" (there {'is' if len(words) == 1 else 'are'} {leading(words, MANY)})"


def kind(value: object) -> str:
    """A YAML value in words of YAML, for messages: ``the number 3``, ``a list``."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return f"the number {value}"
    if isinstance(value, str):
        shown = value if len(value) <= 40 else value[:37] + "…"
        return f"the text {shown!r}"
    if isinstance(value, list):
        return "a list"
    if isinstance(value, dict):
        return "a map"
    return f"a {type(value).__name__}"
