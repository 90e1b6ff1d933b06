"""Scaling tables: the numbers that DLBS prints, and the exact ones."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from suitefolders import SuiteFolder

from injector.cli.suite import report
from injector.suite.config import load
from injector.suite.results import points, scaling, suite_report
from injector.suite.results.run_record import RunRecord
from injector.suite.results.scaling import DLBS, STRONG, WEAK, Measurement, scaled
from injector.suite.results.suite_report import cells, render
from injector.suite.results.suite_summary import (
    BenchmarkSummary,
    Finding,
    ProcessSummary,
    SuiteSummary,
)

WEAKLY = [Measurement(n, ms / 1e3, 16 * n) for n, ms in ((1, 913.44), (2, 1029.24), (4, 1065.12))]
STRONGLY = [Measurement(n, ms / 1e3, 64) for n, ms in ((1, 800), (2, 430), (4, 250))]


def table(points, kind, rounding):
    return [column[2:] for column in scaled(points, kind, rounding)]


def test_weak_scaling_as_dlbs_prints_it():
    assert table(WEAKLY, WEAK, DLBS) == [(17, 1, 100), (31, 1.82, 88.74), (60, 3.53, 85.75)]


def test_weak_scaling_exactly():
    found = table(WEAKLY, WEAK, scaling.EXACT)
    assert [column[0] for column in found] == pytest.approx([17.516, 31.091, 60.087], abs=6e-4)
    assert [column[1] for column in found] == pytest.approx([1, 1.775, 3.430], abs=6e-4)
    assert [column[2] for column in found] == pytest.approx([100, 88.749, 85.759], abs=6e-4)


def test_strong_scaling_as_dlbs_prints_it():
    assert table(STRONGLY, STRONG, DLBS) == [(80, 1, 100), (148, 1.85, 93.02), (256, 3.2, 80)]


def test_strong_scaling_exactly():
    found = table(STRONGLY, STRONG, scaling.EXACT)
    assert found[1] == pytest.approx((148.837, 1.860, 93.023), abs=6e-4)


def test_what_is_whole_is_not_cut_by_the_last_bit():
    for ms in range(1, 2000):
        [column] = scaled([Measurement(1, ms / 1e3, 3 * ms)], WEAK, DLBS)
        assert column.throughput == 3000


def test_the_order_of_the_points_does_not_matter():
    assert scaled(reversed(WEAKLY), WEAK) == scaled(WEAKLY, WEAK)
    assert scaled([], WEAK) == ()


def benchmark(devices: int, tag: str, failed: bool = False) -> BenchmarkSummary:
    points = WEAKLY if tag == "weak" else STRONGLY
    [point] = [each for each in points if each.number == devices]
    record = RunRecord(rates=(1.0,), step=point.seconds, items=point.items, code=int(failed))
    names = tuple(f"cuda:{n}" for n in range(devices))
    process = ProcessSummary(f"ddp{devices}.R0.D0", f"ddp{devices}", devices=names, record=record)
    return BenchmarkSummary(f"ddp{devices}", family="ddp", tags=(tag,), processes=(process,))


def test_benchmarks_of_one_entry_make_a_family():
    found = [benchmark(n, "weak") for n in (1, 2, 4)] + [benchmark(n, "strong") for n in (1, 2)]
    suite = SuiteSummary("/x", "s", benchmarks=tuple(found))
    weak, strong = scaling.families(suite, DLBS)
    assert (weak.name, weak.kind, [c.number for c in weak.columns]) == ("ddp", "weak", [1, 2, 4])
    assert [column.speedup for column in weak.columns] == [1, 1.82, 3.53]
    assert [column.efficiency for column in strong.columns] == [100, 93.02]
    text = render(suite, "terminal", DLBS)
    assert "ddp, weak scaling" in text and "88.74" in text and "3.53" in text


def test_without_items_only_the_time_of_a_step_scales():
    found = []
    for each in (benchmark(n, "weak") for n in (1, 2)):
        [process] = each.processes
        unknown = replace(process, record=replace(process.record, items=None))
        found.append(replace(each, processes=(unknown,)))
    suite = SuiteSummary("/x", "s", benchmarks=tuple(found))
    assert scaling.families(suite) == []
    [family] = scaling.families(suite, kind="weak", target="step_time")
    assert family.columns[1].efficiency == pytest.approx(
        100 * WEAKLY[0].seconds / WEAKLY[1].seconds
    )
    assert "items/s" not in suite_report.render_scaling([family], "terminal")


def test_one_point_and_what_is_not_tagged_make_none(tmp_path):
    made = SuiteFolder(tmp_path)
    made.process("a", [1.0] * 5)
    assert scaling.families(made.read()) == []
    alone = SuiteSummary("/x", "s", benchmarks=(benchmark(2, "weak"),))
    assert scaling.families(alone) == []


MS = {1: 913.44, 2: 1029.24, 4: 1065.12}
GPUS = """
  voirfile: x.py
  tags: [weak]
  plan: {method: njobs, devices: "{len(split(exp.gpus))}"}
  argv: {--framework: "${exp.framework}", --batch: "${exp.batch}", --model: "${exp.model}"}
