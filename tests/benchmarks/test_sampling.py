"""The measurement of what sampling costs."""

from __future__ import annotations

import json
import sys

import pytest

from benchmarks.overhead import sampling
from benchmarks.overhead.processes import answer


@pytest.mark.release
def test_the_program_tells_pairs_and_samples(tmp_path):
    words = [sys.executable, str(sampling.PROGRAM), "2", "0.2", "0.01", "2"]
    told = json.loads(answer(words, tmp_path).splitlines()[-1])
    for kind in ("pairs", "control"):
        assert len(told[kind]) == 2
        assert all(ns > 0 for pair in told[kind] for block in pair for ns in block)
    assert told["samples"] > 0 and told["cpu"] >= 0


def test_what_it_costs_is_in_percent():
    pairs = [[[100, 1000], [101, 1000]]] * 3
    assert sampling.percent(pairs, 0).median == pytest.approx(1)
    assert sampling.percent(pairs, 1).median == 0


def test_the_command_prints_and_writes(tmp_path, capsys, monkeypatch):
    block = {"samples": 10, "cpu": 0.01}
    told = {"pairs": [[[100, 100], [102, 100]]], "control": [[[100, 100], [100, 100]]], **block}
    monkeypatch.setattr(sampling, "answer", lambda words, folder: json.dumps(told))
    assert sampling.main(["--json", str(tmp_path / "found.json")]) == 1, "2 % is beyond the goal"
    message = capsys.readouterr().out
    assert "+2.000" in message and "10 samples, 1.00 ms" in message
    found = json.loads((tmp_path / "found.json").read_text())
    assert found["measured"]["1 busy, wall"]["cost"]["median"] == pytest.approx(2)
