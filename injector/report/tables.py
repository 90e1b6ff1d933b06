"""Sections of tables, of which pages and documents are made: what is no terminal, and cuts nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..named_tuple import NamedTuple
from .text import percent

TEXT, NUMBER, CODE, SHARE = "text", "number", "code", "share"
"""What a column holds; the cells of a share are fractions 0…1, all others are text."""


class Table(NamedTuple):
    """Rows with a cell for each head."""

    heads: tuple[str, ...]
    kinds: tuple[str, ...]
    rows: Sequence[tuple[str | float, ...]]
    depths: tuple[int, ...] = ()
    """How far the first cell of each row stands in; nothing where none does."""
    about: Mapping[str, str] = {}
    """What a column holds, by its head: the definitions of metrics."""


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
    """The columns in which any row says something."""
    return [at for at in range(len(table.heads)) if any(row[at] != "" for row in table.rows)]
