"""``inject compare`` as it is called: what it takes, prints, writes and ends with."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

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


def test_a_baseline_of_a_damaged_run_names_the_damage(tmp_path, capsys):
    path = folder(tmp_path / "lost", 1)
    facts = json.loads((path / "run.json").read_text())
    facts["processes"] = [{"pid": 1, "host": "h", "lost": 3, "log": "h.1.log"}]
    (path / "run.json").write_text(json.dumps(facts))
    saved = tmp_path / "b.json"
    assert compare.main([str(path), "--save-baseline", str(saved)]) == 1
    assert "inject: lost: 3 records of process 1 on h were lost" in capsys.readouterr().err
    assert saved.exists()


@pytest.mark.parametrize("limit", [(), ("--fail-on", "step_time>5%"), ("--fail-on", "memory>5%")])
@pytest.mark.parametrize(("one", "two"), [("fast", "empty"), ("empty", "fast"), ("fast", "short")])
def test_nothing_in_common(home, tmp_path, capsys, one, two, limit):
    """Both last some time, which is no measure of a program that trains beside one that does not."""
    made = tmp_path / "short"
    made.mkdir()
    facts = {"schema": 1, "name": "train", "exit": {"code": 0}, "duration": 0.1, "peak_rss": 10**7}
    (made / "run.json").write_text(json.dumps(facts))
    sides = [str(made if each == "short" else home / each) for each in (one, two)]
    assert compare.main([*sides, *limit]) == 3
    out, err = capsys.readouterr()
    which = "after" if one == "empty" else "before"
    assert f"nothing in common to compare: there are steps only {which}" in err
    assert f"nothing can be compared: there are steps only {which}" in out


def test_programs_that_do_not_train_are_compared_by_how_long_they_take(tmp_path, capsys):
    for name in "ab":
        facts = {"schema": 1, "name": "x", "exit": {"code": 0}, "duration": 2.0, "peak_rss": 10**7}
        facts |= {"command": ["inject", "run", "-q", f"/somewhere/{name}.py", "--lr", name]}
        facts |= {"program": {"script": f"{name}.py"}}
        (tmp_path / name).mkdir()
        (tmp_path / name / "run.json").write_text(json.dumps(facts))
    assert compare.main([str(tmp_path / "a"), str(tmp_path / "b")]) == 0
    out = capsys.readouterr().out
    assert "a.py --lr a" in out and "inject run" not in out and "duration" in out


def test_a_value_that_only_one_side_recorded(home, tmp_path, capsys):
    """Neither a mistake of whoever asked, nor held."""
    known = {}
    for name in ("before", "after"):
        path = tmp_path / f"{name}.json"
        assert compare.main([str(home / "fast"), "--save-baseline", str(path)]) == 0
        known[name] = json.loads(path.read_text())
    for run in known["before"]["benchmarks"]["train"]:
        run["totals"]["f1"] = 0.9
    (tmp_path / "before.json").write_text(json.dumps(known["before"]))
    sides = [str(tmp_path / f"{name}.json") for name in ("before", "after")]
    assert compare.main([*sides, "--fail-on", "f1<-1%"]) == 3
    assert "f1 is only there before" in capsys.readouterr().out
    assert compare.main([*sides, "--fail-on", "step_time>5%"]) == 0


@pytest.mark.parametrize(
    ("words", "message"),
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
def test_bad_input(home, monkeypatch, capsys, words, message):
    monkeypatch.chdir(home)
    assert compare.main(words) == 2
    out, err = capsys.readouterr()
    assert err.startswith("inject: ") and message in err and not out


def test_a_damaged_run_is_reported_first(home, tmp_path, capsys):
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
    assert compare.main([str(whole), str(home / "fast"), "--fail-on", "step_time>50%"]) == 3


KINDS = ("run", "runs", "baseline", "no steps", "lost", "failed")


@pytest.mark.parametrize("form", ["terminal", "md", "json"])
@pytest.mark.parametrize("limits", [(), ("step_time>50%",), ("throughput>50%", "io>50%")])
@pytest.mark.parametrize("before", KINDS)
@pytest.mark.parametrize("after", KINDS)
def test_any_two_in_any_form(home, tmp_path, capsys, before, after, limits, form):
    """What cannot be compared or judged is never within the thresholds, and always said."""

    def made(kind: str, which: str) -> str:
        if kind in ("run", "runs", "no steps"):
            return str(home / {"run": "fast/r0", "runs": "fast", "no steps": "empty"}[kind])
        path = folder(tmp_path / which, 1)
        if kind == "lost":
            facts = json.loads((path / "run.json").read_text())
            facts["processes"] = [{"pid": 1, "host": "h", "lost": 3, "log": "h.1.log"}]
            (path / "run.json").write_text(json.dumps(facts))
        elif kind == "failed":
            facts = json.loads((path / "run.json").read_text())
            (path / "run.json").write_text(json.dumps({**facts, "exit": {"code": 7}}))
        else:
            saved = tmp_path / f"{which}.json"
            assert compare.main([str(path), "--save-baseline", str(saved)]) == 0
            return str(saved)
        return str(path)

    words = [made(before, "before"), made(after, "after"), "--format", form]
    for each in limits:
        words += ["--fail-on", each]
    code = compare.main(words)
    out, err = capsys.readouterr()
    kinds, damaged = {before, after}, {before, after} & {"lost", "failed"}
    if "no steps" in kinds:
        assert (code, "nothing in common" in err) == (3, True)
    elif damaged:
        assert code == (3 if limits else 1 if "lost" in damaged else 0)
        assert "missing" in out.partition("\n")[0] or form != "terminal"
    else:
        assert code == 0
    if form == "json":
        json.loads(out)
    assert "Traceback" not in err


STUB = """\
#!/bin/sh
test "$1" = compare || exit 0
while [ "$1" != -o ]; do shift; done
test {code} -eq 2 || echo the table > "$2"
exit {code}
"""


@pytest.mark.parametrize("code", [0, 1, 2, 3, 4])
def test_the_workflow_of_the_docs_fails_where_the_gate_does(tmp_path, code):
    """As GitHub runs it, ``bash -e``: with the table in the summary whatever the gate said."""
    text = (Path(__file__).parents[2] / "docs" / "compare.md").read_text()
    [workflow] = re.findall(r"```yaml\n(.*?)```", text, re.DOTALL)
    steps = yaml.safe_load(workflow)["jobs"]["speed"]["steps"]
    *_, repeat, gate = [step["run"] for step in steps if "run" in step]
    (tmp_path / "inject").write_text(STUB.format(code=code))
    (tmp_path / "inject").chmod(0o755)
    summary = tmp_path / "summary.md"
    environ = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "GITHUB_STEP_SUMMARY": str(summary)}
    for words in (repeat, gate):
        done = subprocess.run(["bash", "-e", "-c", words], cwd=tmp_path, env=environ, check=False)
    assert done.returncode == code
    assert not summary.exists() if code == 2 else summary.read_text() == "the table\n"
