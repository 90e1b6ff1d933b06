"""Who ends, and how: children of other processes, that others wait for."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from injector.bus import endings
from injector.monitor import processes as exits
from injector.monitor.processes import Exits
from injector.monitor.start import MonitorProcess

HOST = os.uname().nodename.replace("/", "_")
PARENT = """
import subprocess, sys
child = subprocess.Popen(["sh", "-c", "read line; " + sys.argv[1]], stdin=subprocess.PIPE, text=True)
print(child.pid, flush=True)
for line in sys.stdin:
    if line == "end\\n":
        child.communicate("\\n")
        print("waited", flush=True)
    else:
        child.stdin.write("\\n")
        child.stdin.close()
"""
"""Says its child's number; ``end`` has the child end and waits for it, ``let go`` only has it end."""


class Family:
    """A parent with a child that ends as ``how`` says when it is told to."""

    def __init__(self, how: str) -> None:
        self.parent = subprocess.Popen(
            [sys.executable, "-c", PARENT, how],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.parent.stdout
        self.child = int(self.parent.stdout.readline())

    def say(self, word: str) -> None:
        assert self.parent.stdin and self.parent.stdout
        self.parent.stdin.write(f"{word}\n")
        self.parent.stdin.flush()

    def over(self) -> None:
        self.parent.kill()
        self.parent.communicate()


@pytest.fixture
def family():
    made = []

    def make(how):
        made.append(Family(how))
        return made[-1]

    yield make
    for one in made:
        one.over()


@pytest.fixture
def watch(tmp_path):
    """Watch the processes of these numbers, that record; what was told of whom."""
    (tmp_path / "raw").mkdir()

    def start(root, *pids):
        reported = {}
        for pid in pids:
            (tmp_path / "raw" / f"{HOST}.{pid}.log").touch()
        found = Exits(str(tmp_path), {root}, reported.__setitem__)
        found.turn(0.0)
        return found, reported

    return start


def until(condition):
    due = time.monotonic() + 60
    while not (found := condition()):
        assert time.monotonic() < due, "it did not come to be"
        time.sleep(0.01)
    return found


def zombie(pid):
    with open(f"/proc/{pid}/stat") as file:
        return file.read().rpartition(")")[2].split()[0] == "Z"


@pytest.mark.parametrize(
    ("how", "code"), [("exit 3", 3), ("exit 0", 0), ("kill -9 $$", -9), ("kill -15 $$", -15)]
)
def test_who_has_not_been_waited_for(family, watch, how, code):
    one = family(how)
    found, reported = watch(one.parent.pid, one.child)
    assert reported == {}
    one.say("let go")
    until(lambda: zombie(one.child))
    found.turn(0.0)
    assert reported == {one.child: code}
    found.turn(0.0)
    assert reported == {one.child: code}


def test_who_has_been_waited_for(family, watch):
    """Then newer kernels tell; of older ones no more is known than that it is gone."""
    one = family("exit 3")
    found, reported = watch(one.parent.pid, one.child)
    one.say("end")
    assert one.parent.stdout.readline() == "waited\n"
    found.turn(0.0)
    assert reported[one.child] in (3, None)


def test_a_kernel_that_does_not_tell(family, watch, monkeypatch):
    def refused(*_):
        raise OSError(25, "Inappropriate ioctl for device")

    monkeypatch.setattr(exits, "ioctl", refused)
    one = family("exit 3")
    found, reported = watch(one.parent.pid, one.child)
    one.say("end")
    assert one.parent.stdout.readline() == "waited\n"
    found.turn(0.0)
    assert reported == {one.child: None}


def test_processes_of_others_are_not_watched(family, watch):
    one, other = family("exit 3"), family("exit 3")
    found, reported = watch(one.parent.pid, other.child, 1, 1 << 30)
    other.say("let go")
    until(lambda: zombie(other.child))
    found.turn(0.0)
    assert reported == {}


def test_who_begins_to_record_later(family, watch, tmp_path):
    one = family("exit 4")
    found, reported = watch(one.parent.pid)
    (tmp_path / "raw" / f"{HOST}.{one.child}.1.log").touch()  # its number has been here before
    (tmp_path / "raw" / f"{HOST}.{one.child}.log").touch()
    (tmp_path / "raw" / "elsewhere.7.log").touch()
    (tmp_path / "raw" / f"{HOST}.odd.log").touch()
    found.turn(0.0)
    one.say("let go")
    until(lambda: zombie(one.child))
    found.turn(0.0)
    assert reported == {one.child: 4}


def test_a_folder_that_is_gone(tmp_path):
    found = Exits(str(tmp_path / "none"), {1}, lambda *_: None)
    found.start()
    found.stop()


def test_the_monitor_records_it(family, tmp_path):
    (tmp_path / "raw").mkdir()
    one = family("exit 5")
    (tmp_path / "raw" / f"{HOST}.{one.child}.log").touch()
    monitor = MonitorProcess(str(tmp_path), one.parent.pid, 0.02)
    until(lambda: _samples(tmp_path))
    one.say("let go")
    [gone] = until(lambda: list(endings.seen(str(tmp_path))))
    monitor.end()
    assert (gone.host, gone.pid, gone.code) == (os.uname().nodename, one.child, 5)
    assert 0 < gone.t < time.monotonic_ns()


def _samples(folder: Path) -> bool:
    return any(b'"tree"' in file.read_bytes() for file in folder.glob("raw/*.monitor"))
