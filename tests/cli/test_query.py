"""``inject runs`` and ``inject query`` on real runs."""

from __future__ import annotations

import csv
import json
import shutil
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))
from small_run import PROGRAM, VOIRFILE, inject, inject_here


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """A folder with one run in it."""
    folder = tmp_path_factory.mktemp("runs")
    (folder / "train.py").write_text(PROGRAM)
    (folder / "x.py").write_text(VOIRFILE)
    done = inject(folder, "run", "--voirfile", "x.py", "train.py")
    assert done.returncode == 0, done.stderr
    return folder


def ask(folder, sql):
    done = inject_here(folder, "query", "LAST", sql, "--format", "json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_steps(runs):
    [found] = ask(
        runs,
        "select count(*) n, sum(items) items, min(seconds) > 0 as real, max(loop) l from steps",
    )
    assert found == {"n": 10, "items": 40.0, "real": True, "l": 0}


def test_regions_lie_in_their_steps(runs):
    found = ask(
        runs,
        "select region, task, line, count(*) n, min(step) low, max(step) high from regions "
        "group by all order by region",
    )
    assert found == [
        {"region": "forward", "task": None, "line": 3.0, "n": 10, "low": 0.0, "high": 9.0},
        {"region": "step", "task": "train", "line": 9.0, "n": 10, "low": 0.0, "high": 9.0},
    ]


def test_values(runs):
    found = ask(runs, "select value from values where name = 'loss' order by time")
    assert [row["value"] for row in found] == [10.0 - at for at in range(10)]


def test_the_run_itself(runs):
    assert ask(runs, "select name, exit from runs") == [{"name": "train", "exit": 0}]


def test_the_list_of_runs(runs):
    done = inject_here(runs, "runs")
    assert done.returncode == 0
    head, row = done.stdout.splitlines()
    assert head.startswith("run ")
    assert row.startswith("train.")


def test_runs_that_go_on_and_suites_are_listed_by_when_they_began(tmp_path):
    for run in ("a.2026-01-01_00-00-00.000000", "a.2026-03-01_00-00-00.000000"):
        (tmp_path / ".inject" / "runs" / run / "raw").mkdir(parents=True)
    suite = tmp_path / ".inject" / "suite" / "runs" / "b.2026-02-01_00-00-00.000000"
    suite.mkdir(parents=True)
    (suite / "journal.jsonl").touch()
    done = inject_here(tmp_path, "runs", "--format", "csv")
    listed = [row["run"] for row in csv.DictReader(done.stdout.splitlines())]
    assert [run[:9] for run in listed] == ["a.2026-01", "b.2026-02", "a.2026-03"], done.stderr


@pytest.mark.parametrize(
    "words", [("report",), ("query",), ("export", "--to=prometheus"), ("compare",)]
)
def test_a_run_that_was_never_collected_is_exit_1(runs, tmp_path, words):
    [whole] = (runs / ".inject" / "runs").glob("train.*")
    torn = tmp_path / "torn"
    shutil.copytree(whole, torn)
    (torn / "run.json").unlink()
    more = {"query": ["from steps"], "compare": [str(whole)]}.get(words[0], [])
    done = inject_here(tmp_path, words[0], str(torn), *more, *words[1:])
    assert done.returncode == 1, done.stderr
    assert "there is no run.json" in done.stdout + done.stderr


def test_forms(runs):
    done = inject_here(runs, "query", "LAST", "select 1 as a, 'x' as b", "--format", "csv")
    assert list(csv.reader(done.stdout.splitlines())) == [["a", "b"], ["1", "x"]]
    path = runs / "out.parquet"
    done = inject_here(
        runs, "query", "LAST", "from steps", "--format", "parquet", "--output", str(path)
    )
    assert done.returncode == 0, done.stderr
    import pyarrow.parquet

    assert pyarrow.parquet.read_table(str(path)).num_rows == 10


def test_tags_are_in_lists_queries_reports_and_comparisons(runs, tmp_path):
    """Those of the command line before those of the voirfile; a mistake in one is said."""
    voirfile = VOIRFILE + '    ov.tag("lr", 3)\n    ov.tag("model", "m x")\n'
    (tmp_path / "train.py").write_text(PROGRAM)
    (tmp_path / "x.py").write_text(voirfile)
    tags = ("--tag", "lr=0.1", "--tag=<b>=a=b")
    done = inject(tmp_path, "run", "--voirfile", "x.py", *tags, "train.py")
    assert done.returncode == 0 and "lr=0.1 · model=m x · <b>=a=b" not in done.stdout, done.stderr
    shown = ("lr=0.1", "model=m x", "<b>=a=b")
    assert all(each in done.stderr for each in shown)
    assert all(each in inject_here(tmp_path, "runs").stdout for each in shown)
    told = json.loads(inject_here(tmp_path, "report", "--json").stdout)
    assert told["tags"] == {"lr": "0.1", "model": "m x", "<b>": "a=b"}
    [row] = ask(tmp_path, "select run, tags->>'lr' as lr from runs where tags->>'model' = 'm x'")
    assert row["lr"] == "0.1"
    [event] = ask(tmp_path, "select count(*) n from events where event = 'tagged'")
    assert event["n"] == 0
    [other] = (runs / ".inject" / "runs").iterdir()
    compared = inject_here(tmp_path, "compare", str(other), "LAST").stdout
    assert "tag lr" in compared and "tag model" in compared
    (tmp_path / "x.py").write_text(VOIRFILE + '    ov.tag("a=b", 3)\n')
    assert (
        "a key is a word without =" in inject(tmp_path, "run", "--voirfile=x.py", "train.py").stderr
    )


@pytest.mark.parametrize("tag", ["lr", "=3", " =3", "a\nb=c", "a=b\x1b"])
def test_a_tag_that_is_none(tmp_path, tag):
    (tmp_path / "train.py").write_text("print(1)")
    done = inject(tmp_path, "run", "--tag", tag, "train.py")
    assert (done.returncode, done.stdout) == (2, "") and "--tag is KEY=VALUE" in done.stderr


def test_all_of_nothing_is_exit_2(tmp_path):
    done = inject_here(tmp_path, "query", "--all", "select 1")
    assert done.returncode == 2 and "neither a run nor a suite in " in done.stderr
    assert inject_here(tmp_path, "query", "nowhere", "--all", "select 1").returncode == 2


def test_a_packed_run_is_read_as_before(runs):
    ask_of = "select count(*) n, sum(items) items, sum(seconds) s from steps"
    before, report = ask(runs, ask_of), inject_here(runs, "report").stdout
    done = inject_here(runs, "pack")
    assert done.returncode == 0, done.stderr
    assert list(runs.glob(".inject/runs/*/raw/*.parquet"))
    assert not list(runs.glob(".inject/runs/*/raw/*.spans"))
    assert ask(runs, ask_of) == before
    assert inject_here(runs, "report").stdout == report


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("query", "LAST", "selec"), "syntax error"),
        (("query", "select 1"), "name the run before the query (LAST for the newest), or --all"),
        (("query", "none", "select 1"), "has no run of that name"),
        (("query", "LAST", "select 1", "--format", "parquet"), "--output FILE"),
        (("runs", "--runs", "nowhere"), "no runs can be listed"),
        (("pack", "none"), "has no run of that name"),
    ],
)
def test_bad_input_is_exit_2(runs, words, message):
    done = inject_here(runs, *words)
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr


