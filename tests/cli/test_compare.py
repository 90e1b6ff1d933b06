"""``inject compare`` as it is called: what it takes, prints, writes and ends with."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from injector.cli import compare

for each in ("compare", "analysis"):
    sys.path.insert(0, str(Path(__file__).parents[1] / each))
from sampled import folder  # noqa: E402


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """Three runs, three that read twice as long, and one without a loop."""
    made = tmp_path_factory.mktemp("runs")
    for number in range(3):
        folder(made / "fast" / f"r{number}", number)
        folder(made / "slow" / f"r{number}", 10 + number, io=2.0)
    (made / "nothing").mkdir()
    (made / "empty" / "raw").mkdir(parents=True)
    (made / "empty" / "run.json").write_text('{"schema": 1, "name": "train", "exit": {"code": 0}}')
    return made


def test_runs_beside_each_other(home, capsys):
    assert compare.main([str(home / "fast"), str(home / "slow")]) == 0
    out = capsys.readouterr().out
    assert "train (train.py:main) is slower: a step takes 12.4 % more" in out.replace("\n    ", " ")
    assert "in io, 100 % of the change" in out.replace("\n    ", " ")


@pytest.mark.parametrize(
    ("sides", "limits", "code"),
    [
        (("fast", "slow"), ["step_time>5%"], 4),
        (("fast", "slow"), ["step_time>20%"], 0),
        (("fast", "slow"), ["step_time>20%", "io>50%"], 4),
        (("fast", "slow"), ["throughput>5%"], 4),
        (("slow", "fast"), ["step_time>5%", "io>5%", "throughput>5%"], 0),
        (("fast/r0", "fast/r1"), ["step_time>0%"], 3),
        (("fast", "slow", "fast"), ["step_time>5%"], 4),
    ],
)
def test_the_exit_code_is_the_gate_s(home, capsys, sides, limits, code):
    words = [str(home / each) for each in sides]
    for each in limits:
        words += ["--fail-on", each]
    assert compare.main(words) == code, capsys.readouterr().out


@pytest.mark.parametrize(
    ("name", "start"), [("c.md", "## "), ("c.json", "{"), ("c.txt", "compare: ")]
)
def test_the_suffix_says_the_format(home, tmp_path, capsys, name, start):
    path = tmp_path / name
    assert compare.main([str(home / "fast"), str(home / "slow"), "-o", str(path)]) == 0
    assert path.read_text().startswith(start) and not capsys.readouterr().out


def test_json_has_every_figure(home, capsys):
    assert compare.main([str(home / "fast"), str(home / "slow"), "--format", "json"]) == 0
    [found] = json.loads(capsys.readouterr().out)["comparisons"]
    [loop] = found["benchmarks"][0]["loops"]
    assert found["benchmarks"][0]["runs"] == [3, 3] and not found["missing"]
    assert loop["step_time"]["low"] < 1.125 < loop["step_time"]["high"]
    assert loop["step_time"]["before"] == pytest.approx(8e-3, rel=0.02)
    assert loop["regions"]["io"]["ratio"] == pytest.approx(2, rel=0.02)


def test_a_baseline_kept_in_a_repository(home, tmp_path, capsys):
    path = tmp_path / "baseline.json"
    assert compare.main([str(home / "fast"), "--save-baseline", str(path)]) == 0
    gate = ["--baseline", str(path), "--fail-on", "step_time>5%"]
    assert compare.main([str(home / "slow"), *gate]) == 4
    assert compare.main([str(home / "fast"), *gate]) == 0
    assert compare.main([str(path), str(home / "slow"), "--fail-on", "io>5%"]) == 4
    assert "fast (3 runs) (before) with slow (3 runs) (after)" in capsys.readouterr().out


def test_nothing_in_common(home, capsys):
    assert compare.main([str(home / "fast"), str(home / "empty")]) == 3
    assert "nothing in common" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["fast"], "one run alone"),
        (["fast", "absent"], "absent"),
        (["fast", "nothing"], "neither a run, a suite nor a folder of runs"),
        (["fast", "slow", "--fail-on", "step_time"], "no threshold"),
        (["fast", "slow", "--fail-on", "auc>5%"], "neither side has auc"),
        (["fast", "slow", "-o", "out.pdf"], "no format of that suffix"),
        (["fast", "slow", "-o", "absent/out.md"], "No such file"),
        (["fast", "--baseline", "absent.json"], "absent.json: No such file"),
        (["fast", "--baseline", "fast/r0/run.json"], "no baseline"),
        (["fast", "--save-baseline", "absent/b.json"], "--save-baseline absent/b.json"),
    ],
)
def test_bad_input(home, monkeypatch, capsys, words, said):
    monkeypatch.chdir(home)
    assert compare.main(words) == 2
    out, err = capsys.readouterr()
    assert err.startswith("inject: ") and said in err and not out


def test_a_damaged_run_is_said_first(home, tmp_path, capsys):
    folder(tmp_path / "later", 1, schema=99)
    assert compare.main([str(home / "fast"), str(tmp_path / "later")]) == 2
    whole = folder(tmp_path / "lost", 1)
    facts = json.loads((whole / "run.json").read_text())
    facts["processes"] = [{"pid": 1, "host": "h", "lost": 3, "log": "h.1.log"}]
    (whole / "run.json").write_text(json.dumps(facts))
    capsys.readouterr()
    assert compare.main([str(home / "fast"), str(whole)]) == 1
    assert capsys.readouterr().out.startswith("missing\n  - after: 3 records")
    assert compare.main([str(home / "fast"), str(whole), "--fail-on", "step_time>50%"]) == 3
