"""What a suite's report says, in each of its forms."""

from __future__ import annotations

import csv
import gzip
import io
import json
import re

import pytest
from suitefolders import SuiteFolder, state, write_monitor

from injector.cli import compare
from injector.compare import sides
from injector.errors import UserError
from injector.suite.results import scores
from injector.suite.results.suite_report import FORMATS, cells, explored, render, render_exploration

SIX = [10.0, 11.0, 12.0, 13.0, 14.0, 60.0]
STDERR = 'Traceback (most recent call last):\n  File "x.py", line 1\nValueError: no luck\n'


@pytest.fixture()
def suite(tmp_path):
    made = SuiteFolder(tmp_path / "toy.2026-01-01_10-00-00.000001")
    made.plan["machine"].update(devices=[{"key": "cuda:0", "name": "H1", "memory": 80e9}] * 2)
    device = [state(0.5), state(0.9), state(1.0)]
    made.benchmark("vision", weight=2, tags=["v"])
    for slot in (0, 1):
        made.process("vision", SIX, slot=slot, devices=[f"cuda:{slot}"], losses=[1.0] * 9 + [2.0] * 9,
                     packages={"torch": "2.13.0"}, stderr="x")  # fmt: skip
        write_monitor(made.path / "jobs" / f"vision.R0.D{slot}", [device])
    made.process("broken", [], code=1, stderr=STDERR)
    made.leave_out("big", "needs 2 machines; this is one")
    made.closed = False
    return made.read()


def test_on_a_terminal(suite):
    text = render(suite)
    lines = text.splitlines()
    assert lines[0] == "suite toy  /x/toy.yaml"
    assert "  devices    2 × H1, 80.0 GB · driver 575.51" in lines
    assert "  machine    node7 · AMD EPYC · 2 cores · 16.0 GB · Linux 6.1 x86_64" in lines
    [vision] = [line.split() for line in lines if line.startswith("  vision ")]
    # Both devices: 17, of each 12.5; 300 W for 2 s.
    assert vision[:5] == ["vision", "0", "2", "1", "17.00"]
    assert vision[7:] == ["40.00", "0.600", "0.05667", "25.00", "2"]
    [broken] = [line.split() for line in lines if line.startswith("  broken ") and "–" in line]
    assert broken == ["broken", "1", "1", "1", "–", "–", "–", "–", "–", "–", "0", "1"]
    assert "score  8.776, over a weight of 3" in lines
    assert "       FAIL: 1 of 3 runs failed, 33.3 %" in lines
    assert "    error: exit code 1: ValueError: no luck" in lines
    assert "      | ValueError: no luck" in lines
    assert "  - big: needs 2 machines; this is one" in lines
    assert any("--resume" in line for line in lines)
    assert lines[-1].endswith("toy.2026-01-01_10-00-00.000001")
    warnings = lines[lines.index("warnings") :]
    assert any("loss did not fall" in line for line in warnings)
    assert max(map(len, lines[:-1])) <= 128


def test_the_time_that_a_suite_ran_is_without_the_pauses_before_it_was_resumed(tmp_path):
    made = SuiteFolder(tmp_path / "toy.1")
    made.process("a", SIX)
    began = made.journal[0]["time"]
    events = ("interrupted", 10), ("resume", 86_410), ("end", 86_415)
    made.journal += [{"event": event, "time": began + at} for event, at in events]
    suite = made.read()
    assert suite.ended == began + 86_415
    assert cells.took(suite) == "15.0 s"


def logs(made, benchmark, **values):
    """The process of ``benchmark`` logs ``values`` as well."""
    [file] = (made.path / "jobs" / f"{benchmark}.R0.D0").glob("*.data")
    event = {"event": "data", "data": {"task": "log", **values}, "pipe": "data"}
    with file.open("a") as stream:
        stream.write(json.dumps(event) + "\n")


