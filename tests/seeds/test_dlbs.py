"""The Deep Learning Benchmarking Suite: what a program can check of each claim of its introduction."""

from __future__ import annotations

import gzip
import io
import json
import os
import socket
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest
from search_path import search_path

from injector.cli import main
from injector.compat import dlbs
from injector.errors import UserError
from injector.suite.config import load
from injector.suite.config.definitions import shipped_suites
from injector.suite.environments.setup import Resources
from injector.suite.plan.jobs import PlanOptions
from injector.suite.plan.machine import Machine, PlanDevice
from injector.suite.plan.planner import plan_suite

TIMES = {
    "mxnet": (913.44, 1029.24, 1065.12),
    "tensorflow": (800.0, 850.0, 900.0),
    "caffe2": (950.0, 1000.0, 1100.0),
}
"""Milliseconds of a batch on 1, 2 and 4 devices; those of MXNet are the introduction's."""
GPUS = ("0", "0,1", "0,1,2,3")


def call(*words: object, code: int = 0) -> tuple[str, str]:
    """What ``inject`` prints on standard output and standard error."""
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        try:
            ended = main([str(word) for word in words])
        except SystemExit as error:
            ended = error.code
    assert ended == code, err.getvalue()
    return out.getvalue(), err.getvalue()


def log_of(framework: str, gpus: str, time: float, **more: object) -> str:
    """A log as a benchmark leaves it: what it printed, and parameters in between."""
    number = len(gpus.split(","))
    parameters = {
        "exp.framework": framework, "exp.model": "resnet50", "exp.gpus": gpus, "exp.num_gpus": number,
        "exp.replica_batch": 16, "exp.effective_batch": 16 * number, "exp.phase": "training",
        "exp.num_batches": 100, "exp.num_warmup_batches": 10, "exp.docker": True, "exp.status": "ok",
        "exp.id": f"{framework}{number}", f"{framework}.docker_image": f"hpe/{framework}",
        "results.time": time, "results.throughput": int(16 * number * 1000 / time), **more,
    }  # fmt: skip
    lines = [f"__{key}__= {json.dumps(value)}\n" for key, value in parameters.items()]
    return "".join([*lines[:8], "Iteration 20, loss = 6.9\n", *lines[8:]])


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The nine logs of the sweep, in a folder of each framework, one of them compressed."""
    folder = tmp_path_factory.mktemp("bench") / "logs"
    for framework, times in TIMES.items():
        (folder / framework).mkdir(parents=True)
        for gpus, time in zip(GPUS, times, strict=True):
            number = len(gpus.split(","))
            path = folder / framework / f"resnet50_{number}_{16 * number}.log"
            path.write_text(log_of(framework, gpus, time))
    packed = folder / "caffe2" / "resnet50_1_16.log"
    Path(f"{packed}.gz").write_bytes(gzip.compress(packed.read_bytes()))
    packed.unlink()
    return folder


@pytest.fixture(scope="module")
def runs(logs: Path) -> Path:
    """What ``inject ingest`` makes of them."""
    out, err = call("ingest", logs, "--base", logs.parent / "base", "--name", "dlbs")
    assert err == "9 runs of 9 benchmarks\n"
    return Path(out.strip())


def test_logs_are_read_recursively_and_compressed(logs: Path, runs: Path) -> None:
    assert len(dlbs.logs_in([str(logs)])) == 9
    out, _ = call("suite", "report", runs, "--format", "json")
    report = json.loads(out)
    assert {each["benchmark"]: each["fail"] for each in report["benchmarks"]} == {
        f"{framework}-{gpus}": 0 for framework in TIMES for gpus in GPUS
    }
    # Each log is in the folder, as it was.
    assert len([*runs.rglob("artifacts/*.log*")]) == 9


def test_the_weak_scaling_report_is_the_introductions(runs: Path) -> None:
    words = ("--scaling", "weak", "--target", "results.time", "--rounding", "dlbs")
    query = "exp.framework == 'mxnet' and exp.model == 'resnet50'"
    for over in ("devices", "exp.gpus", "exp.num_gpus"):
        out, _ = call("suite", "report", runs, *words, "--over", over, "--query", query)
        rows = [line.split() for line in out.splitlines()[2:]]
        assert rows == [
            ["1", "913.44", "17", "1", "100.00"],
            ["2", "1029.24", "31", "1.82", "88.74"],
            ["4", "1065.12", "60", "3.53", "85.75"],
        ]


def test_a_strong_scaling_report_keeps_the_effective_batch(tmp_path: Path) -> None:
    times = (1600.0, 1000.0, 640.0)
    for gpus, time in zip(GPUS, times, strict=True):
        more = {"exp.replica_batch": 64 // len(gpus.split(",")), "exp.effective_batch": 64}
        more |= {"results.throughput": int(64 * 1000 / time)}
        (tmp_path / f"{gpus}.log").write_text(log_of("mxnet", gpus, time, **more))
    folder, _ = call("ingest", tmp_path, "--into", tmp_path / "runs")
    words = ("--scaling", "strong", "--over", "exp.num_gpus", "--target", "results.time")
    out, _ = call("suite", "report", folder.strip(), *words, "--rounding", "dlbs")
    assert [line.split() for line in out.splitlines()[2:]] == [
        ["1", "1600.00", "40", "1", "100.00"],
        ["2", "1000.00", "64", "1.6", "80.00"],
        ["4", "640.00", "100", "2.5", "62.50"],
    ]


def test_an_exploration_report_lists_what_was_run_on_one_device_the_fastest_first(
    runs: Path,
) -> None:
    words = ("--target", "results.time", "--query", "exp.num_gpus == 1")
    out, _ = call("suite", "report", runs, *words)
    heads, *rows = [line.split() for line in out.splitlines()]
    assert heads == ["benchmark", "devices", "exp.framework", "results.time,", "ms"]
    assert [(row[0], row[-1]) for row in rows] == [
        *(("tensorflow-0", "800.0"), ("mxnet-0", "913.4"), ("caffe2-0", "950.0")),
    ]
    found = json.loads(call("suite", "report", runs, *words, "--format", "json")[0])
    assert found["unit"] == "ms" and found["benchmarks"][1]["results.time"] == 913.44


def test_results_are_written_as_compressed_json(runs: Path, tmp_path: Path) -> None:
    for words, name in (((), "runs"), (("--target", "results.time"), "benchmarks")):
        path = tmp_path / f"{name}.json.gz"
        call("suite", "report", runs, *words, "-o", path)
        assert path.read_bytes()[:2] == b"\x1f\x8b", "of gzip"
        assert len(json.loads(gzip.decompress(path.read_bytes()))["benchmarks"]) == 9
        assert path.stat().st_size < len(gzip.decompress(path.read_bytes())) / 4


def test_a_chart_of_throughput_over_devices_has_a_line_for_each_framework(runs: Path) -> None:
    axes = ("--x", "exp.num_gpus", "--y", "results.throughput", "--series", "exp.framework")
    out, _ = call("plot", runs, *axes, "--agg", "mean", "--format", "json")
    found = {
        (row["series"], row["exp.num_gpus"]): row["results.throughput, items/s"]
        for row in json.loads(out)
    }
    assert len(found) == 9
    assert [found["mxnet", number] for number in (1, 2, 4)] == [17, 31, 60]


@pytest.mark.parametrize("form", ["svg", "html", "png", "csv"])
def test_a_chart_has_the_title_labels_and_legend_that_it_is_given(
    runs: Path, tmp_path: Path, form: str
) -> None:
    path = tmp_path / f"chart.{form}"
    call(
        *("plot", runs, "--x", "exp.num_gpus", "--y", "results.throughput"),
        *("--series", "exp.framework", "--agg", "mean", "--title", "ResNet50 performance"),
        *("--xlabel", "Number of GPUs", "--ylabel", "Throughput", "--legend", "mxnet=MXNet"),
        *("--legend", "caffe2=Caffe2,tensorflow=TensorFlow", "-o", path),
    )
    if form == "png":
        assert path.read_bytes()[1:4] == b"PNG"
        return
    text = path.read_text()
    titled = [] if form == "csv" else ["ResNet50 performance"]
    for each in (*titled, "Number of GPUs", "Throughput", "MXNet", "Caffe2", "TensorFlow"):
        assert each in text, each
    assert "mxnet" not in text


def test_axes_have_the_units_of_the_seeds_names_and_lines_their_values(runs: Path) -> None:
    for name, label in (("results.time", "ms"), ("results.throughput", "items/s")):
        words = ("--x", "exp.num_gpus", "--y", name, "--series", "exp.framework")
        out, _ = call("plot", runs, *words, "--format", "csv")
        assert f"{name}, {label}" in out.splitlines()[0]
    for legend, why in (("cntk=CNTK", "the lines are"), ("MXNet", "should be LINE=TEXT")):
        assert why in call("plot", runs, *words, "--legend", legend, code=2)[1]


def test_results_are_queried_by_the_seeds_names(runs: Path) -> None:
    for query in (
        "exp.docker and results.throughput > 59",
        "exp.num_batches == 100 and results.time > 1065",
    ):
        out, _ = call(
            "suite", "report", runs, "--query", query, "--target", "results.time", "--format", "csv"
        )
        assert "mxnet-0,1,2,3" in out
    _, err = call("suite", "report", runs, "--query", "exp.framewrok == 'mxnet'", code=2)
    assert "did you mean exp.framework?" in err
    out, _ = call(
        "query", runs, "select count(*) as n from events where event = 'config'", "--format", "csv"
    )
    assert out.split() == ["n", "9"]


def test_equal_logs_are_repeats_and_batches_are_rates(tmp_path: Path) -> None:
    data = [900.0, 910.0, 920.0]
    for number in range(2):
        text = log_of("mxnet", "0", 910.0, **{"results.time_data": data, "exp.id": str(number)})
        (tmp_path / f"{number}.log").write_text(text)
    out, _ = call("ingest", tmp_path, "--into", tmp_path / "runs")
    report = json.loads(call("suite", "report", out.strip(), "--format", "json")[0])
    [benchmark] = report["benchmarks"]
    assert benchmark["n"] == 2 and benchmark["perf"] == pytest.approx(16 / 0.910, rel=1e-3)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('__exp.model__= "a"\n__exp.gpus__= "0"\n', "it ends after line 2 without results.time"),
        ('__exp.model__= "a"\n__results.time__= 91', "bad.log:2: cut off within the value of results.time"),
        ('__exp.model__= "a"\n__results.time__= 91\n__exp.status__= "ok"', ""),
        ('__exp.model__= "a"\n__results.time_data__= [1.0, 2.', "cut off within the value"),
        ('__exp.model__= resnet\n__results.time__= 9\n', "bad.log:1: exp.model is no JSON: resnet"),
        ("nothing\n", "no line of it is a parameter"),
    ],
)  # fmt: skip
def test_a_log_that_is_cut_off_is_named_and_the_others_are_read(
    tmp_path: Path, text: str, problem: str
) -> None:
    (tmp_path / "bad.log").write_text(text)
    (tmp_path / "good.log").write_text(log_of("mxnet", "0", 913.44))
    out, err = call("ingest", tmp_path, "--into", tmp_path / "runs", code=bool(problem))
    assert problem in err
    report = json.loads(call("suite", "report", out.strip(), "--format", "json")[0])
    failed = {each["benchmark"]: each["fail"] for each in report["benchmarks"]}
    assert failed[next(name for name in failed if "mxnet" in name or name == "resnet50")] == 0
    assert sum(failed.values()) == bool(problem and "no line" not in problem)


def test_an_archive_that_is_cut_off(tmp_path: Path) -> None:
    whole = gzip.compress(log_of("mxnet", "0", 913.44).encode() + os.urandom(4096).hex().encode())
    (tmp_path / "bad.log.gz").write_bytes(whole[: len(whole) // 2])
    _, err = call("ingest", tmp_path, "--into", tmp_path / "runs", code=1)
    assert "bad.log.gz: the archive is cut off after line" in err


@pytest.mark.parametrize("what", ["no archive", "damaged", "link"])
def test_a_file_that_cannot_be_read_is_named_and_the_others_are_read(
    tmp_path: Path, what: str
) -> None:
    bad = tmp_path / "bad.log.gz"
    if what == "no archive":
        bad.write_text(log_of("mxnet", "0", 900.0))
    elif what == "damaged":
        bad.write_bytes(gzip.compress(log_of("mxnet", "0", 900.0).encode())[:-8] + bytes(8))
    else:
        bad.symlink_to(tmp_path / "none")
    (tmp_path / "good.log").write_text(log_of("mxnet", "0", 913.44))
    _, err = call("ingest", tmp_path, "--into", tmp_path / "runs", code=1)
    says = {
        "no archive": "no gzip archive",
        "damaged": "damaged after line",
        "link": "read: No such",
    }
    [line] = [each for each in err.splitlines() if "bad.log.gz" in each]
    assert says[what] in line and "cut off" not in line


@pytest.mark.parametrize(
    ("status", "message", "fails"),
    [("ok", "", 0), ("success", "", 0), ("failure", "no such model", 1), ("skipped", "too large", 1)],
)  # fmt: skip
def test_how_a_benchmark_ended_is_what_its_log_says(
    tmp_path: Path, status: str, message: str, fails: int
) -> None:
    """``ok`` is what DLBS configures, ``success`` what its scripts that postprocess logs add."""
    more = {"exp.status": status, "exp.status_msg": message}
    (tmp_path / "a.log").write_text(log_of("mxnet", "0", 913.44, **more))
    folder, err = call("ingest", tmp_path, "--into", tmp_path / "runs")
    assert ("1 failed or without a result" in err) == bool(fails)
    report = call("suite", "report", folder.strip())[0]
    assert (f"error: exp.status: {status}: {message}" in report) == bool(fails)
    assert "exit code" not in report


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ('{"exp.framework":"mxnet","exp.model":"resnet50"}', 3),
        ('{"exp.framework": ["mxnet", "caffe2"], "exp.num_gpus": 1}', 2),
        ('{"exp.num_gpus": 4}', 3),
    ],
)
def test_a_query_is_the_json_object_that_dlbs_takes(runs: Path, query: str, found: int) -> None:
    out, _ = call("suite", "report", runs, "--query", query, "--target", "results.time", "--json")
    assert len(json.loads(out)["benchmarks"]) == found


@pytest.mark.parametrize(
    ("query", "says"),
    [
        ('{"exp.framwork": "mxnet"}', "there is no exp.framwork; did you mean exp.framework?"),
        ('{"exp.framework": ', "cannot be read as a JSON object: Expecting value"),
        ('{"exp.framework": "torch"}', "holds for none of 9 benchmarks"),
    ],
)
def test_a_json_query_that_is_wrong_is_said(runs: Path, query: str, says: str) -> None:
    _, err = call("suite", "report", runs, "--query", query, code=2)
    assert says in err


@pytest.mark.parametrize(("line", "key"), [(b'__exp.node_title__= "n\xff1"', "exp.node_title"),
                                           (b'__exp.n\xff__= 1', "exp.n\ufffd")])  # fmt: skip
def test_a_parameter_that_is_no_text_is_named(tmp_path: Path, line: bytes, key: str) -> None:
    """Among lines of the program's own that are none either, and a value in another alphabet."""
    whole = log_of("mxnet", "0", 913.44).encode()
    text = b"caf\xe9\n" + line + b"\n" + '__exp.place__= "Zürich"\n'.encode() + whole
    (tmp_path / "bad.log").write_bytes(text)
    out, err = call("ingest", tmp_path, "--into", tmp_path / "runs", code=1)
    assert f"bad.log:2: {key} is no UTF-8" in err and err.count("bad.log:") == 1
    report = json.loads(call("suite", "report", out.strip(), "--format", "json")[0])
    assert [each["fail"] for each in report["benchmarks"]] == [1], "it is in doubt"