@pytest.fixture(scope="module")
def odd(tmp_path_factory):
    """Folders that are no runs, or none of this version."""
    folder = tmp_path_factory.mktemp("odd")
    for name in ("future", "torn"):
        (folder / name / "raw").mkdir(parents=True)
    (folder / "future" / "run.json").write_text('{"schema": 99}')
    (folder / "torn" / "run.json").write_text('{"schema": 1, "na')
    (folder / "torn" / "raw" / "h.1.log").write_text('{"event": "process", "da')
    (folder / "none").mkdir()
    return folder


@pytest.mark.parametrize(
    ("which", "message"),
    [
        ("future", "written by a later injector (its schema is 99; this one reads up to 1)"),
        ("torn", "run.json is broken: it is no JSON"),
        ("none", "holds no record of a run"),
        ("missing", "does not exist"),
    ],
)
@pytest.mark.parametrize("verb", ["report", "query", "pack", "watch"])
def test_what_is_no_run_of_ours_is_reported_alike(odd, verb, which, message):
    words = ["select * from steps"] if verb == "query" else []
    done = inject_here(odd, verb, which, *words)
    assert done.returncode == 2, done.stdout
    assert done.stderr.startswith("inject: ") and message in done.stderr
    assert "Traceback" not in done.stderr


def test_a_broken_run_json_is_listed(odd):
    done = inject_here(odd, "runs", "--runs", ".")
    assert done.returncode == 0
    assert "broken" in done.stdout and "torn" in done.stdout and "future" in done.stdout


@pytest.mark.parametrize("interval", ["0", "0s", "-1", "soon"])
def test_an_interval_is_more_than_nothing(odd, interval):
    (odd / "program.py").write_text("print('ran')")
    done = inject(odd, "run", f"--interval={interval}", "program.py")
    assert (done.returncode, done.stdout) == (2, "")
    assert (
        f"--interval is a time above 0, such as 90, 90s, 5m or 1h30m, not '{interval}'"
        in done.stderr
    )
