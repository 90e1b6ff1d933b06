"""How the benchmarks are called that one entry makes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .expressions import Reference
from .including import NAME, no_name
from .multiplying import Values, suffix
from .placeholders import Context
from .problems import Mistake
from .scope import Scope
from .templates import NotKnownYet, template


class Naming:
    """Names by a pattern, or by the values that differ.

    A pattern that says nothing of a swept variable, or of a search, gets that added.
    """

    def __init__(
        self, family: str, pattern: str | None, varied: Sequence[str], mentioned: set[str]
    ) -> None:
        self.family = family
        self.pattern = pattern
        self.varied = varied
        """The values that differ between the family's benchmarks."""
        self.mentioned = mentioned
        """What the pattern tells apart: the values and variables that it uses."""

    def plain(self, values: Values) -> str:
        """A name by the values that differ, whatever the pattern."""
        return self.family + suffix(values, [each for each in self.varied if each in values])

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
            scope = Scope({"matrix": values}, variables, Context({"name": self.family}), False)
            try:
                name = str(scope.at(("name",), str(self.pattern)))
            except NotKnownYet as missing:
                raise Mistake(
                    f"name: {{{missing.name}}} is not known when names are given"
                ) from None
            except Mistake as error:
                raise Mistake(f"name: {error}") from None
            untold = [each for each in self.varied if each in swept and each not in self.mentioned]
            name += suffix(swept, untold)
        if trial and not self.mentioned & {*values, "trial"}:
            name += f"-trial{trial}"
        if not NAME.fullmatch(name):
            raise Mistake(no_name(name))
        return name


def references_of(pattern: str | None) -> list[Reference]:
    """The names in a pattern."""
    try:
        return [] if pattern is None else list(template(pattern).references)
    except Mistake:  # said where the file was checked
        return []
