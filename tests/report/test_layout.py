"""How a report fits terminals of any width, and pipes."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import termios
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

import pytest
from card_profiles import SHAPES
from test_terminal import new_run, probe, rates, render

from injector.analysis.runs import listed
from injector.analysis.summary import summarise
from injector.live.snapshot import RankRow, Snapshot
from injector.report import formats
from injector.report.colors import painted
from injector.report.final import snapshot
from injector.report.output import ENDLESS, laid_out, show, width_of
from injector.report.panel import lines as live_lines
from injector.report.terminal import profile as profile_lines
from injector.report.text import columns
from injector.store.folder import open_run

WIDTHS = (60, 80, 120, 200)
LONG = "/data/" + "deep/" * 30 + "train.py"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A run with every section that is not the card's, and long words in each."""
    word = "a_long_name_of_something_that_somebody_wrote_down_without_a_thought"
    events = [
        ("probe", probe(f"//{word}.{word} > {word}", file=LONG, source=f"{word} = {word}({word})")),
        (
            "miss",
            {"selector": f"//{word} > y", "reason": f"{LONG} has no {word}", "nearest": [word]},
        ),
        ("failure", {"where": f"probe {word}", "type": "KeyError", "message": word, "trace": ""}),
        *rates(100.0, 200.0, 300.0),
        ("data", {"task": f"{word}_{word}", "rate": 12.0, "units": "items/s"}),
        ("value", {"series": f"train/{word}_loss", "value": 2.5}),
        ("data", {word: 0.1}),
        ("region", {"region": word, "seconds": 0.002}),
    ]
    command = ["python", LONG, "--data", LONG, "--name", word]
    return new_run(tmp_path_factory.mktemp("runs"), events, command=command)


@pytest.fixture(scope="module")
def silents(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Runs that recorded nothing, each for another reason."""
    events = {"nothing": [], "probe": [("probe", probe("s")), ("fired", {"s": 0})]}
    return [
        new_run(tmp_path_factory.mktemp(name), found, voirfiles=voirfiles)
        for name, found in events.items()
        for voirfiles in ([], ["x.py"])
    ]


@pytest.mark.parametrize("width", WIDTHS)
def test_the_panel_breaks_between_facts(width: int) -> None:
    ranks = tuple(
        RankRow(n, 1, "a-host-of-some-name", "cuda:0", 123456, 123.4, 0.12, 0.5, "training")
        for n in range(2)
    )
    regions = dict.fromkeys(("io", "h2d", "forward", "backward", "optimizer", "comm"), 0.12)
    shown = Snapshot(
        name="train", elapsed=12.0, state="training", steps=123456, goal=None, left=60.0,
        unit="items/s", rate=123.4, overall=120.1, step=0.1, regions=regions,
        values={"train/loss": 0.5, "train/accuracy": 0.25}, ranks=ranks, devices=(), hosts=(),
        position="epoch 2 of 30, batch 312 of 1500",
    )  # fmt: skip
    texts = live_lines(shown, width)
    assert [text for text in texts if columns(text) > width or "…" in text] == []
    whole = " ".join(live_lines(shown, 1000)).split()
    assert [word for word in " ".join(texts).split() if word != "·"] == [
        w for w in whole if w != "·"
    ]


@pytest.mark.parametrize("width", WIDTHS)
def test_no_line_of_a_report_is_wider_than_the_terminal(
    run: str, silents: list[str], width: int
) -> None:
    with laid_out(width):
        texts = render(run).splitlines()[:-1]  # the last is a path, to be pasted
        for silent in silents:
            texts += render(silent).splitlines()[:-1]
        texts += formats.runs(listed(str(Path(run).parent)))
        texts += live_lines(snapshot(summarise(open_run(run))))
        for profile in SHAPES.values():
            texts += profile_lines(profile)
    assert [text for text in texts if columns(text) > width] == []


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("shape", SHAPES)
def test_a_narrow_terminal_shows_every_figure_that_a_pipe_has(shape: str, width: int) -> None:
    def figures(width: int) -> set[str]:
        with laid_out(width):
            return set(re.findall(r"\d+(?:\.\d+)?", "\n".join(profile_lines(SHAPES[shape]))))

    assert figures(ENDLESS) - figures(width) <= CODE


CODE = {"0", "1", "2", "3"}
"""Numbers of source lines, which are cut on a terminal."""


def test_nothing_is_cut_in_a_pipe(run: str) -> None:
    with laid_out(ENDLESS):
        texts = [render(run), *formats.runs(listed(str(Path(run).parent)))]
        texts += [text for profile in SHAPES.values() for text in profile_lines(profile)]
    assert "…" not in re.sub(r"\(…|, …", "", "\n".join(texts))
    assert LONG in texts[0]


@pytest.fixture()
def terminal() -> Iterator[TextIO]:
    """A terminal of 72 columns; what is written to it need not be read."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 72, 0, 0))
    with os.fdopen(slave, "w", encoding="utf-8") as stream:
        yield stream
    os.close(master)


@pytest.mark.parametrize(
    ("environ", "colors"),
    [
        ({"TERM": "xterm"}, True),
        ({"TERM": "xterm", "NO_COLOR": ""}, True),
        ({"TERM": "xterm", "NO_COLOR": "1"}, False),
        ({"TERM": "dumb"}, False),
        ({}, False),
    ],
)
def test_colours_on_a_terminal_that_has_them(
    environ: dict[str, str], colors: bool, terminal: TextIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("TERM", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    written: list[str] = []
    monkeypatch.setattr(terminal, "write", written.append, raising=False)
    show(lambda: "\n".join(profile_lines(SHAPES["plain"])) + "\n", terminal)
    assert ("\x1b[" in written[0]) is colors
    assert width_of(terminal) == 72


def test_no_colours_in_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    with open(tmp_path / "out", "w", encoding="utf-8") as stream:
        show(lambda: "verdict  all is lost (critical)\n", stream)
        assert width_of(stream) == ENDLESS
    assert (tmp_path / "out").read_text() == "verdict  all is lost (critical)\n"


@pytest.mark.parametrize("shape", SHAPES)
def test_colours_change_nothing_else(shape: str, run: str) -> None:
    text = "\n".join([*profile_lines(SHAPES[shape]), render(run)])
    shown = painted(text)
    assert shown != text
    assert re.sub(r"\x1b\[[\d;]*m", "", shown) == text


@pytest.mark.parametrize(
    ("text", "color"),
    [
        ("verdict  one (critical)", "1;31"),
        ("verdict  one\n         two (critical)", "1;31"),
        ("verdict  one\n         two (warning)", "1;33"),
        ("broken     rank 1 died\n           all that follows", "31"),
        ("missing  a file", "31"),
        ("restarted  rank 1", "33"),
    ],
)
def test_what_is_reported_first_has_one_colour_however_it_is_wrapped(text: str, color: str) -> None:
    lines = painted(f"{text}\n  because    io\n").splitlines()
    assert lines == [
        *(f"\x1b[{color}m{line}\x1b[0m" for line in text.splitlines()),
        "  because    io",
    ]
