"""The panel of a run that goes on, and the terminal it stands on."""

from __future__ import annotations

import fcntl
import os
import pty
import struct
import termios

import pyte
import pytest
from hypothesis import given
from hypothesis import strategies as st

from injector.live.snapshot import DeviceRow, HostRow, RankRow, Snapshot
from injector.report import panel
from injector.report.watching import LEAST, Screen, Watching


def snapshot(**more):
    given = {
        "name": "train",
        "elapsed": 12.0,
        "state": "training",
        "steps": 50,
        "goal": None,
        "left": None,
        "unit": "items/s",
        "rate": 800.0,
        "overall": 750.0,
        "step": 0.01,
        "regions": {"io": 0.2, "forward": 0.7},
        "values": {"train/loss": 0.5},
        "ranks": (),
        "devices": (),
        "hosts": (),
    }
    return Snapshot(**{**given, **more})


def rank(number):
    return RankRow(number, 40, "h", "cuda:0", 50, 400.0, 0.01, 0.25, "training", {})


def test_a_rank_has_its_row():
    rows = panel.lines(snapshot(ranks=(rank(0), rank(None))))[3:]
    assert rows[0].startswith("  rank 0 ")
    assert rows[1].startswith("  process 40 ")
    for row in rows:
        assert "50 steps" in row
        assert "400.0 items/s" in row
        assert row.endswith("loss 0.250  cuda:0  h  training")


def test_progress_and_estimate():
    first = panel.lines(snapshot(goal=100, left=0.5, ranks=(rank(0),)))[0]
    assert first == "train · training · step 50 of 100 · 500 ms left · 12.0 s"
    position = "epoch 2 of 3, batch 4 of 9"
    first = panel.lines(snapshot(position=position, left=0.5, ranks=(rank(0),)))[0]
    assert first == f"train · training · step 50 · {position} · about 500 ms left · 12.0 s"
    for of, words in (
        ("epoch", "500 ms left of the epoch"),
        ("training", "500 ms of training left"),
    ):
        first = panel.lines(snapshot(left=0.5, left_of=of, ranks=(rank(0),)))[0]
        assert first == f"train · training · step 50 · about {words} · 12.0 s"


def test_parts_and_what_is_left():
    assert "  forward 70 % · io 20 % · other 10 %" in panel.lines(snapshot())


def test_many_ranks_are_summed_up():
    found = panel.lines(snapshot(ranks=tuple(rank(at) for at in range(40))))
    assert sum("rank" in line for line in found) == panel.RANKS
    assert "  … and 32 more" in found


def test_devices_and_hosts():
    device = DeviceRow("0", "A", "h", 0.25, 1e9, 4e9, 61.0, 250.0)
    found = panel.lines(snapshot(devices=(device,), hosts=(HostRow("h", 0.5, None, 2e9),)))
    assert "  device 0      A  load 25 %  memory 1.0 of 4.0 GB  61 °C  250 W" in found
    assert "  host h  cpu 50 %  the program 2.00 GB" in found


def test_one_line_for_a_file():
    assert "\n" not in panel.one_line(snapshot())
    assert "800.0 items/s" in panel.one_line(snapshot())


numbers = st.none() | st.floats(allow_nan=True)


@given(st.text(max_size=200), numbers, numbers, st.dictionaries(st.text(), st.floats(), max_size=9))
def test_no_line_is_too_long_or_obeyed_by_a_terminal(name, rate, step, values):
    made = snapshot(name=name, rate=rate, step=step, values=values, regions=values)
    for line in panel.lines(made, 60):
        assert len(line) <= 60
        assert line.isprintable()


class Terminal:
    """A terminal of 80 columns, and what stands on it."""

    def __init__(self, rows=30):
        self.master, self.fd = pty.openpty()
        self.resize(rows)
        attributes = termios.tcgetattr(self.fd)
        attributes[1] |= termios.OPOST | termios.ONLCR
        termios.tcsetattr(self.fd, termios.TCSANOW, attributes)

    def resize(self, rows):
        self.rows = rows
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, 80, 0, 0))

    def shown(self):
        os.set_blocking(self.master, False)
        while True:
            try:
                self.stream.feed(os.read(self.master, 1 << 16))
            except (BlockingIOError, OSError):
                return [line.rstrip() for line in self.screen.display]

    def __enter__(self):
        self.screen = pyte.Screen(80, self.rows)
        self.stream = pyte.ByteStream(self.screen)
        return self

    def __exit__(self, *_):
        os.close(self.fd)
        os.close(self.master)

    def program(self, text):
        os.write(self.fd, text.encode())
        self.shown()


@pytest.fixture
def terminal(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    with Terminal() as made:
        yield made


def test_the_programs_lines_scroll_above_the_panel(terminal):
    screen = Screen(terminal.fd)
    terminal.program("first\n")
    screen.draw(["one", "two"])
    for number in range(60):
        terminal.program(f"line {number}\n")
        screen.draw(["one", f"two {number}"])
    shown = terminal.shown()
    assert shown[-2:] == ["one", "two 59"]
    assert shown[-3].startswith("───")
    assert shown[-5] == "line 59"
    assert shown[-6] == "line 58"


def test_the_cursor_stays_the_programs(terminal):
    screen = Screen(terminal.fd)
    terminal.program("50 %")
    screen.draw(["panel"])
    terminal.program("\r60 %")
    assert terminal.shown()[0] == "60 %"


def test_at_the_end_the_terminal_is_whole(terminal):
    screen = Screen(terminal.fd)
    terminal.program("before\n")
    screen.draw(["panel"])
    screen.close()
    terminal.program("after\n" + "x\n" * 40 + "last")
    shown = terminal.shown()
    assert shown[-1] == "last"
    assert not any("panel" in line or "─" in line for line in shown)


def test_a_panel_grows_and_shrinks(terminal):
    screen = Screen(terminal.fd)
    screen.draw(["a"])
    screen.draw(["a", "b", "c"])
    assert terminal.shown()[-3:] == ["a", "b", "c"]
    screen.draw(["d"])
    assert terminal.shown()[-3:] == ["d", "", ""]


def test_a_small_terminal_has_no_panel(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    with Terminal(rows=LEAST) as small:
        assert not Screen.fits(small.fd)
    with Terminal() as fine:
        assert Screen.fits(fine.fd)
        monkeypatch.setenv("TERM", "dumb")
        assert not Screen.fits(fine.fd)
    read, write = os.pipe()
    monkeypatch.setenv("TERM", "xterm")
    assert not Screen.fits(write)
    os.close(read)
    os.close(write)


def test_a_terminal_that_goes_away_is_nobodys_trouble(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    with Terminal() as gone:
        screen = Screen(gone.fd)
        screen.draw(["a"])
    screen.draw(["b"])
    screen.close()


def test_looks_that_take_long_are_rarer(monkeypatch):
    clock, rests = iter([0.0, 0.1, 1.0, 9.0, 20.0, 20.1]), []
    monkeypatch.setattr("injector.report.watching.time.thread_time", lambda: next(clock))

    class Watched:
        def tick(self):
            return snapshot()

    def over(seconds):
        rests.append(seconds)
        return len(rests) > 3

    Watching(Watched(), os.open(os.devnull, os.O_WRONLY), every=2.0).until(over)
    assert rests == [2.0, 2.0, 8.0, 2.0]