@pytest.mark.parametrize("what", ["missing", "empty", "nothing", "there"])
def test_what_cannot_be_read_writes_nothing(tmp_path: Path, what: str) -> None:
    place = tmp_path / what
    if what != "missing":
        place.mkdir()
    (tmp_path / "x.log").write_text("nothing\n" if what != "there" else log_of("mxnet", "0", 9.0))
    into = tmp_path / ("there" if what == "there" else "runs")
    before = sorted(tmp_path.iterdir())
    log = place if what in ("missing", "empty") else tmp_path / "x.log"
    _, err = call("ingest", log, "--into", into, code=2)
    assert err.startswith("inject: ") and len(err.splitlines()) == 1
    assert sorted(tmp_path.iterdir()) == before


def test_replicas_and_devices(tmp_path: Path) -> None:
    """``0:1,2:3``: two replicas on two devices each."""
    log = dlbs.BenchmarkLog(
        "x", {"exp.gpus": "0:1,2:3", "exp.replica_batch": 16, "results.throughput": 64}
    )
    assert log.devices == ("cuda:0", "cuda:1", "cuda:2", "cuda:3") and log.replicas == 2
    assert log.items == 32 and log.seconds == 0.5
    assert dlbs.BenchmarkLog("x", {"exp.gpus": ""}).devices == ("cpu:0",)
    with pytest.raises(UserError, match="there is no such file"):
        dlbs.logs_in([str(tmp_path / "none")])


