"""The benchmark of a GPU, with programs that take what the test says."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import pytest

from benchmarks.overhead import gpu
from benchmarks.overhead.processes import ProgramFailed


@pytest.fixture
def costs(monkeypatch: pytest.MonkeyPatch) -> dict[str, float]:
    """Milliseconds that a step costs more, by what the command has."""
    cost = {"run": 0.01}

    def timed(
        name: str, before: list[str], folder: str, options: argparse.Namespace
    ) -> tuple[float, float | None]:
        if name == "transformer":
            raise ProgramFailed("no compiler")
        step = 1.0 if name == "small" else 8.0
        step += sum(more for word, more in cost.items() if word in before)
        return step, None if name == "nanogpt" else step / 2

    monkeypatch.setattr(gpu, "timed", timed)
    return cost


def test_what_is_printed_and_kept(
    costs: dict[str, float], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    costs["--interval"] = 0.002
    file = tmp_path / "gpu.json"
    words = ["--rounds", "2", "--sampled", "--nanogpt", "x", "--json", str(file)]
    assert gpu.main(words) == 0
    out, err = capsys.readouterr()
    assert "mlp: 8.000 ms a step" in out and "nanogpt: 8.000 ms a step" in out
    assert "transformer is left out: no compiler" in err
    assert sum("+10.0" in line for line in out.splitlines()) == 4
    assert sum("+12.0" in line for line in out.splitlines()) == 4
    measured = json.loads(file.read_text())["measured"]
    assert [each["wall"] for each in measured["mlp"]["inject run"]] == [8.01, 8.01]
    assert measured["nanogpt"]["python"][0]["cpu"] is None


@pytest.mark.parametrize(
    ("model", "cost", "missed"), [("mlp", 0.03, 0), ("mlp", 0.041, 1), ("small", 0.5, 0)]
)
def test_a_goal_that_was_missed(
    costs: dict[str, float], model: str, cost: float, missed: int
) -> None:
    """The goal is for steps of 2 ms and more."""
    costs["run"] = cost
    assert gpu.main(["--rounds", "2", "--only", model]) == missed
