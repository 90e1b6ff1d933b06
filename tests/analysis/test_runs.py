"""The runs of a folder."""

from __future__ import annotations

import json
import os

import pytest

from injector.analysis.runs import listed
from injector.report import formats
from injector.store.folder import newest
from injector.store.run_json import NotARunError


def make(folder, run, **info):
    path = folder / run
    path.mkdir(parents=True)
    (path / "run.json").write_text(json.dumps({"schema": 1, **info}))


def test_the_oldest_comes_first(tmp_path):
    make(tmp_path, "b.2026.1", name="b", started=200.0, duration=65.0, exit={"code": 3})
    make(tmp_path, "a.2026.1", name="a", started=100.0, exit={"signal": 15}, processes=[{}, {}])
    (tmp_path / "nothing").mkdir()
    first, second = listed(str(tmp_path))
    assert (first.name, first.exit, first.processes) == ("a", -15, 2)
    assert (second.name, second.exit, second.duration) == ("b", 3, 65.0)
    head, *rows = formats.runs([first, second], now=3 * 86_400.0)
    assert head.split() == ["run", "started", "took", "exit", "processes", "lost", "verdict"]
    assert "SIGTERM" in rows[0]
    assert "2 days ago" in rows[0]
    assert "1 min 05 s" in rows[1] or "65.0 s" in rows[1]


def test_what_cannot_be_read_says_why(tmp_path):
    make(tmp_path, "new.1.2")
    (tmp_path / "new.1.2" / "run.json").write_text('{"schema": 999}')
    [found] = listed(str(tmp_path))
    assert "was written by a later injector" in found.problem
    assert "written by" in formats.runs([found])[1] or "reads up to" in formats.runs([found])[1]


def test_a_run_that_goes_on_tells_when_it_began(tmp_path):
    raw = tmp_path / "x.1.2" / "raw"
    raw.mkdir(parents=True)
    for number, time in enumerate((200.0, 100.0, "soon", None)):
        record = {"event": "process", "data": {"time": time}, "t": 1}
        (raw / f"{number}.log").write_text(json.dumps(record) + "\n" + "\0" * 99)
    (raw / "empty.log").touch()
    [found] = listed(str(tmp_path))
    assert (found.started, found.exit) == (100.0, None)
    assert "just now" in formats.runs([found], now=101.0)[1]


def test_an_uncollected_run_and_a_broken_one_are_listed(tmp_path):
    (tmp_path / "x.1.2" / "raw").mkdir(parents=True)
    make(tmp_path, "y.1.2")
    (tmp_path / "y.1.2" / "run.json").write_text("{broken")
    assert {each.name for each in listed(str(tmp_path))} == {"x", "y"}


def test_the_last_of_the_list_is_the_newest(tmp_path):
    """Whatever is in a folder that has no TIME in its name, its changes do not make it newer."""
    make(tmp_path, "renamed", name="x", started=1_767_225_600.0)  # 2026-01-01
    (tmp_path / "going-on.2026-03-01_00-00-00.000000" / "raw").mkdir(parents=True)
    make(tmp_path, "broken")
    (tmp_path / "broken" / "run.json").write_text("{broken")
    os.utime(tmp_path / "broken", (0, 0))
    make(tmp_path, "when", started="soon")
    os.utime(tmp_path / "when", (1e9, 1e9))
    runs = [each.run for each in listed(str(tmp_path))]
    assert runs == ["broken", "when", "renamed", "going-on.2026-03-01_00-00-00.000000"]
    assert newest(str(tmp_path)) == str(tmp_path / runs[-1])


def test_no_such_folder(tmp_path):
    with pytest.raises(NotARunError, match="no runs can be listed"):
        listed(str(tmp_path / "none"))


@pytest.mark.parametrize(
    ("seconds", "message"),
    [(5, "just now"), (125, "2 min ago"), (7200, "2 h ago"), (90_000, "1 day ago")],
)
def test_how_long_ago(seconds, message):
    assert formats.ago(seconds) == message