# --- phases: training and inference ----------------------------------------------------------------

PREDICTS = """
import sys
import torch
from torch import nn

model = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 4)).eval()
with torch.no_grad():
    for batch in range(int(sys.argv[1])):
        model(torch.randn(16, 32))
print("whole", flush=True)
"""
BOTH = (
    PREDICTS
    + """
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for batch in range(4):
    model.train()
    model(torch.randn(8, 32)).sum().backward()
    optimizer.step()
"""
)


def run(folder: Path, text: str, *words: str, batches: int = 40) -> tuple[dict, str]:
    """The report of a program, as data, and what it printed."""
    (folder / "program.py").write_text(text)
    command = [
        sys.executable,
        "-m",
        "injector",
        "run",
        "-q",
        "--no-monitor",
        "--into",
        str(folder / "run"),
    ]
    environ = {**os.environ, "PYTHONPATH": search_path()}
    ran = subprocess.run(
        [*command, *words, str(folder / "program.py"), str(batches)],
        cwd=folder, env=environ, capture_output=True, text=True, check=True,
    )  # fmt: skip
    return json.loads(call("report", folder / "run", "--json")[0]), ran.stdout


def test_an_inference_loop_has_rates_and_ends_after_its_batches(tmp_path: Path) -> None:
    report, printed = run(tmp_path, PREDICTS, "--skip", "10", "--stop", "20")
    [loop] = report["profile"]["loops"]
    assert (loop["task"], loop["paced_by"], loop["steps"]) == ("inference", "call", 30)
    assert loop["items_per_step"] == 16 and loop["warmup"]["steps"] == 10
    assert loop["throughput"]["items"] > 0 and not report["profile"]["evaluations"]
    [latency] = report["profile"]["latencies"]
    assert (latency["what"], latency["batches"]) == ("inference", 20), "without those of --skip"
    assert latency["batch"]["p50"] <= latency["batch"]["p99"]
    assert "inference" in {each["name"] for each in report["profile"]["segments"]}
    assert report["stopped"] and report["exit"]["code"] == 0 and not printed


