"""Sections of tables, for pages and documents. Unlike on a terminal, nothing is cut in them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..named_tuple import NamedTuple
from .text import percent

TEXT, NUMBER, CODE, SHARE = "text", "number", "code", "share"
"""The kinds of columns. The cells of a share are fractions 0…1, those of all others are text."""


class Table(NamedTuple):
    """A table: heads, the kind of each column, and rows with a cell for each."""

    heads: Sequence[str]
    kinds: Sequence[str]
    rows: Sequence[Sequence[str | float]]
    depths: tuple[int, ...] = ()
    """By how many levels each row's first cell is indented; empty if none is. Rows then keep their order."""
    about: Mapping[str, str] = {}
    """By head the definition of the metric in a column."""


class Section(NamedTuple):
    """Sentences and tables under a title."""

    key: str
    title: str
    texts: tuple[str, ...] = ()
    tables: tuple[Table, ...] = ()


def plain_cell(kind: str, cell: str | float) -> str:
    """A cell as text."""
    return percent(cell) if kind == SHARE and isinstance(cell, float) else str(cell)


def shown_columns(table: Table) -> list[int]:
    """The indices of the columns that have content in any row."""
    return [at for at in range(len(table.heads)) if any(row[at] != "" for row in table.rows)]
