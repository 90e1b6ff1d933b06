"""Old run folders of milabench give the numbers of its own report.

GOLDEN is what milabench's `make_summary` and `make_dataframe` (July 2026, faf39234) say of the same folder.
"""

from __future__ import annotations

import json
from copy import deepcopy
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from milabenchfolders import UNIX, config, folder, write

from injector.cli import compare
from injector.compat import milabench
from injector.suite.config.model import Benchmark, Suite
from injector.suite.config.problems import Where
from injector.suite.plan.jobs import LeftOut
from injector.suite.results import scores, suite_reader, suite_summary
from injector.suite.results.suite_report import render

MIB = 1 << 20

GOLDEN = {
    # fail, n, ngpu, perf, std %, sem %, peak memory (MiB), score, weight
    "alpha": (0, 2, 1, 95.63867391259915, 0.1131777744645369, 0.024129582591372982, 16471,
              191.6150139930877, 1),
    "few": (0, 1, 1, 6.164055715313547, 0.07046820450164347, 0.035234102250821735, 17934,
            6.164055715313547, 3),
    "half": (1, 2, 1, 10.24519441016229, 0.09301316508326773, 0.020297136648642758, 13202,
             10.156064627044504, 1),
    "jobs-gpus": (0, 1, 2, 1040.6918122434392, 0.06430686796015224, 0.02625316890981752, 20369,
                  1040.6918122434392, 1),
    "nan": (1, 1, 1, 10.160964477034764, 0.08467072243412878, 0.04233536121706439, 14566, 0, 1),
    "repeats": (0, 2, 1, 37.92131154024834, 0.08069570568893016, 0.02017392642223254, 18894,
                37.92131154024834, 2),
    "silent": (1, 1, 1, None, None, None, 15811, 0, 1),
}  # fmt: skip
ENERGY = {  # of benchmarks with one run: kJ, perf per kW
    "few": (2.7038827973089337, 23.93690476347867),
    "jobs-gpus": (5.319322691534219, 2054.2585329419885),
    "nan": (3.2053513099272783, 33.28500270108787),
}
SCORE, FAILURE_RATE = 16.20239518190252, 0.3


def read(path):
    return suite_reader.summarise(path, [milabench])


@pytest.fixture()
def suite(tmp_path):
    return read(str(folder(tmp_path / "toy.2025-04-15_11:49:00")))


def test_every_figure_is_milabenchs(suite):
    rows = {row.benchmark: row for row in scores.rows(suite)}
    assert sorted(rows) == sorted(GOLDEN)
    for name, golden in GOLDEN.items():
        row = rows[name]
        memory = row.peak_memory / MIB
        found = (
            row.fail,
            row.n,
            row.ngpu,
            row.perf,
            row.std,
            row.sem,
            memory,
            row.score,
            row.weight,
        )
        for figure, wanted in zip(found, golden, strict=True):
            assert figure == (wanted and pytest.approx(wanted, rel=1e-12)), name
    for name, (energy, watts) in ENERGY.items():
        assert rows[name].energy == pytest.approx(energy * 1e3, rel=1e-9)
        assert rows[name].perf_per_watt == pytest.approx(watts / 1e3, rel=1e-9)
    total = scores.total(suite)
    assert total.score == pytest.approx(SCORE, rel=1e-12)
    assert total.failure_rate == FAILURE_RATE


def test_what_it_ran_on(suite):
    assert (suite.origin, suite.name) == ("milabench", "toy.2025-04-15_11:49:00")
    assert (suite.machine["cpu"], suite.machine["driver"]) == ("Xeon", "560.35.03")
    assert [each["name"] for each in suite.machine["devices"]] == ["NVIDIA H1"] * 2
    assert any("divide by n" in note for note in suite.notes)
    assert (suite.started, suite.ended) == (UNIX, UNIX + 60)
    assert suite.missing == [], "its runs have no run.json, and miss none"


def test_why_something_failed(suite):
    printed = {
        benchmark.name: [f.sentence for p in benchmark.processes for f in p.findings if f.fails]
        for benchmark in suite.benchmarks
    }
    assert printed["half"] == ["exit code 1: RuntimeError: no such kernel"]
    assert printed["nan"] == ["1 of 2 values of loss are not a number"]
    assert printed["silent"] == ["no rate came"]
    assert printed["jobs-gpus"] == [], "an early stop with exit code 1 is a success"