@pytest.mark.release
def test_an_evaluation_before_a_training_ends_nothing(tmp_path: Path) -> None:
    report, printed = run(tmp_path, BOTH, "--stop", "3")
    [loop] = report["profile"]["loops"]
    assert (loop["task"], loop["steps"]) == ("train", 3)
    assert [each["batches"] for each in report["profile"]["evaluations"]] == [40]
    assert report["stopped"] and printed == "whole\n"


def test_a_program_that_may_train_is_inference_where_that_is_declared(tmp_path: Path) -> None:
    report, printed = run(tmp_path, BOTH, "--stop", "12", "--phase", "inference")
    [loop] = report["profile"]["loops"]
    assert (loop["task"], loop["steps"]) == ("inference", 12) and not printed
    _, err = call("run", "--phase", "testing", "x.py", code=2)
    assert "--phase is training or inference" in err


# --- the sweep -------------------------------------------------------------------------------------

SWEPT = (
    'exp.gpus=["0", "0,1", "0,1,2,3"]',
    'exp.model=["resnet50", "resnet18", "alexnet"]',
    "exp.replica_batch=[16]",
)


def test_each_framework_that_still_lives_has_its_program(tmp_path: Path) -> None:
    sweep = 'exp.framework=["pytorch", "tensorflow", "jax", "onnxruntime"]'
    words = ("--base", tmp_path, "--devices", "cpu:1", "--use-current-env", "-V", sweep)
    out, _ = call("suite", "plan", "dlbs", *words, "-P", "exp.phase=inference")
    runs = [line for line in out.splitlines() if line.startswith("    run  ")]
    programs = [next(word for word in run.split() if word.endswith("main.py")) for run in runs]
    assert [Path(each).parent.name for each in programs] == [
        *("imagenet", "keras-vision", "keras-vision", "onnx-vision"),
    ]
    out, _ = call("suite", "plan", "dlbs", *words)
    assert "onnxruntime-resnet50-1-training is left out: needs exp.phase == 'inference'" in out


