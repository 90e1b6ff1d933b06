"""The whole report: the card between the header and what probes gave."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path
from typing import Any

import pytest
from card_profiles import PLAIN, RANKS
from test_terminal import new_run, probe, rates, render

from injector.analysis import summary
from injector.analysis.profile import Profile
from injector.cli.report import main
from injector.json_types import plain
from injector.report.output import encodable
from injector.report.text import command_line
from injector.store.run_json import read_info, write_info


def given(monkeypatch: pytest.MonkeyPatch, profile: Profile | Exception | None) -> None:
    def found(*_: object) -> tuple[Profile | None, tuple[()]]:
        if isinstance(profile, Exception):
            raise profile
        return profile, ()

    monkeypatch.setattr(summary, "_profile", found)


def sections(text: str) -> list[str]:
    """The first word of the lines that are not indented."""
    return [line.split()[0].rstrip(":") for line in text.splitlines() if line[:1].strip()]


def test_the_order_of_the_sections(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given(monkeypatch, PLAIN)
    events = [
        ("probe", probe("//f > loss")),
        *rates(100.0),
        ("value", {"series": "train/loss", "value": 0.5}),
        ("fired", {"//f > loss": 0}),
        ("end", {}),
    ]
    text = render(new_run(tmp_path, events, command=["inject", "run", "train.py"]))
    python = ".".join(map(str, sys.version_info[:3]))
    assert text.startswith(
        f"inject run train.py\n  exit 0 · 12.3 s · 1 process · on node7 · Python {python}\n\nverdict"
    )
    names = ["inject", "verdict", "train", "evaluation", "wall", "rates", "losses", "probes"]
    assert sections(text) == [*names, "not", "1", "run"]


def test_ranks_and_devices(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given(monkeypatch, RANKS)
    second = render(new_run(tmp_path, rates(1.0))).splitlines()[1]
    assert " · 3 ranks · on node7 · cuda:0, cuda:1, cuda:2 · Python " in second


def test_what_ended_the_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given(monkeypatch, PLAIN)
    error = {"type": "ValueError", "message": "no such\nshape: (3, 4)", "trace": "…"}
    folder = new_run(tmp_path, [("phase", {}), ("error", error)], exit=1)
    assert render(folder).splitlines()[2] == "  ValueError: no such"


def test_an_analysis_that_fails_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given(monkeypatch, KeyError("x"))
    text = render(new_run(tmp_path, rates(1.0)))
    assert "\nno profile: KeyError: 'x'\n" in text and "  train  1  1.000" in text


def test_what_libraries_lack_is_not_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given(monkeypatch, None)
    folder = new_run(tmp_path, rates(1.0))
    warnings = [{"kind": "auto-missed", "text": "torch 9.9 has not: a.b"}]
    write_info(folder, {**read_info(folder), "warnings": warnings})
    text = render(folder)
    assert "not measured\n  - torch 9.9 has not: a.b\n" in text and "warning" not in text


@pytest.mark.parametrize(
    ("automatic", "why"),
    [
        (
            [],
            "no library that a shipped voirfile measures was imported, and no voirfile records rates",
        ),
        (
            [{"library": "torch"}],
            "no training was recognised in torch, and no voirfile records rates",
        ),
        (
            [{"library": "torch"}] * 2,
            "no training was recognised in torch, and no voirfile records rates",
        ),
        (
            [{"library": "joblib", "name": "saving"}],
            "no library that a shipped voirfile measures was imported, and no voirfile records rates",
        ),
    ],
)
def test_a_program_that_trains_nothing(
    tmp_path: Path, automatic: list[dict[str, Any]], why: str
) -> None:
    folder = new_run(tmp_path, [("phase", {})])
    write_info(folder, {**read_info(folder), "automatic": automatic})
    assert why in " ".join(render(folder).split())


@pytest.mark.parametrize("ended", [{"code": 1, "signal": None}, {"code": None, "signal": 9}])
@pytest.mark.parametrize("processes", [[], [{"pid": 7}]])
def test_a_program_that_failed_before_it_trained(
    tmp_path: Path, ended: dict[str, Any], processes: list[dict[str, Any]]
) -> None:
    folder = new_run(tmp_path, [("phase", {})])
    changes = {"exit": ended, "processes": processes, "automatic": [{"library": "torch"}]}
    write_info(folder, {**read_info(folder), **changes})
    text = " ".join(render(folder).split())
    assert "before the program failed" in text
    assert ("training was recognised in torch" in text) == bool(processes)
    assert "ov.step" not in text, "what failed is to be mended before it is measured"


def test_a_program_that_recorded_nothing_is_told_how_to(tmp_path: Path) -> None:
    folder = new_run(tmp_path, [])
    write_info(folder, {**read_info(folder), "processes": []})
    text = " ".join(render(folder).split())
    assert "no Python process of the program recorded anything" in text
    assert "ov.step" in text and "inject functions FILE" in text


def test_json(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = new_run(tmp_path, [*rates(2.0, 4.0), ("data", {"lr": float("nan")})])
    for profile in (None, PLAIN):
        given(monkeypatch, profile)
        assert main([folder, "--json"]) == 0
        data = json.loads(capsys.readouterr().out)
        assert data["run"] == folder and data["exit"] == {"code": 0, "signal": None}
        assert data["summary"]["rates"][0]["overall"]["median"] == 3.0
        assert data["profile"] == plain(profile)
    assert data["profile"]["verdict"]["kind"] == "input-bound"


def test_a_command_can_be_given_to_a_shell() -> None:
    words = ["inject", "run", "my script.py", "--x", "it's", "$HOME", "", "a=b", "{x}", "é"]
    line = command_line(words)
    assert shlex.split(line) == words
    assert line.startswith("inject run 'my script.py' --x ") and line.endswith(" '' a=b {x} é")
    assert command_line(["a\x1b[31m", 3]) == "'a [31m' 3"


def test_a_stream_that_knows_no_signs() -> None:
    text = "├─ io  █▍  31 µs · a…b"
    assert encodable(text, "utf-8") == text
    assert encodable(text, "ascii") == "|- io  #   31 us - a~b"
    assert encodable("2 × cpu, 75 °C → 80 °C ┤ ± 1", "ascii") == "2 x cpu, 75 C -> 80 C + +- 1"
    assert encodable("体", "latin-1") == "\\u4f53"
    assert encodable(text, "no-such-encoding") == text
    assert encodable(text, None) == encodable(text, "ascii")


def test_what_was_lost_is_no_statement_about_training(tmp_path: Path) -> None:
    """No spans, since nothing could be stored: not the same as nothing that was trained."""
    folder = new_run(tmp_path, [("data", {"task": "train", "loss": 1.0})])
    [process] = read_info(folder)["processes"]
    lost = {**process, "lost": 7, "why": "No space left on device"}
    automatic = [{"name": "torch", "library": "torch", "version": "2", "missed": []}]
    write_info(folder, {**read_info(folder), "processes": [lost], "automatic": automatic})
    text = render(folder)
    assert text.startswith("missing  7 records of process ")
    assert "were lost: No space left on device" in text.split("inject:")[0]
    assert "what was trained is not known" in text and "no training was" not in text
