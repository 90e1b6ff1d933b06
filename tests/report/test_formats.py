"""Tables in their forms."""

from __future__ import annotations

import csv
import io
import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from injector.errors import UserError
from injector.report import formats

COLUMNS = {"name": ["a", "b,\n"], "value": [1.5, None]}


def test_a_table_aligns_numbers_to_the_right():
    assert formats.as_table({"name": ["a", "bb"], "n": [1, 100]}) == (
        "name    n\na       1\nbb    100\n"
    )


def test_a_cell_stays_on_its_line():
    assert formats.as_table({"x": ["a\nb\x1b[31m"]}).count("\n") == 2
    assert "\x1b" not in formats.as_table({"x": ["\x1b[31m"]})


@given(st.lists(st.tuples(st.text(), st.floats() | st.none()), max_size=5))
def test_csv_and_json_read_back(rows):
    columns = {"text": [text for text, _ in rows], "number": [value for _, value in rows]}
    found = list(csv.reader(io.StringIO(formats.as_csv(columns), newline="")))
    assert found[0] == ["text", "number"]
    again = json.loads(formats.as_json(columns))
    assert [row["text"] for row in again] == columns["text"]
    for row, value in zip(again, columns["number"], strict=True):
        finite = value is None or math.isfinite(value)
        assert row["number"] == (value if finite else str(value))


def test_forms_go_to_files(tmp_path, capsys):
    formats.write(COLUMNS, "csv", str(tmp_path / "out.csv"))
    with open(tmp_path / "out.csv", newline="") as file:
        assert list(csv.reader(file)) == [["name", "value"], ["a", "1.5"], ["b,\n", ""]]
    formats.write(COLUMNS, "json")
    assert json.loads(capsys.readouterr().out)[0] == {"name": "a", "value": 1.5}


def test_parquet_reads_back(tmp_path):
    import pyarrow.parquet

    path = str(tmp_path / "out.parquet")
    formats.write(COLUMNS, "parquet", path)
    assert pyarrow.parquet.read_table(path).to_pydict() == COLUMNS


def test_parquet_needs_a_file():
    with pytest.raises(UserError, match="--output FILE"):
        formats.write(COLUMNS, "parquet")