"""
VARIABLES = (
    """
variables: {exp: {gpus: "0", framework: mxnet, batch: 16, model: resnet50}}
train:
  run: train.py"""
    + GPUS
)


def swept(tmp_path, text: str, *variables: str, fails: tuple[str, ...] = ()) -> SuiteSummary:
    """All benchmarks of a suite, each as slow as its number of devices and its other values make it."""
    (tmp_path / "s.yaml").write_text(text)
    (tmp_path / "train.py").touch()
    found = []
    for each in load(tmp_path / "s.yaml", variables=variables).benchmarks:
        devices = tuple(f"cuda:{n}" for n in range(each.plan["devices"]))
        slower = sum(map(ord, f"{each.values.get('exp.framework')}{each.values.get('exp.model')}"))
        seconds = (MS[len(devices)] + slower) / 1e3
        record = RunRecord(rates=(1.0,), step=seconds, items=16.0 * len(devices), code=0)
        why = (Finding("error", False, "failure", "no"),) if each.name in fails else ()
        process = ProcessSummary(each.name, each.name, devices=devices, record=record, findings=why)
        found.append(
            BenchmarkSummary(
                each.name,
                family=each.family,
                values=each.values,
                tags=each.tags,
                processes=(process,),
            )
        )
    return SuiteSummary("/x", "s", benchmarks=tuple(found))


def test_each_combination_of_the_other_names_has_a_table(tmp_path):
    """The sweep of DLBS's introduction: three frameworks on three sets of devices."""
    suite = swept(
        tmp_path, VARIABLES,
        'exp.framework=["mxnet", "tensorflow", "caffe2"]', 'exp.gpus=["0", "0,1", "0,1,2,3"]',
        'exp.model=["resnet50"]', "exp.batch=[16]",
    )  # fmt: skip
    assert len(suite.benchmarks) == 9
    found = scaling.families(suite)
    assert [each.values for each in found] == [
        {"exp.framework": name} for name in ("mxnet", "tensorflow", "caffe2")
    ]
    for family in found:
        slower = sum(map(ord, f"{family.values['exp.framework']}resnet50"))
        seconds = [pytest.approx((MS[n] + slower) / 1e3) for n in (1, 2, 4)]
        assert [c.seconds for c in family.columns] == seconds, "its own, and not another one's"
    text = render(suite, "terminal")
    assert "train (exp.framework tensorflow), weak scaling" in text
    assert [each["values"] for each in json.loads(render(suite, "json"))["scaling"]] == [
        each.values for each in found
    ]


@pytest.mark.parametrize("others", range(4))
@pytest.mark.parametrize("order", [1, -1])
def test_any_number_of_other_names(tmp_path, others, order):
    axes = ['framework=["a", "b"]', 'model=["c", "d", "e"]', "batch=[16, 32]"][:others]
    given = [f"exp.{axis}" for axis in [*axes, 'gpus=["0", "0,1", "0,1,2,3"]'][::order]]
    found = scaling.families(swept(tmp_path, VARIABLES, *given))
    assert len(found) == [1, 2, 6, 12][others]
    assert len({str(family.values) for family in found}) == len(found)
    assert all([c.number for c in family.columns] == [1, 2, 4] for family in found)
    assert all(len(family.values) == others for family in found)


def test_a_failed_point_leaves_the_others_where_they_belong(tmp_path):
    given = ('exp.framework=["a", "b"]', 'exp.gpus=["0", "0,1", "0,1,2,3"]')
    fails = ("train-a-0", "train-b-0_1_2_3", "train-b-0_1")
    [family] = scaling.families(swept(tmp_path, VARIABLES, *given, fails=fails))
    assert family.values == {"exp.framework": "a"}
    assert [column.number for column in family.columns] == [2, 4]
    assert cells.title(family).endswith("weak scaling, compared with 2 devices")


@pytest.mark.parametrize(
    ("axes", "values"),
    [
        ("{'n,batch': [[1, 16], [2, 32], [4, 64]]}", [{}]),
        ("{'n,list,batch': [[1, '0', 16], [2, '0,1', 32]], kind: [x, y]}", [{"kind": "x"}, {"kind": "y"}]),
        ("{'n,kind': [[1, x], [2, y]]}", []),
        ("{nodes: [1, 2], each: [1, 2]}", [{}]),
    ],
)  # fmt: skip
def test_names_that_go_with_the_devices(tmp_path, axes, values):
    devices = "{nodes * each}" if "nodes" in axes else "{n}"
    text = f"""
train:
  matrix: {axes}
  job:
    run: train.py
    tags: [weak]
    plan: {{method: njobs, devices: "{devices}"}}
"""
    assert [each.values for each in scaling.families(swept(tmp_path, text))] == values