def test_the_shipped_suite_makes_nine_runs_of_three_models_on_three_sets_of_devices(
    tmp_path: Path,
) -> None:
    words = [word for each in SWEPT for word in ("-V", each)]
    words += [
        "-P",
        "exp.num_warmup_batches=10",
        "-P",
        "exp.num_batches=100",
        "-P",
        'exp.phase="inference"',
    ]
    words += ["--base", str(tmp_path), "--devices", "cpu:4", "--use-current-env"]
    out, _ = call("suite", "plan", "dlbs", *words)
    runs = [line for line in out.splitlines() if line.startswith("    run  ")]
    assert len(runs) == 9
    for model in ("resnet50", "resnet18", "alexnet"):
        for number in (1, 2, 4):
            mine = [run for run in runs if f"--arch {model} " in f"{run} "]
            assert any(f"--batch-size {16 * number} " in run for run in mine)
    assert all(
        "--skip 10 --stop 100 --phase inference" in run and "--evaluate" in run for run in runs
    )
    _, err = call("suite", "plan", "dlbs", "-P", "exp.framework=mxnet", "--base", tmp_path, code=2)
    assert "_mxnet" in err


@pytest.mark.parametrize(
    ("gpus", "devices", "visible", "threads"),
    [("0,2", ("cuda:0", "cuda:2"), "4,6", "2"), ("2", ("cuda:2",), "6", "2"), ("", ("cpu:0",), "", "8")],
)  # fmt: skip
@pytest.mark.parametrize("written", ['"${exp.gpus}"', '"{exp.gpus}"', None])
def test_a_list_of_gpus_is_those_devices_and_an_empty_one_the_processor(
    tmp_path: Path, gpus: str, devices: tuple[str, ...], visible: str, threads: str, written: str
) -> None:
    of = [PlanDevice("cuda", n, str(n + 4)) for n in range(4)]
    there = Machine(tuple(of), tuple(range(8)), 8, 1 << 30, "there")
    (tmp_path / "train.py").write_text("")
    (tmp_path / "s.yaml").write_text(
        f'variables: {{exp: {{gpus: "{gpus}"}}}}\n'
        "train:\n  run: train.py\n"
        f"  plan: {{method: njobs, launcher: none, devices: {written or json.dumps(gpus)}}}\n"
    )
    suite = load(tmp_path / "s.yaml", there.facts())
    options = PlanOptions(str(tmp_path / "runs"))
    [job] = plan_suite(suite, there, "/b", lambda each: Resources("python", {}), options).jobs
    [process] = job.processes
    assert process.devices == devices
    assert process.environment["CUDA_VISIBLE_DEVICES"] == visible
    assert process.environment["OMP_NUM_THREADS"] == threads


