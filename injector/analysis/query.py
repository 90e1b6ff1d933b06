"""SQL over a run: DuckDB over views that are made only when a query names them.

A query can read the views and nothing else. DuckDB by itself also reads files and the network, and writes, so
a query is checked to be one reading statement, and access to anything outside is switched off before it runs.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from typing import Any, NamedTuple

import numpy as np

from ..errors import UserError

Columns = dict[str, Any]
"""A table by the names of its columns: NumPy arrays, lists or :class:`Words`, all of the same length. NaN in
an array of floats is null."""
View = Callable[[], Columns]


class Words(NamedTuple):
    """A column with few different texts: each code is an index of ``words``, or -1 for null."""

    codes: Any
    words: list[str]

    @staticmethod
    def joined(columns: Sequence[Words]) -> Words:
        """One column with the values of ``columns``, one after the other."""
        words = list(dict.fromkeys(word for column in columns for word in column.words))
        codes = []
        for column in columns:
            # At the end, -1: that is what the code -1 picks, so that null stays null.
            new_codes = np.array([*(words.index(word) for word in column.words), -1], np.int32)
            codes.append(new_codes[column.codes])
        return Words(np.concatenate(codes), words)


def joined(parts: Sequence[Columns]) -> Columns:
    """The rows of several tables with the same columns, one after the other."""
    # Columns of an empty table have no type yet; one is kept for the names, should all be empty.
    parts = [part for part in parts if length(part)] or parts[:1]
    table: Columns = {}
    for name in parts[0] if parts else ():
        columns = [part[name] for part in parts]
        if all(isinstance(column, Words) for column in columns):
            table[name] = Words.joined(columns)
        elif all(isinstance(column, np.ndarray) for column in columns):
            table[name] = np.concatenate(columns)
        else:
            table[name] = [value for column in columns for value in _as_list(column)]
    return table


def _as_list(column: Any) -> list[Any]:
    """The values of a column of any type, with None for null."""
    if isinstance(column, Words):
        return [column.words[code] if code >= 0 else None for code in column.codes]
    if isinstance(column, np.ndarray):
        return [None if value != value else value for value in column.tolist()]
    return list(column)


def length(columns: Columns) -> int:
    """The number of rows of a table."""
    first: Any = next(iter(columns.values()), [])
    return len(first.codes if isinstance(first, Words) else first)


def run_query(sql: str, views: Mapping[str, View]) -> dict[str, list[Any]]:
    """Run ``sql``, which can read ``views`` and nothing else, and return its result by column.

    Raises UserError for SQL that DuckDB refuses, with DuckDB's words, and if DuckDB is not installed.
    """
    try:
        import duckdb
    except ImportError:
        raise UserError("queries need DuckDB: pip install 'overlay-injector[query]'") from None
    try:
        sql.encode()
    except UnicodeError:
        raise UserError("the query is not valid UTF-8") from None
    connection = duckdb.connect(":memory:", config={"threads": "2"})
    try:
        # Before any view is made: a mistake should not cost reading millions of spans.
        _check_reads(connection.extract_statements(_quoted(sql)))
        for name in named(sql, views):
            _register(connection, name, views[name]())
        # Once it is off, DuckDB does not let the query switch it on again.
        connection.execute("SET enable_external_access = false")
        connection.execute(_quoted(sql))
        rows = connection.fetchall()
        names = [column[0] for column in connection.description or ()]
    except duckdb.Error as error:
        raise UserError(_explained(str(error).strip(), views)) from None
    finally:
        connection.close()
    return {name: [row[at] for row in rows] for at, name in enumerate(_unique(names))}


_READS = ("SELECT", "EXPLAIN", "MULTI", "PRAGMA", "CALL")
"""DuckDB's kinds of statements that only read; MULTI is what PIVOT becomes."""


def _check_reads(statements: Sequence[Any]) -> None:
    """Raise UserError unless there is exactly one statement, and it only reads."""
    if not statements:
        raise UserError('the query is empty: try "select * from steps"')
    if len(statements) > 1:
        raise UserError(
            f"the query has {len(statements)} statements, but only one can be run at a time"
        )
    kind = str(statements[0].type).rpartition(".")[2]
    if kind not in _READS:
        raise UserError(
            f"a query only reads a run (select, describe, …); this one is a {kind} statement"
        )


def named(sql: str, views: Mapping[str, View]) -> list[str]:
    """The views that ``sql`` may read: those whose names occur in it anywhere, as a word."""
    words = {word.lower() for word in re.findall(r"\w+", sql)}
    return [name for name in views if name in words]


def _quoted(sql: str) -> str:
    """``sql`` with ``from values`` as ``from "values"``.

    The view has the name of a keyword of SQL, and users need not know that. ``values (1), (2)`` stays.
    """
    return re.sub(r"(?i)\b(from|join|,)(\s+)values\b(?!\s*\()", r'\1\2"values"', sql)


def _register(connection: Any, name: str, columns: Columns) -> None:
    import pyarrow

    table = pyarrow.table({key: _arrow(pyarrow, value) for key, value in columns.items()})
    connection.register(f"{name}_columns", table)
    connection.execute(f"CREATE VIEW {name} AS SELECT * FROM {name}_columns")


def _arrow(pyarrow: Any, values: Any) -> Any:
    """A column as an Arrow array, with nulls."""
    if isinstance(values, Words):
        codes = pyarrow.array(values.codes, mask=values.codes < 0)
        return pyarrow.DictionaryArray.from_arrays(
            codes, pyarrow.array(values.words, pyarrow.string())
        )
    return pyarrow.array(values, from_pandas=isinstance(values, np.ndarray))


def _unique(names: list[str]) -> list[str]:
    """``a, a`` as ``a, a_1``: columns of a result may have the same name, keys of a dict may not."""
    unique: list[str] = []
    for name in names:
        new, number = name, 0
        while new in unique:
            number += 1
            new = f"{name}_{number}"
        unique.append(new)
    return unique


def _explained(text: str, views: Mapping[str, View]) -> str:
    """DuckDB's error in our words if a table is missing, and in its own otherwise."""
    missing = re.match(r"Catalog Error: Table with name (.+) does not exist!", text)
    if missing is None:
        return f"the query cannot be run: {text}"
    near = get_close_matches(missing[1].lower(), views, 1, 0.5)
    hint = f"did you mean {near[0]}? There" if near else "there"
    line = text.partition("\n\n")[2]  # the query, with a mark below the name
    return f"there is no table {missing[1]}; {hint} are: {', '.join(views)}\n{line}".rstrip()