# --- what the command line asks for -----------------------------------------------------------------

FRAMEWORKS = 'exp.framework=["mxnet", "caffe2"]'
GPU_LISTS = 'exp.gpus=["0", "0,1", "0,1,2,3"]'


def test_a_sweep_over_two_keys_as_dlbs_prints_it(tmp_path):
    """`--scaling weak --over exp.gpus --query "exp.framework == 'mxnet'" --rounding dlbs`."""
    suite = points.filtered(
        swept(tmp_path, VARIABLES, FRAMEWORKS, GPU_LISTS), "exp.framework == 'mxnet'"
    )
    assert len(suite.benchmarks) == 3
    for over in ("devices", "exp.gpus"):
        [family] = suite_report.scaling_of(suite, DLBS, WEAK, over, "throughput")
        assert [c.number for c in family.columns] == [1, 2, 4] and family.values == {}
        text = suite_report.render_scaling([family], "terminal", DLBS)
        assert f"  {over}" in text and "items/s" in text
    data = json.loads(suite_report.render_scaling([family], "json", DLBS))["scaling"][0]
    assert data["points"][2]["exp.gpus"] == 4 and data["rounding"] == DLBS


@pytest.mark.parametrize("rounding", [DLBS, scaling.EXACT])
@pytest.mark.parametrize("kind", [WEAK, STRONG])
def test_the_golden_tables_by_the_command_line(kind, rounding):
    """Without tags that say so: the option decides."""
    found = tuple(replace(benchmark(n, kind), tags=()) for n in (1, 2, 4))
    suite = SuiteSummary("/x", "s", benchmarks=found)
    [family] = suite_report.scaling_of(suite, rounding, kind, "devices", "throughput")
    assert [c[2:] for c in family.columns] == table(
        WEAKLY if kind == WEAK else STRONGLY, kind, rounding
    )


def test_other_targets_scale_by_the_same_formulas(tmp_path):
    suite = swept(tmp_path, VARIABLES, GPU_LISTS)
    [family] = suite_report.scaling_of(suite, scaling.EXACT, WEAK, "devices", "perf")
    # perf is 1 for each benchmark: no speedup, and an efficiency of 1 / N.
    assert [c.speedup for c in family.columns] == pytest.approx([1, 1, 1])
    assert [c.efficiency for c in family.columns] == pytest.approx([100, 50, 25])
    assert "perf, items/s" in suite_report.render_scaling([family], "md")


def test_exploration_is_sorted_by_its_target(tmp_path):
    suite = swept(tmp_path, VARIABLES, FRAMEWORKS, GPU_LISTS, fails=("train-caffe2-0",))
    found = suite_report.explored(suite, "throughput")
    assert found.names == ("exp.framework", "exp.gpus")
    rates = [row["throughput"] for row in found.rows if row.get("throughput")]
    assert rates == sorted(rates, reverse=True) and len(rates) == 5
    assert [row["benchmark"] for row in found.rows][-1] == "train-caffe2-0"
    assert "failed" in suite_report.render_exploration(found, "terminal").splitlines()[-1]
    times = suite_report.explored(suite, "step_time").rows[:5]
    assert [row["step_time"] for row in times] == sorted(row["step_time"] for row in times)
    assert suite_report.render_exploration(found, "csv").startswith(
        "benchmark,devices,exp.framework"
    )


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("--query", "exp.framwork == 'a'"), "did you mean exp.framework?"),
        (("--query", "devices >"), "ends too early"),
        (("--query", "devices > 7"), "holds for none of 6 benchmarks"),
        (("--query", "__import__('os')"), "no function"),
        (("--target", "thruput"), "did you mean throughput?"),
        (("--scaling", "weak", "--over", "nodes"), "no benchmark or run has it"),
        (("--scaling", "weak", "--target", "peak_memory"), "no benchmark or run has it"),
        (("--scaling", "weak", "--target", "weight"), "scaling is of a rate or a time"),
    ],
)  # fmt: skip
def test_what_is_requested_and_is_not_there(tmp_path, monkeypatch, capsys, words, why):
    suite = swept(tmp_path, VARIABLES, FRAMEWORKS, GPU_LISTS)
    monkeypatch.setattr(report, "summarise", lambda *_: suite)
    monkeypatch.setattr(report, "find_suite_run", lambda *_: "x")
    assert report.main([*words]) == 2
    assert why in capsys.readouterr().err
    report.main(["--query", "devices > 1", "--scaling", "weak"])
    assert capsys.readouterr().out.count("weak scaling, compared with 2 devices") == 2