def test_times_of_tasks_have_a_table_in_the_unit_that_their_names_say(tmp_path):
    made = SuiteFolder(tmp_path / "toy.2026-01-01_10-00-00.000001")
    for name in ("trees", "forest", "other"):
        made.benchmark(name)
        made.process(name, SIX)
    logs(made, "trees", time_training=2.5, prediction_latency_p99_usecs=1500.0)
    logs(made, "forest", time_training=0.25)
    found = made.read()
    lines = render(found).splitlines()
    at = next(n for n, line in enumerate(lines) if line.startswith("task "))
    assert lines[at].split() == ["task", "time_training", "prediction_latency_p99_usecs"]
    assert lines[at + 1].split() == ["trees", "2.500", "s", "1500", "µs"]
    assert lines[at + 2].split() == ["forest", "250.0", "ms", "–"] and not lines[at + 3]
    assert "| trees | 2.500 s | 1500 µs |" in render(found, "md")


def test_of_latencies_the_smallest_is_the_best(tmp_path):
    made = SuiteFolder(tmp_path / "toy.2026-01-01_10-00-00.000001")
    for name, value in (("slow", 1500.0), ("fast", 12.5)):
        made.benchmark(name)
        made.process(name, SIX)
        logs(made, name, prediction_latency_p99_usecs=value)
    target = "prediction_latency_p99_usecs"
    found = render_exploration(explored(made.read(), target), "csv")
    assert [line.split(",")[0] for line in found.splitlines()] == ["benchmark", "fast", "slow"]
    shown = render_exploration(explored(made.read(), target), "terminal").splitlines()
    assert f"{target}, µs" in shown[0] and shown[1].split() == ["fast", "1", "12.50"]


def test_what_is_no_number_is_no_target(tmp_path):
    made = SuiteFolder(tmp_path / "toy.2026-01-01_10-00-00.000001")
    made.process("one", SIX)
    with pytest.raises(UserError, match="--target host: a number is ordered"):
        explored(made.read(), "host")


def test_as_data(suite):
    answer = json.loads(render(suite, "json"))
    assert (answer["fail"], answer["n"], answer["passed"]) == (1, 3, False)
    assert answer["score"] == pytest.approx(26 ** (2 / 3))
    vision, broken = answer["benchmarks"]
    assert (vision["peak_memory"], vision["energy"], vision["tags"]) == (40e9, 600, ["v"])
    assert vision["runs"][0]["rates"] == SIX
    assert vision["runs"][0]["load"] == [pytest.approx(0.8)]
    assert [f["lines"][-1] for f in broken["runs"][0]["findings"] if f["lines"]] == [
        "ValueError: no luck"
    ]
    assert answer["left_out"] == [
        {"benchmark": "big", "reason": "needs 2 machines; this is one", "failure": False,
         "weight": 0}
    ]  # fmt: skip


def test_as_columns(suite):
    found = list(csv.DictReader(io.StringIO(render(suite, "csv"))))
    assert [(each["benchmark"], each["fail"], each["perf"]) for each in found] == [
        ("vision", "0", "17.0"),
        ("broken", "1", ""),
    ]


def test_in_markdown(suite):
    text = render(suite, "md")
    assert "**Score 8.776, over a weight of 3** · FAIL: 1 of 3 runs failed, 33.3 %" in text
    assert "| vision | 0 | 2 | 1 | 17.00 |" in text
    assert "- **broken** error: exit code 1: ValueError: no luck (broken.R0.D0)" in text
    assert "  ValueError: no luck" in text


@pytest.mark.parametrize("form", FORMATS)
def test_a_suite_of_which_nothing_ran(tmp_path, form):
    made = SuiteFolder(tmp_path)
    made.closed = False
    assert render(made.read(), form)


def test_names_that_a_table_would_take_for_its_own(tmp_path):
    made = SuiteFolder(tmp_path)
    made.process("a|b_c*", SIX)
    assert r"| a\|b\_c\* |" in render(made.read(), "md")