def test_what_has_no_end_is_a_failure_here(tmp_path):
    """milabench's report leaves such a run out: 0.00 % failures, PASS."""
    path = folder(tmp_path / "toy")
    write(path / "killed.D0.data", config("killed", 0), [5.0] * 9, end=False)
    (path / "empty.D0.data").write_text("")
    with (path / "few.D0.data").open("a") as file:
        file.write('{"event": "end", "da')
    suite = read(str(path))
    rows = {row.benchmark: row for row in scores.rows(suite)}
    assert (rows["killed"].fail, rows["killed"].n, rows["killed"].score) == (1, 1, 0)
    assert (rows["empty"].fail, rows["empty"].n) == (1, 1)
    assert rows["few"].fail == 1, "what is torn is missing"
    states = {p.state for b in suite.benchmarks for p in b.processes if b.name == "killed"}
    assert states == {"started"}
    assert any("2 runs have no end" in note for note in suite.notes)
    assert suite.missing == ["few.D0: 1 line of its record torn, and left out"]


@pytest.mark.parametrize(
    ("plan", "files", "described", "missing"),
    [
        # milabench's replays planning_njobs_bad, planning_njobs_good, planning_per_gpu_bad, …_good
        ({"method": "njobs", "n": 3}, [None], 0, 2),
        ({"method": "njobs", "n": 3}, [None, None, None], 0, 0),
        ({"method": "per_gpu"}, [7], 0, 1),
        ({"method": "per_gpu"}, [6, 7], 0, 0),
        ({"method": "per-gpu"}, [1], 2, 1),
        ({"method": "per_gpu"}, [0, 1], 2, 0),
        ({"method": "per_gpu"}, [0], 0, 0),
        ({"method": "njobs"}, [None], 8, 0),
    ],
)
def test_runs_that_its_plan_names_and_that_left_nothing_have_failed(
    tmp_path, plan, files, described, missing
):
    for number, device in enumerate(files):
        made = config("a", device, plan=plan)
        write(tmp_path / f"a.{number}.data", made, [1.0] * 6, described=described)
    [row] = scores.rows(read(str(tmp_path)))
    assert (row.n, row.fail) == (len(files) + missing, missing)


def test_devices_that_only_another_benchmark_names_are_missed(tmp_path):
    for name, device in (("a", 0), ("a", 1), ("b", 0)):
        write(tmp_path / f"{name}.D{device}.data", config(name, device), [1.0] * 6, described=0)
    rows = {row.benchmark: row.fail for row in scores.rows(read(str(tmp_path)))}
    assert rows == {"a": 0, "b": 1}


def test_what_was_left_out_counts_in_the_score_as_there(suite):
    left_out = (LeftOut("big-nodes", "Skip big-nodes", weight=2.0),)
    whole = scores.total(replace(suite, left_out=left_out))
    assert whole.score == pytest.approx((SCORE) ** (10 / 12), rel=1e-12)
    assert whole.score_of_run == pytest.approx(SCORE, rel=1e-12)
    assert (whole.weight, whole.left_out, whole.fail) == (12, 2, 3)
    text = render(replace(suite, left_out=left_out))
    assert "what was left out counts 0 with a weight of 2: 16.20 without it" in text


def test_what_was_left_out_on_purpose_is_no_failure(tmp_path):
    path = folder(tmp_path / "toy")
    text = "Skip big-nodes because the following capability is not satisfied: len(nodes) >= 2"
    line = '{"event": "message", "data": {"message": "%s"}, "pipe": null}\n' % text  # noqa: UP031
    (path / "big-nodes.0.data").write_text(line)
    suite = read(str(path))
    assert [(each.benchmark, each.reason, each.failure) for each in suite.left_out] == [
        ("big-nodes", text, False)
    ]
    assert scores.total(suite).fail == 3


def test_folders_of_installing_and_preparing_hold_no_runs(tmp_path):
    path = folder(tmp_path / "runs" / "toy")
    for name in ("install.x", "prepare.x"):
        (path.parent / name).mkdir()
        write(path.parent / name / "alpha.data", config("alpha", 0), [], code=1)
    assert scores.total(read(str(path.parent))).n == 10


def test_a_suite_says_what_should_have_run_and_what_it_counts(suite):
    names = {"alpha": 4.0, "never": 1.0, "off": 1.0}
    benchmarks = tuple(
        Benchmark(name, Where("s.yaml", 1), {"weight": weight, "enabled": name != "off"})
        for name, weight in names.items()
    )
    found = suite_summary.as_planned_by(suite, Suite("s", suite.folder, benchmarks))
    rows = {row.benchmark: row for row in scores.rows(found)}
    assert (rows["never"].fail, rows["never"].n, rows["never"].score) == (1, 1, 0)
    assert rows["alpha"].weight == 4 and "off" not in rows
    [printed] = [f.sentence for b in found.benchmarks if b.name == "never" for f in b.findings]
    assert printed == "it did not run: there is no record of it"


