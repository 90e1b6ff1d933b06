"""What runs beside a program, and from when."""

from __future__ import annotations

import pytest

from injector.launch.command import split
from injector.monitor import start
from injector.run.sidecars import MONITOR_AFTER, Sidecars


@pytest.fixture
def monitors(monkeypatch):
    """The monitors that were started: folder, the program's number, interval, seconds to add to the clock."""
    started = []

    class NoMonitor:
        pid = 0

        def __init__(self, *about):
            started.append(about)

        def end(self):
            started.append("ended")

    monkeypatch.setattr(start, "MonitorProcess", NoMonitor)
    return started


def sidecars(folder, *options):
    made = Sidecars(split([*options, "--no-live", "train.py"], lambda command: {}), folder, [])
    made.start(7)
    return made


def test_the_monitor_starts_once_the_program_has_run_for_a_while(tmp_path, monitors):
    made = sidecars(str(tmp_path))
    assert monitors == []
    [(seconds, action)] = made.later()
    assert seconds == MONITOR_AFTER and action() is not True
    assert monitors == [(str(tmp_path), 7, 1.0, 0.0)]
    made.end()
    assert monitors[1:] == ["ended"]


def test_with_an_interval_the_monitor_starts_with_the_program(tmp_path, monitors):
    made = sidecars(str(tmp_path), "--interval", "0.5")
    assert monitors == [(str(tmp_path), 7, 0.5, 0.0)] and made.later() == []
    made.end()


def test_without_a_monitor_or_a_record_none_starts(tmp_path, monitors):
    assert sidecars(str(tmp_path), "--no-monitor").later() == []
    assert sidecars(None).later() == []
    assert monitors == []


def test_a_monitor_that_cannot_be_started_is_a_problem_and_no_more(tmp_path, monkeypatch):
    def refuse(*about):
        raise OSError("no more processes")

    monkeypatch.setattr(start, "MonitorProcess", refuse)
    problems = []
    made = Sidecars(
        split(["--interval", "1", "train.py"], lambda command: {}), str(tmp_path), problems
    )
    made.start(7)
    assert problems == ["not watched: OSError: no more processes"]
    made.end()
