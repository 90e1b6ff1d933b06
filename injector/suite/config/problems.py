"""Mistakes, collected: a suite tells all of them at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager

from .expressions import ExpressionError
from .model import Problem, SuiteError, Where
from .scope import Path


class Problems:
    """Each mistake once, in the order in which they were met."""

    def __init__(self) -> None:
        self.found: dict[Problem, None] = {}

    def add(self, where: Where | None, text: str) -> None:
        self.found.setdefault(Problem(where, text))

    def take(self, error: SuiteError) -> None:
        for problem in error.problems:
            self.found.setdefault(problem)

    @contextmanager
    def taken(self, where: Callable[[], Where | None] = lambda: None) -> Iterator[None]:
        """Notes what goes wrong inside and goes on after it."""
        try:
            yield
        except SuiteError as error:
            self.take(error)
        except ExpressionError as error:
            self.add(where(), str(error))

    def findings(
        self, found: Iterable[tuple[Path, str]], places: Mapping[Path, Where], start: Path
    ) -> None:
        """Notes findings below ``start``."""
        for path, text in found:
            self.add(located(places, (*start, *path)), text)

    def check(self) -> None:
        """Raises SuiteError if there was any mistake; files in order, lines in order."""
        if self.found:
            files = dict.fromkeys(each.where.file for each in self.found if each.where)
            order = {file: number for number, file in enumerate(files)}

            def place(problem: Problem) -> tuple[int, int]:
                at = problem.where
                return (order[at.file], at.line) if at else (-1, 0)

            raise SuiteError(sorted(self.found, key=place))


def located(places: Mapping[Path, Where], path: Path) -> Where | None:
    """Where ``path`` was written, else where the nearest thing above it was."""
    for length in range(len(path), -1, -1):
        if at := places.get(path[:length]):
            rest = path[length:]
            return at._replace(key=".".join(map(str, (at.key, *rest)))) if rest else at
    return None