def test_samples_without_power_or_of_other_devices(tmp_path):
    write(tmp_path / "a.D7.data", config("a", 7), [1.0] * 6)
    text = (tmp_path / "a.D7.data").read_text().replace('"power"', '"watts"')
    (tmp_path / "a.D7.data").write_text(text)
    [row] = scores.rows(read(str(tmp_path)))
    assert (row.energy, row.perf_per_watt, row.peak_memory, row.perf) == (None, None, None, 1)


def test_a_folder_of_anything_holds_no_runs(tmp_path):
    """Of runs that lie deeper than a base folder has them, and of our own, nothing is made a suite."""
    folder(tmp_path / "some" / "where" / "else" / "toy")
    ours = tmp_path / "train.2026-01-01_00-00-00.000000"
    ours.mkdir()
    write(ours / "x.data", config("x", 0), [1.0])
    (ours / "run.json").write_text("{}")
    with pytest.raises(suite_reader.NoResultsError, match="neither plan"):
        read(str(tmp_path))
    with pytest.raises(suite_reader.NoResultsError, match="it is one run: inject report"):
        read(str(ours))
    folder(tmp_path / "runs" / "toy")
    assert scores.total(read(str(tmp_path))).n == 10


@pytest.mark.parametrize(
    ("factor", "processes", "verdict"),
    [
        (1.0, 4, "same"),
        (1.0, 1, "cannot tell"),  # what another run would differ by, one run cannot tell
        *[(1.25, processes, "faster") for processes in (1, 4)],
        *[(0.8, processes, "slower") for processes in (1, 4)],
    ],
)
def test_its_folders_are_compared_by_their_rates(tmp_path, capsys, factor, processes, verdict):
    for name, scale in (("one", 1.0), ("two", factor)):
        (tmp_path / name).mkdir()
        for benchmark in ("alpha", "beta"):
            for device in range(processes):
                rates = [scale * (100.0 + turn % 5 + device / 8) for turn in range(60)]
                path = tmp_path / name / f"{benchmark}.D{device}.data"
                write(path, config(benchmark, device), rates)
    sides = [str(tmp_path / name) for name in ("one", "two")]
    assert compare.main([*sides, "--format", "json"]) == 0
    [found] = json.loads(capsys.readouterr().out)["comparisons"]
    assert [each["name"] for each in found["benchmarks"]] == ["alpha", "beta"]
    for each in found["benchmarks"]:
        [loop] = each["loops"]
        assert loop["throughput"]["after"] / loop["throughput"]["before"] == pytest.approx(factor)
        assert loop["step_time"]["verdict"] == verdict
    gate = [*sides, "--fail-on", "throughput>10%"]
    assert compare.main(gate) == (4 if verdict == "slower" else 0)


def test_a_run_without_rates_is_named(tmp_path, capsys):
    for name, rates in (("one", [5.0] * 60), ("two", [])):
        (tmp_path / name).mkdir()
        write(tmp_path / name / "a.D0.data", config("a", 0), rates)
    assert compare.main([str(tmp_path / name) for name in ("one", "two")]) == 3
    captured = capsys.readouterr()
    assert "there are steps only before" in captured.err and "no rate came" in captured.out


ODD = st.sampled_from([None, True, 0, -1, 10**25, 2.5, 1e308, "", "x", [], [1], {}, {"a": 1}])


def paths_in(value: Any, above: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The keys that lead to each value in the maps of ``value``."""
    inner = value.items() if isinstance(value, dict) else ()
    return [p for key, item in inner for p in [(*above, key), *paths_in(item, (*above, key))]]


@given(st.data())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
def test_a_value_of_another_form_is_no_traceback(tmp_path_factory, data):
    """In a file that was edited or damaged, any value of any event may be of any kind."""
    path = tmp_path_factory.mktemp("runs") / "alpha.D0.data"
    write(path, config("alpha", 0), [1.0, 2.0, 3.0])
    events = [json.loads(line) for line in path.read_text().splitlines()]
    for _ in range(data.draw(st.integers(1, 3))):
        event = data.draw(st.sampled_from(events))
        *above, last = data.draw(st.sampled_from(paths_in(event["data"], ("data",)) or [("data",)]))
        place = event
        for key in above:
            place = place[key] if isinstance(place, dict) and key in place else {}
        if isinstance(place, dict):
            place[last] = deepcopy(data.draw(ODD))  # of which a later one may change a part
    path.write_text("".join(json.dumps(each) + "\n" for each in events))
    summary = read(str(path.parent))
    for form in ("terminal", "json", "csv"):
        assert render(summary, form)