def test_a_failure_that_many_share_is_reported_once(tmp_path):
    made = SuiteFolder(tmp_path)
    for slot in range(3):
        text = STDERR.replace("no luck", f"{slot} bytes at 0x{slot}")
        made.process("a", [], slot=slot, code=1, stderr=text)
    suite = made.read()
    found = cells.shared_findings(suite.benchmarks[0], "failure")
    assert [each.keys for each in found if each.sentence.startswith("error")] == [
        ["a.R0.D0", "a.R0.D1", "a.R0.D2"]
    ]


def test_what_has_no_items_says_its_unit(tmp_path):
    made = SuiteFolder(tmp_path)
    key = made.process("a", SIX)
    path = made.path / "jobs" / key / "x.D0.data"
    path.write_text(path.read_text().replace("items/s", "steps/s"))
    assert "  perf is in steps/s: a" in render(made.read())


@pytest.mark.parametrize("form", FORMATS)
def test_where_everything_failed_there_is_no_score(tmp_path, form):
    """The formula gives 1 for scores of 0, which would look like a result."""
    made = SuiteFolder(tmp_path)
    made.process("a", [], code=1)
    made.leave_out("big", "needs 2 machines; this is one", weight=1.0)
    suite = made.read()
    assert scores.total(suite).score is None
    text = render(suite, form)
    assert not re.search(r"\b1\.000?\b", text)
    if form in ("terminal", "md"):
        assert "nothing that counts has passed" in text
    if form == "json":
        assert json.loads(text)["score"] is None


def test_both_verbs_take_the_same_options_and_compress(tmp_path, capsys):
    """`inject report` of a suite is `inject suite report`; of a run it refuses what suites alone have."""
    from injector import cli
    from injector.cli import report as of_run
    from injector.cli.suite import report as of_suite

    made = SuiteFolder(tmp_path / "runs" / "toy.2026-11-24_16-00-00.000000")
    made.process("a", [3.0] * 5)
    made.process("b", [4.0] * 5)
    path = str(made.write())
    own = {"which", "run", "runs"}
    options = [{each.dest for each in m.parser()._actions} - own for m in (of_run, of_suite)]
    assert options[0] == options[1]
    outputs = []
    for verb in (["report"], ["suite", "report"]):
        for words in ([path], ["LAST", "--base", str(tmp_path)]):
            more = ["--query", "benchmark == 'a'", "--target", "perf", "--format", "json"]
            assert cli.main([*verb, *words, *more]) == 0
            outputs.append(capsys.readouterr().out)
        file = tmp_path / "out.json.gz"
        assert cli.main([*verb, path, "-o", str(file)]) == 0
        assert json.loads(gzip.decompress(file.read_bytes()))["n"] == 2
    assert len(set(outputs)) == 1 and '"a"' in outputs[0] and '"b"' not in outputs[0]
    run = str(tmp_path / "runs" / made.path.name / "jobs" / "a.R0.D0")
    assert cli.main(["report", run, "--scaling", "weak"]) == 2
    assert "--scaling is for the report of a suite" in capsys.readouterr().err


def test_a_broken_run_of_a_suite_is_missing_from_a_comparison(tmp_path, capsys):
    made = SuiteFolder(tmp_path / "toy.1")
    for slot in (0, 1):
        made.process("a", SIX, slot=slot)
    path = str(made.write())
    assert compare.main([path, path]) == 0
    whole = capsys.readouterr().out
    assert "differs" not in whole
    (made.path / "jobs/a.R0.D1/run.json").write_text("{")
    assert compare.main([path, path]) == 1
    out = capsys.readouterr().out
    assert "after, run 2: run.json is broken" in out and "differs" not in out
    assert compare.main([path, path, "--fail-on", "duration>5%"]) == 3
    with pytest.raises(UserError, match="is broken"):
        sides.of_runs("alone", [("", "", str(made.path / "jobs/a.R0.D1"))])
