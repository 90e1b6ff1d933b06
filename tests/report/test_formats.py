"""Tables in their forms."""

from __future__ import annotations

import csv
import io
import json
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from injector.analysis.latencies import latency
from injector.analysis.profile import Layer, Model, SourceLine
from injector.analysis.summary import summarise
from injector.errors import UserError
from injector.json_types import plain
from injector.report import formats
from injector.store.folder import open_run
from injector.value_class import replace

COLUMNS = {"name": ["a", "b,\n"], "value": [1.5, None]}


def test_a_table_aligns_numbers_to_the_right():
    assert formats.as_table({"name": ["a", "bb"], "n": [1, 100]}) == (
        "name    n\na       1\nbb    100\n"
    )


def test_a_cell_stays_on_its_line():
    assert formats.as_table({"x": ["a\nb\x1b[31m"]}).count("\n") == 2
    assert "\x1b" not in formats.as_table({"x": ["\x1b[31m"]})


# The csv module of Python 3.10 writes no NUL.
TEXTS = (
    st.text() if sys.version_info >= (3, 11) else st.text().filter(lambda text: "\0" not in text)
)


@given(st.lists(st.tuples(TEXTS, st.floats() | st.none()), max_size=5))
def test_csv_and_json_read_back(rows):
    columns = {"text": [text for text, _ in rows], "number": [value for _, value in rows]}
    found = list(csv.reader(io.StringIO(formats.as_csv(columns), newline="")))
    assert found[0] == ["text", "number"]
    again = json.loads(formats.as_json(columns))
    assert [row["text"] for row in again] == columns["text"]
    for row, value in zip(again, columns["number"], strict=True):
        assert row["number"] == plain(value)


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


def test_the_csv_of_a_run_has_all_its_tables(tmp_path):
    from large_run import write_large_run

    write_large_run(tmp_path, 20, 1)
    summary = summarise(open_run(str(tmp_path)))
    place = SourceLine("train.py", 12, "f", "model(x)")
    profile = replace(
        summary.profile,
        latencies=(latency(np.array([0.1, 0.3]), np.array([4.0, 4.0]), "predict", place),),
        layers=(Layer("0.linear", "Linear", 1, place, 2.0, 0.01, None, 0.5, None),),
        models=(Model("=Net()", 10, 8),),
    )
    text = formats.summary_as_csv(replace(summary, profile=profile))
    rows = list(csv.DictReader(io.StringIO(text, newline="")))
    found = {
        name: [row for row in rows if row["table"] == name]
        for name in dict.fromkeys(row["table"] for row in rows)
    }
    assert found["steps"][0]["region"] == "step" and float(found["steps"][0]["share"]) == 1
    [waited] = found["latencies"]
    assert (waited["what"], waited["file"], waited["line"]) == ("predict", "train.py", "12")
    assert (float(waited["batch.p50"]), float(waited["mean"])) == (0.2, 0.05)
    assert found["layers"][0]["backward"] == "" and found["layers"][0]["path"] == "0.linear"
    assert (found["models"][0]["name"], found["models"][0]["parameters"]) == ("=Net()", "10")
    epochs = [row for row in found.get("epochs", ()) if row["number"]]
    assert sum(int(row["steps"]) for row in epochs) in (0, 20)
