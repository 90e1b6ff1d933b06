"""SQL over a run: what the views hold, and what a query may not do."""

from __future__ import annotations

import json

import pytest

from injector.analysis.query import run_query
from injector.analysis.views import views
from injector.errors import UserError
from injector.store.folder import open_run


def lines(*records):
    return "".join(json.dumps(record) + "\n" for record in records)


@pytest.fixture
def folder(tmp_path):
    """A run with two processes, values, and a monitor with a device."""
    run = tmp_path / "runs" / "train.2026-01-01_00-00-00.000000"
    (run / "raw").mkdir(parents=True)
    info = {
        "schema": 1,
        "name": "train",
        "command": ["inject", "run", "train.py"],
        "started": 100.0,
        "duration": 5.0,
        "exit": {"code": None, "signal": 9},
        "processes": [{"rank": 0}, {"rank": 1}],
        "records": 4,
        "lost": 0,
        "host": "h",
    }
    (run / "run.json").write_text(json.dumps(info))
    data = [
        {"event": "start", "data": {"time": 100.0}},
        {"event": "data", "data": {"task": "train", "loss": 2.0, "time": 101.0, "process": 0}},
        {"event": "data", "data": {"task": "train", "loss": "NaN", "time": 102.0, "process": 1}},
        {"event": "data", "data": {"rate": 5.0, "units": "items/s", "time": 103.0, "process": 1}},
        {"event": "data", "data": {"stage": "two", "time": 104.0}},
    ]
    (run / "train.D0.data").write_text(lines(*data))
    monitor = [
        {"event": "process", "data": {"host": "h", "time": 100.0, "monotonic_ns": 0}, "t": 0},
        {"event": "device_list", "data": {"0": {"name": "A"}}, "t": 0},
        {
            "event": "host",
            "data": {"cores": [[0, 0]], "memory": {"used": 5, "fraction": 0.5}},
            "t": 0,
        },
        {"event": "tree", "data": {"processes": [{"pid": 1, "cpu": 2.0, "rss": 7}]}, "t": 0},
        {"event": "devices", "data": {"0": {"load": 0.25, "throttle": ["heat"]}}, "t": 10**9},
        {
            "event": "host",
            "data": {"cores": [[3, 1]], "disks": {"a": [1, 2], "b": [3, 4]}},
            "t": 10**9,
        },
    ]
    (run / "raw" / "h.9.monitor").write_text(lines(*monitor))
    return str(run)


def ask(folder, sql):
    return run_query(sql, views(open_run(folder), folder))


def test_values_have_their_task_and_rank(folder):
    found = ask(folder, "select rank, name, value, text from values order by time")
    assert found["name"] == ["loss", "loss", "rate", "stage"]
    assert found["rank"] == [0, 1, 1, 0]
    assert found["value"][0] == 2.0
    assert found["value"][1] != found["value"][1]
    assert found["text"][3] == "two"


def test_a_join_and_the_keyword_values(folder):
    found = ask(folder, "select count(*) as n from runs, values where \"values\".name = 'loss'")
    assert found == {"n": [2]}
    assert ask(folder, "select * from (values (1), (2)) t(a)") == {"a": [1, 2]}


def test_events_keep_their_data(folder):
    found = ask(folder, "select json_extract(data, '$.loss') l from events where event = 'data'")
    assert found["l"][0] == "2.0"


def test_devices_and_host_are_those_of_the_monitor(folder):
    found = ask(folder, "select time, name, load, throttle, power from devices")
    assert found == {
        "time": [101.0],
        "name": ["A"],
        "load": [0.25],
        "throttle": ["heat"],
        "power": [None],
    }
    found = ask(
        folder, "select cpu, memory, disk_read, processes, tree_rss from host order by time"
    )
    assert found["cpu"] == [None, 0.75]
    assert found["memory"] == [0.5, None]
    assert found["disk_read"] == [None, 4.0]
    assert (found["processes"][0], found["tree_rss"][0]) == (1.0, 7.0)


def test_runs_are_this_one_and_those_beside_it(folder):
    found = ask(folder, "select name, exit, duration, processes from runs")
    assert found == {"name": ["train"], "exit": [-9], "duration": [5.0], "processes": [2]}


def test_columns_of_one_name_are_kept_apart(folder):
    assert ask(folder, "select 1 as a, 2 as a") == {"a": [1], "a_1": [2]}


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("selec 1", r"(?si)the query cannot be run: .*syntax error"),
        ("select * from nothing", "there is no table nothing; there are: steps, regions, "),
        ("select nothing from runs", '(?s)the query cannot be run: .*"nothing" not found'),
        ("select * from read_csv('/etc/hostname')", "(?s)the query cannot be run: .*disabled"),
        ("copy (select 1) to '/tmp/never'", "a query only reads .*; this one is a COPY statement"),
        ("set enable_external_access = true", "a query only reads .*; this one is a SET statement"),
    ],
)
def test_what_a_query_cannot_do_is_reported(folder, sql, message):
    with pytest.raises(UserError, match=message):
        ask(folder, sql)


def test_an_empty_run_has_empty_views(tmp_path):
    run = tmp_path / "empty"
    (run / "raw").mkdir(parents=True)
    made = views(open_run(str(run)), str(tmp_path))
    for name in made:
        if name != "runs":
            assert run_query(f"select count(*) n from {name}", made) == {"n": [0]}
