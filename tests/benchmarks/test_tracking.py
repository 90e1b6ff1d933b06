"""The measurement of what live tracking costs."""

from __future__ import annotations

import json

import pytest

from benchmarks.overhead import tracking
from benchmarks.overhead.processes import answer


@pytest.mark.release
def test_the_program_finds_its_tracker_and_gives_pairs(tmp_path):
    pytest.importorskip("tensorboard")
    words = tracking.run(tmp_path, "tensorboard", "1", "0.5")
    told = json.loads(answer(words, tmp_path).splitlines()[-1])
    for kind in ("pairs", "control"):
        assert len(told[kind]) == 1
        assert all(ns > 0 for pair in told[kind] for block in pair for ns in block)
    assert list((tmp_path / "tensorboard").iterdir())


def test_clocks_are_printed_and_written(tmp_path, capsys, monkeypatch):
    told = {"pairs": [[[100, 100], [102, 100]]], "control": [[[100, 100], [100, 100]]]}
    monkeypatch.setattr(tracking, "answer", lambda words, folder: json.dumps(told))
    assert tracking.main(["--json", str(tmp_path / "found.json")]) == 1, "2 % is beyond the goal"
    assert "+2.0000" in capsys.readouterr().out
    found = json.loads((tmp_path / "found.json").read_text())
    assert found["measured"]["wall"]["cost"]["median"] == pytest.approx(2)


def test_instructions_are_compared_in_pairs(tmp_path, capsys, monkeypatch):
    counts = {"wandb": 1001, None: 1000}
    monkeypatch.setattr(tracking, "instructions", lambda folder, to, steps: counts[to])
    assert tracking.main(["--instructions", "--to", "wandb", "--pairs", "3"]) == 0
    message = capsys.readouterr().out
    assert "+0.1000" in message and "control  +0.0000" in message and "n=3" in message
