"""SQL over a run: DuckDB over views that are made only when a query names them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from typing import Any, NamedTuple

import numpy as np

from ..errors import UserError

Columns = dict[str, Any]
"""Name → numpy array, list or :class:`Words`; all equally long. NaN in an array of floats is null."""
View = Callable[[], Columns]


class Words(NamedTuple):
    """A column of few different texts: ``codes`` number ``words``, and -1 is null."""

    codes: Any
    words: list[str]

    @staticmethod
    def joined(columns: Sequence[Words]) -> Words:
        """One after the other."""
        words = list(dict.fromkeys(word for column in columns for word in column.words))
        codes = []
        for column in columns:
            new = np.array([*(words.index(word) for word in column.words), -1], np.int32)
            codes.append(new[column.codes])  # -1 is the last, and stays -1
        return Words(np.concatenate(codes), words)


def joined(parts: Sequence[Columns]) -> Columns:
    """The rows of several tables of the same columns, one after the other."""
    found: Columns = {}
    parts = [part for part in parts if length(part)] or parts[
        :1
    ]  # without rows no column has a type
    for name in parts[0] if parts else ():
        columns = [part[name] for part in parts]
        if all(isinstance(column, Words) for column in columns):
            found[name] = Words.joined(columns)
        elif all(isinstance(column, np.ndarray) for column in columns):
            found[name] = np.concatenate(columns)
        else:
            found[name] = [value for column in columns for value in _values(column)]
    return found


def _values(column: Any) -> list[Any]:
    if isinstance(column, Words):
        return [column.words[code] if code >= 0 else None for code in column.codes]
    if isinstance(column, np.ndarray):
        return [None if value != value else value for value in column.tolist()]
    return list(column)


def length(columns: Columns) -> int:
    """How many rows there are."""
    first: Any = next(iter(columns.values()), [])
    return len(first.codes if isinstance(first, Words) else first)


def run_query(sql: str, views: Mapping[str, View]) -> dict[str, list[Any]]:
    """The result of ``sql``, by column. Nothing but ``views`` can be read: no file, no network.

    Raises UserError for SQL that DuckDB refuses, with its own words, and when DuckDB is missing.
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
        _check(connection.extract_statements(_quoted(sql)))
        for name in named(sql, views):
            _add(connection, name, views[name]())
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
"""Kinds of statements, as DuckDB has them, that only read; MULTI is what PIVOT becomes."""


def _check(statements: Sequence[Any]) -> None:
    """Raise UserError unless there is one statement, and it reads."""
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
    """The views whose names occur in ``sql``."""
    words = {word.lower() for word in re.findall(r"\w+", sql)}
    return [name for name in views if name in words]


def _quoted(sql: str) -> str:
    """``from values`` as ``from "values"``: the view's name is a keyword, if not before a bracket."""
    return re.sub(r"(?i)\b(from|join|,)(\s+)values\b(?!\s*\()", r'\1\2"values"', sql)


def _add(connection: Any, name: str, columns: Columns) -> None:
    import pyarrow

    table = pyarrow.table({key: _arrow(pyarrow, value) for key, value in columns.items()})
    connection.register(f"{name}_columns", table)
    connection.execute(f"CREATE VIEW {name} AS SELECT * FROM {name}_columns")


def _arrow(pyarrow: Any, values: Any) -> Any:
    if isinstance(values, Words):
        codes = pyarrow.array(values.codes, mask=values.codes < 0)
        return pyarrow.DictionaryArray.from_arrays(
            codes, pyarrow.array(values.words, pyarrow.string())
        )
    return pyarrow.array(values, from_pandas=isinstance(values, np.ndarray))


def _unique(names: list[str]) -> list[str]:
    """``a, a`` as ``a, a_1``: two columns of a result may have the same name."""
    found: list[str] = []
    for name in names:
        new, number = name, 0
        while new in found:
            number += 1
            new = f"{name}_{number}"
        found.append(new)
    return found


def _explained(text: str, views: Mapping[str, View]) -> str:
    missing = re.match(r"Catalog Error: Table with name (.+) does not exist!", text)
    if missing is None:
        return f"the query cannot be run: {text}"
    near = get_close_matches(missing[1].lower(), views, 1, 0.5)
    hint = f"did you mean {near[0]}? There" if near else "there"
    line = text.partition("\n\n")[2]
    return f"there is no table {missing[1]}; {hint} are: {', '.join(views)}\n{line}".rstrip()