SEED_VARIABLES = (
    'exp.framework=["pytorch", "tensorflow", "jax"]',
    'exp.gpus=["0", "0,1", "0,1,2,3"]',
    'exp.model=["resnet50"]',
    "exp.replica_batch=[16]",
)
SEED_PARAMETERS = (
    *("exp.docker=true", "exp.num_warmup_batches=10", "exp.num_batches=100"),
    'exp.phase="training"',
    'exp.log_file="${BENCH_ROOT}/logs/${exp.framework}/'
    '${exp.model}_${exp.num_gpus}_${exp.effective_batch}.log"',
    'pytorch.docker_image="hpe/pytorch:cuda9"',
    'tensorflow.docker_image="nvcr.io/nvidia/tensorflow:17.11"',
)
"""The introduction's command line, with frameworks that still live."""


def test_the_introductions_command_line_makes_nine_benchmarks_with_their_logs_and_images(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("BENCH_ROOT", "/bench")
    machine = Machine(tuple(PlanDevice("cpu", n) for n in range(4)), (0, 1, 2, 3), 4)
    context = {"base": "/b", "data": "/d", "out": "/o", "source": "/s", **machine.facts()}
    context |= {"device_count": 1, "benchmark_folder": "/f"}
    suite = load(
        shipped_suites()["dlbs"],
        machine.facts(),
        variables=SEED_VARIABLES,
        parameters=SEED_PARAMETERS,
    )
    logs = [each.parameters(context)["exp.log_file"] for each in suite.benchmarks]
    assert logs == [
        f"/bench/logs/{framework}/resnet50_{number}_{16 * number}.log"
        for framework in ("pytorch", "tensorflow", "jax")
        for number in (1, 2, 4)
    ]
    filled = [each.filled(context) for each in suite.benchmarks]
    assert [each["docker_image"] for each in filled] == [
        *["hpe/pytorch:cuda9"] * 3,
        *["nvcr.io/nvidia/tensorflow:17.11"] * 3,
        *["injector:cpu"] * 3,
    ]
    options = {"skip": 10, "stop": 100, "phase": "training"}
    assert all(options.items() <= each["voir"]["options"].items() for each in filled)


def test_a_benchmark_is_bare_metal_unless_docker_is_asked_for(tmp_path: Path) -> None:
    words = ("--base", tmp_path, "--devices", "cpu:1", "--use-current-env")
    for more, given in (((), False), (("-P", "exp.docker=true"), True)):
        out, _ = call("suite", "plan", "dlbs", *words, *more)
        assert ("--container injector:cpu " in out) == given


def test_a_configuration_may_be_a_json_file(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("")
    entry = {"run": "train.py", "argv": {"--batch": "${exp.batch}"}}
    entry["plan"] = {"method": "njobs", "launcher": "none", "devices": "{numbers(exp.gpus)}"}
    content = {"variables": {"exp": {"gpus": "0", "batch": 16}}, "train": entry}
    (tmp_path / "s.json").write_text(json.dumps(content))
    words = ("--base", tmp_path, "--devices", "cpu:2", "--use-current-env")
    out, _ = call("suite", "plan", tmp_path / "s.json", *words, "-V", 'exp.gpus=["0", "0,1"]')
    assert "2 jobs" in out and out.count("train.py --batch 16") == 2
    (tmp_path / "s.json").write_text(json.dumps(content)[:-9])
    _, err = call("suite", "plan", tmp_path / "s.json", *words, code=2)
    assert "s.json:1: is not YAML" in err


def test_utilization_memory_and_power_are_monitored(tmp_path: Path) -> None:
    sample = {"load": 0.5, "memory_used": 8 << 30, "memory_total": 80 << 30, "power": 250.0}
    device = {"name": "Stand-in", "uuid": "GPU-0", "samples": [{**sample, "processes": {}}]}
    (tmp_path / "devices.json").write_text(json.dumps([device]))
    (tmp_path / "program.py").write_text(
        "import time\nend = time.monotonic() + 1\nwhile time.monotonic() < end:\n    pass\n"
    )
    command = [sys.executable, "-m", "injector", "run", "-q", "--interval", "0.1", "--into", "run"]
    environ = {**os.environ, "PYTHONPATH": search_path(), "INJECT_SCRIPTED_DEVICES": "devices.json"}
    subprocess.run([*command, "program.py"], cwd=tmp_path, env=environ, check=True)
    [machine] = json.loads(call("report", tmp_path / "run", "--json")[0])["machines"]
    assert machine["metrics"]["cpu_avg_utilization_pct"] > 0
    assert 0 < machine["metrics"]["node_max_memory_utilization_pct"] < 100
    [used] = machine["devices"]
    assert (used["load"], used["peak_memory"], used["power"]) == (0.5, 8 << 30, 250.0)


PLACED = {
    "0": ("0", 1, 16),
    "2": ("2", 1, 16),
    '"1"': ("1", 1, 16),
    "0,2": ("0 2", 2, 32),
    '["3", 0]': ("3 0", 2, 32),
    "0:1,2:3": ("0 1 2 3", 4, 32),
    "1:2": ("1 2", 2, 16),
    '""': ("", 0, 16),
    "[]": ("", 0, 16),
    "null": ("", 0, 16),
    "0,7": "there is no device 7; there is cpu:0, cpu:1, cpu:2, cpu:3",
    "0,1:0": "device 0 stands 2 times",
    "0,,1": "commas stand between several, '0,1'",
    '"0;1"': "the text '0;1' is no whole number",
    '["0:1", 2]': "the text '0:1' is no whole number",
    "-1": "the number -1 is no whole number from 0",
    "1.5": "the number 1.5 is no whole number from 0",
    "true": "true is no whole number",
}
"""Of each value of ``exp.gpus`` the devices, their number and the batch; else what is wrong with it."""
MINE = """
include: dlbs
{variables}
_mine:
  inherits: _defaults
  run: train.py
  argv: {{--batch: "${{exp.effective_batch}}", --gpus: "${{exp.num_gpus}}"}}
"""


@pytest.mark.parametrize("way", ["-P", "-V", "file"])
@pytest.mark.parametrize("given", PLACED)
def test_each_form_of_gpus_is_its_devices_or_a_mistake(
    tmp_path: Path, given: str, way: str
) -> None:
    """On one machine of four devices, for a framework that is added to the shipped suite."""
    written = f"variables:\n  exp:\n    gpus: {given}" if way == "file" else ""
    (tmp_path / "train.py").write_text("")
    (tmp_path / "mine.yaml").write_text(MINE.format(variables=written))
    words = ["suite", "plan", tmp_path / "mine.yaml", "--base", tmp_path, "--devices", "cpu:4"]
    words += ["--use-current-env", "-P", "exp.framework=mine"]
    if way != "file":
        listed = f"[{given}]" if given[0] in '["{' or "," not in given else f'["{given}"]'
        words += [way, f"exp.gpus={given if way == '-P' else listed}"]
    wanted = PLACED[given]
    out, err = call(*words, code=2 if isinstance(wanted, str) else 0)
    if isinstance(wanted, str):
        assert wanted in err and "plan.devices" in err
        return
    devices, number, batch = wanted
    [process] = [line.split() for line in out.splitlines() if ".R0.D0  " in line]
    assert process[0] == f"mine-resnet50-{number}-training.R0.D0"
    assert [each.strip(",") for each in process[1:]] == [
        f"cpu:{n}" for n in (devices or "0").split()
    ]
    assert f"--batch {batch} --gpus {number}" in out


def test_frameworks_that_hold_whole_models_on_devices_refuse_replicas_over_several(
    tmp_path: Path,
) -> None:
    for framework in ("pytorch", "tensorflow", "jax"):
        words = ("--base", tmp_path, "--devices", "cpu:4", "-P", f"exp.framework={framework}")
        _, err = call("suite", "plan", "dlbs", *words, "-P", "exp.gpus=0:1,2:3", code=2)
        assert "_whole_models.plan.devices: the text '0:1' is no whole number" in err


def test_sets_of_as_many_devices_are_benchmarks_of_their_own(tmp_path: Path) -> None:
    """With logs of their own, and the processor beside one device."""
    sweep = 'exp.gpus=["", "0", "1", "0,1"]'
    words = ("--base", tmp_path, "--devices", "cpu:4", "--use-current-env", "-V", sweep)
    out, _ = call("suite", "plan", "dlbs", *words)
    names = [line.split()[0] for line in out.splitlines() if ".R0.D0  " in line]
    assert names == [
        f"pytorch-resnet50-{each}.R0.D0"
        for each in ("0-training-none", "1-training-0", "1-training-1", "2-training-0_1")
    ]


SUITE = """
variables:
  exp:
    model: [mlp]
    phase: inference
    replica_batch: 16
    log_file: "logs/${exp.model}_${exp.replica_batch}.log"
predict:
  run: predict.py
  argv: [40]
  plan: {method: njobs, launcher: none}
  voir: {options: {skip: 5, stop: 20, phase: "${exp.phase}", no_monitor: true}}
"""


def test_a_job_leaves_its_log_which_is_read_again(tmp_path: Path) -> None:
    (tmp_path / "predict.py").write_text(PREDICTS)
    (tmp_path / "s.yaml").write_text(SUITE.replace("[mlp]", "mlp"))
    command = [sys.executable, "-m", "injector", "suite", "run", "s.yaml", "--use-current-env"]
    ran = subprocess.run(
        [*command, "--devices", "cpu:1", "--base", "base"],
        cwd=tmp_path, env={**os.environ, "PYTHONPATH": search_path()}, capture_output=True, text=True,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    log = dlbs.read_log(str(tmp_path / "logs" / "mlp_16.log"))
    assert not log.problems and log.phase == "inference" and log.items == 16
    assert len(log.batches) == 20, "a time of each batch"
    assert log.parameters["exp.node_id"] == socket.gethostname()
    assert log.parameters["exp.status"] == "ok" and log.parameters["exp.model"] == "mlp"
    suite = json.loads(
        call(
            "suite", "report", tmp_path / "s.yaml", "--base", tmp_path / "base", "--format", "json"
        )[0]
    )
    [benchmark] = suite["benchmarks"]
    assert (benchmark["fail"], benchmark["n"], benchmark["score"] > 0) == (0, 1, True)
    out, _ = call("ingest", tmp_path / "logs", "--into", tmp_path / "read")
    for folder in (out.strip(), next((tmp_path / "base" / "runs").iterdir())):
        query = "exp.phase == 'inference' and exp.model == 'mlp'"
        words = ("--query", query, "--target", "results.time", "--format", "json")
        [row] = json.loads(call("suite", "report", folder, *words)[0])["benchmarks"]
        assert row["results.time"] == pytest.approx(log.parameters["results.time"])


# --- help -------------------------------------------------------------------------------------------


def test_help_by_name_and_by_text() -> None:
    out, _ = call("help", "--params", "exp.gpus")
    assert out.startswith("exp.gpus  (variable)\n  the GPUs that a benchmark uses")
    found = json.loads(call("help", "--text", "CUDA", "--json")[0])
    assert {"--devices", "{arch}"} <= {each["name"] for each in found}
    assert all("cuda" in each["text"].lower() for each in found)
    both = json.loads(call("help", "--params", "^plan", "--text", "devices", "--json")[0])
    assert {each["name"] for each in both} == {"plan", "plan.devices"}
    kinds = {
        each["kind"].split(" of ")[0] for each in json.loads(call("help", "--params", "--json")[0])
    }
    assert kinds == {"option", "key", "placeholder", "variable", "metric"}
    for word, text in (("x(", "is no regular expression"), ("so-named", "no parameter matches")):
        assert text in call("help", "--params", word, code=2)[1]


def test_help_lists_frameworks_and_what_is_about_one() -> None:
    listed = json.loads(call("help", "--frameworks", "--json")[0])
    assert {"torch", "tensorflow", "jax", "onnxruntime"} <= {each["name"] for each in listed}
    assert {each["kind"] for each in listed} == {"framework"}
    found = json.loads(call("help", "--frameworks", "tensorflow", "--json")[0])
    kinds = {each["name"]: each["kind"] for each in found}
    assert kinds["tensorflow"] == "framework" and kinds["keras-vision"] == "benchmark"
    assert "jax" not in kinds
    _, err = call("help", "--frameworks", "mxnet", code=2)
    assert "inject help --frameworks lists those that are known" in err


def test_a_framework_that_is_not_installed_is_named(tmp_path: Path) -> None:
    """By the suite, as its run goes, and by its report; the entry beside it succeeds."""
    (tmp_path / "there.py").write_text("print('trained')\n")
    (tmp_path / "away.py").write_text("import no_such_framework\n")
    plan = "plan: {method: njobs, launcher: none}, validation: {rate: false}"
    text = f"_all: {{{plan}, voir: {{options: {{no_monitor: true}}}}}}\n"
    for name in ("there", "away"):
        text += f"{name}: {{inherits: _all, run: {name}.py}}\n"
    (tmp_path / "s.yaml").write_text(text)
    command = [sys.executable, "-m", "injector", "suite", "run", "s.yaml", "--use-current-env"]
    ran = subprocess.run(
        [*command, "--devices", "cpu:1", "--base", "base"],
        cwd=tmp_path, env={**os.environ, "PYTHONPATH": search_path()}, capture_output=True, text=True,
    )  # fmt: skip
    assert ran.returncode == 1, ran.stderr
    words = (tmp_path / "s.yaml", "--base", tmp_path / "base")
    shown, _ = call("suite", "report", *words)
    assert "No module named 'no_such_framework'" in ran.stdout + ran.stderr
    assert "No module named 'no_such_framework'" in shown
    report = json.loads(call("suite", "report", *words, "--format", "json")[0])
    failed = {each["benchmark"]: each["fail"] for each in report["benchmarks"]}
    assert failed == {"there": 0, "away": 1}
