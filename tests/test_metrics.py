"""The registry of metrics names every number that is recorded or exported; the docs are made from it."""

from __future__ import annotations

import csv
import io
import json
import sys
from pathlib import Path

import pytest

from injector import cli, metrics
from injector.analysis import hosts, views
from injector.bus.readable import collected
from injector.export.content import Content
from injector.metrics import METRICS, UNITS, unit_of
from injector.store.folder import open_run
from injector.suite.results.scores import Row

sys.path.insert(0, str(Path(__file__).parent / "suite"))
from suitefolders import state, write_run

ROOT = Path(__file__).parents[1]
LABELS = {
    "loop", "task", "process", "rank", "attempt", "host", "step", "measured", "region", "clock", "phase",
    "what", "device", "file", "line", "thread", "bench", "name", "text", "throttle", "event", "data", "run",
    "stopped", "node", "unit", "command", "verdict", "broken", "problem", "tags",
}  # fmt: skip
"""Columns that say what a number is of."""


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    write_run(folder, [1.0, 2.0], losses=[3.0, 2.0], devices=[[state(), state()]])
    with collected(open_run(str(folder))) as opened:
        yield opened


def test_the_page_of_the_docs_is_current():
    """`inject metrics --format md -o docs/metrics.md` writes it."""
    assert (ROOT / "docs" / "metrics.md").read_text() == metrics.as_markdown()


def test_each_metric_is_whole_and_none_is_there_twice():
    rows = [each for group in metrics.GROUPS.values() for each in group]
    assert len(rows) == len(METRICS) > 90
    for each in rows:
        assert each.unit in UNITS and each.definition.endswith(".") and each.places, each


def test_each_number_of_a_query_is_a_metric(run):
    for view, make in views.views(run).items():
        missed = [
            column
            for column in make()
            if column not in LABELS
            and f"query {view}.{column}" not in metrics._PLACES
            # What a view calls by the name of a label may be a number elsewhere.
            and not (view == "devices" and column == "processes")
        ]
        assert not missed, (view, missed)


def test_what_is_exported_suites_hosts_and_plots_are_metrics(run):
    from injector.analysis.summary import summarise

    content = Content(run, summarise(run))
    assert content.figures["duration"].unit == "s"  # a name that is no metric raises KeyError
    units = {each.name: each.unit for each in content.series}
    assert units["train/loss"] == "" and units["devices/node7/0/power"] == "W"
    numbers = set(Row._fields) - {"benchmark", "unit"}
    assert all(f"suite {name}" in metrics._PLACES for name in numbers)
    plots = ("rate", "step", "loss", "load", "memory", "power", "cpu", "rss")
    assert all(f"page {name}" in metrics._PLACES for name in plots)
    seed = [name for name in METRICS if name in {each.name for each in metrics.LIGHTGBM}]
    assert len(seed) == 18 and len(hosts.LEVELS) == 4


def test_units_are_shown_in_what_people_read():
    assert metrics.shown(unit_of("suite peak_memory")) == ("GB", 1e-9)
    assert metrics.shown(unit_of("suite sem")) == ("%", 100.0)
    assert metrics.shown("tokens of its own/s") == ("tokens of its own/s", 1.0)


def test_the_verb_lists_finds_and_refuses(capsys):
    assert cli.main(["metrics"]) == 0
    assert "cpu_avg_utilization_over80_pct" in capsys.readouterr().out
    assert cli.main(["metrics", "POWER", "--json"]) == 0
    found = {each["name"]: each for each in json.loads(capsys.readouterr().out)}
    assert found["device_power"]["unit"] == "W" and found["device_power"]["unit_name"] == "watts"
    assert "step_time" not in found
    assert cli.main(["metrics", "^rate$", "--format", "csv"]) == 0
    [row] = csv.DictReader(io.StringIO(capsys.readouterr().out))
    assert row["unit"] == "items/s" and "export LOOP/rate" in row["places"]
    for wrong, why in (("nothing like it", "no metric matches"), ("(", "no regular expression")):
        assert cli.main(["metrics", wrong]) == 2
        assert why in capsys.readouterr().err
