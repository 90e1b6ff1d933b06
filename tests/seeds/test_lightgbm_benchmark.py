"""The document on lightgbm-benchmark, claim by claim: what its scripts report, of programs that do not."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from search_path import search_path

from injector.analysis.benchmark_metrics import benchmark_metrics, benchmark_properties, of_job
from injector.analysis.summary import summarise
from injector.bus.readable import collected
from injector.export.content import Content
from injector.metrics import LIGHTGBM, LIGHTGBM_TASKS
from injector.store.folder import open_run
from injector.suite.config import load
from injector.suite.config.definitions import shipped_suites
from injector.suite.results.run_record import read

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "benchmarks" / "lightgbm-benchmark"
pytestmark = pytest.mark.xdist_group("lightgbm-benchmark")
PARAMETERS = (
    *("objective", "metric", "boosting_type", "tree_learner", "num_trees", "num_leaves"),
    *("min_data_in_leaf", "learning_rate", "max_bin", "feature_fraction"),
    *("device_type", "custom_params"),
)
"""Of the document's learning parameters those that every training of the suite names: all but the gains of
labels, which only ranking has."""


def needs(*libraries: str) -> None:
    for name in libraries:
        if importlib.util.find_spec(name) is None:
            pytest.skip(f"{name} is not installed")


def inject(folder: Path, *words: object, **environment: str) -> subprocess.CompletedProcess[str]:
    path = search_path(os.environ.get("PYTHONPATH"))
    return subprocess.run(
        [sys.executable, "-m", "injector", *map(str, words)],
        cwd=folder,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1", **environment},
        timeout=600,
    )


def named(folder: Path) -> dict[tuple[str, int, int | None], float]:
    with collected(open_run(str(folder))) as run:
        return {(each.name, each.node, each.step): each.value for each in benchmark_metrics(run)}


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """As the document's generator writes it: no header, commas, the label first."""
    folder = tmp_path_factory.mktemp("data")
    rng = np.random.default_rng(5)
    for name, rows in (("train", 600), ("test", 100), ("inference", 120)):
        (folder / name).mkdir()
        x = rng.normal(size=(rows, 4))
        file = folder / name / f"{name}_0.txt"
        np.savetxt(file, np.column_stack((x[:, 0] * 9, x)), delimiter=",", fmt="%1.3f")
    return folder


@pytest.mark.parametrize(
    "framework",
    ["lightgbm", *(pytest.param(one, marks=pytest.mark.release) for one in ("xgboost", "sklearn"))],
)
def test_every_framework_reports_the_same_metrics(framework, data, tmp_path):
    needs(framework)
    words = ("--framework", framework, "--data", data, "--num_trees", 7, "--batch", 30)
    options = ("--strict", "--into", "r", "--interval", "0.1", "--tag", "mine=1")
    script = FOLDER / "main.py"
    done = inject(tmp_path, "run", *options, "--voirfile", FOLDER / "frameworks.py", script, *words)
    assert done.returncode == 0, done.stderr
    found = named(tmp_path / "r")
    times = [found[name, 0, None] for name in ("time_data_loading", "time_training")]
    assert min(times) > 0 and sum(times) < summary_of(tmp_path / "r").duration
    assert found["prediction_batches", 0, None] == 4
    assert found["prediction_queries", 0, None] == 120
    total, each = (found[f"time_inferencing{end}", 0, None] for end in ("", "_per_query"))
    assert each == pytest.approx(total / 120)
    assert found["prediction_latency_avg", 0, None] == pytest.approx(each * 1e6)
    for n in (50, 75, 90, 95, 99):
        batch = found[f"batch_latency_p{n}_usecs", 0, None]
        assert found[f"prediction_latency_p{n}_usecs", 0, None] == pytest.approx(batch / 30)
    steps = {name: step for name, _, step in found if step is not None}
    expected = {"lightgbm": "node_0/valid_0.l2", "xgboost": "node_0/valid_0.rmse"}
    assert steps == ({expected[framework]: 6} if framework in expected else {})
    with collected(open_run(str(tmp_path / "r"))) as run:
        properties = benchmark_properties(run)
    assert properties["task"] == "train" and properties["framework"] == framework
    assert {"framework_version", "system", "machine", "cpu_count", "platform"} <= set(properties)
    assert properties["architecture"].startswith("64bit")
    if "cpu MHz" in Path("/proc/cpuinfo").read_text():
        assert 100 < int(properties["cpu_frequency"]) < 10_000
    assert {each.name for each in LIGHTGBM} <= {name for name, _, _ in found}, "the host's 18"
    record = read(str(tmp_path / "r"))
    assert record.values["time_training"] == found["time_training", 0, None]
    assert record.tags["framework"] == framework and record.tags["mine"] == "1"
    if framework == "lightgbm":
        assert found["train_data.length", 0, None] == 600
        assert found["train_data.width", 0, None] == 4
        assert record.params["num_leaves"] == 31 and record.params["objective"] == "regression"


def summary_of(folder: Path):
    with collected(open_run(str(folder))) as run:
        return summarise(run)


@pytest.fixture(scope="module")
def two(tmp_path_factory):
    """Two processes of this host that train one model, at ports that are free."""
    needs("lightgbm")
    folder = tmp_path_factory.mktemp("two")
    program = ROOT / "tests" / "programs" / "boosters" / "lightgbm_machines.py"
    words = (FOLDER / "machines.py", "--processes", 2, program, "@machines@", "@port@", "@rank@")
    done = inject(folder, "run", "--strict", "--into", "r", *words)
    assert done.returncode == 0, done.stderr
    return folder


def test_training_over_sockets_is_one_job_of_ranks(two):
    summary = summary_of(two / "r")
    [loop] = summary.profile.loops
    assert sorted(rank.rank for rank in loop.ranks) == [0, 1]
    assert (loop.steps, loop.items_per_step) == (5, 195), "of a rank: one has 200 rows, one has 190"
    assert "connect" in {node.name for node in summary.profile.others}
    assert summary.params["tree_learner"] == "data"


def test_metrics_are_of_each_node(two):
    found = named(two / "r")
    nodes = {node for name, node, _ in found if name == "time_training"}
    assert nodes == {0, 1}
    assert [found["train_data.length", node, None] for node in (0, 1)] == [200, 190]
    steps = [(node, step) for name, node, step in found if name.endswith("valid_0.rmse")]
    assert sorted(steps) == [(node, step) for node in (0, 1) for step in range(5)]
    with collected(open_run(str(two / "r"))) as run:
        content = Content(run, summarise(run))
        series = {each.name: each for each in content.series}
        metrics = benchmark_metrics(run)
    assert series["time_training"].steps.tolist() == [0, 1], (
        "a node is the step, as in MLflow there"
    )
    assert series["node_1/valid_0.rmse"].steps.tolist() == [0, 1, 2, 3, 4]
    assert content.tags["framework"] == "lightgbm"
    job = of_job(metrics)
    assert job["train_data.length"] == 390
    assert job["time_training"] == max(found["time_training", node, None] for node in (0, 1))


@pytest.mark.release
def test_mlflow_has_what_the_scripts_log_there(two, tmp_path):
    needs("mlflow")
    from mlflow import MlflowClient

    place = f"sqlite:///{tmp_path}/mlflow.db"
    done = inject(two, "export", "r", "--to", "mlflow", MLFLOW_TRACKING_URI=place)
    assert done.returncode == 0, done.stderr
    client = MlflowClient(place)
    [run] = client.search_runs([each.experiment_id for each in client.search_experiments()])
    for name, steps in (("time_training", [0, 1]), ("node_1/valid_0.rmse", list(range(5)))):
        history = client.get_metric_history(run.info.run_id, name)
        assert sorted(each.step for each in history) == steps, name
    assert run.data.params["tree_learner"] == "data"
    assert (run.data.tags["task"], run.data.tags["framework"]) == ("train", "lightgbm")
    assert client.list_artifacts(run.info.run_id), "its page"


@pytest.mark.release
def test_workers_of_ray_are_ranks_of_one_job(data, tmp_path):
    needs("lightgbm", "ray")
    for part in range(2):
        (tmp_path / "parts").mkdir(exist_ok=True)
        shutil.copy(data / "train" / "train_0.txt", tmp_path / "parts" / f"part_{part}")
    words = ("--train", "parts", "--test", data / "test", "--export_model", "model")
    words += ("--num_trees", 5, "--metric", "rmse", "--tree_learner", "data", "--num_leaves", 7)
    done = inject(tmp_path, "run", "--into", "r", FOLDER / "ray_train.py", *words)
    assert done.returncode == 0, done.stderr
    summary = summary_of(tmp_path / "r")
    [loop] = summary.profile.loops
    assert sorted((each.rank, each.steps) for each in loop.ranks) == [(0, 5), (1, 5)]
    assert not summary.profile.outcomes, "no worker died: Ray ended them when they had returned"
    found = named(tmp_path / "r")
    assert [found["train_data.length", node, None] for node in (0, 1)] == [600, 600]
    assert ("node_1/valid_0.rmse", 1, 4) in found and (tmp_path / "model" / "model.txt").is_file()


def test_the_c_api_predicts_the_same_row_by_row(two, tmp_path):
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("there is no C compiler")
    prepare = module("prepare")
    prepare.compile_predictor(tmp_path / "lightgbm_predict")
    command = [tmp_path / "lightgbm_predict", two / "model.txt", two / "rows.txt"]
    done = subprocess.run([*command, "num_threads=1"], capture_output=True, text=True, check=True)
    row = re.compile(  # of lightgbm_c_api/score.py
        r"ROW line=([0-9\.]+) label=([0-9\.e\-]+) null_elem=([0-9\.]+) "
        r"prediction=([0-9\.e\-]+) time_usecs=([0-9\.e\-]+)"
    )
    rows = [row.match(line) for line in done.stdout.splitlines() if line.startswith("ROW")]
    python = np.loadtxt(two / "python.txt")
    assert [float(each[4]) for each in rows] == pytest.approx(python, abs=2e-6) and len(rows) == 400
    total = float(re.search(r"METRIC time_inferencing=(\S+)", done.stdout)[1])
    assert total * 1e6 == pytest.approx(sum(float(each[5]) for each in rows), abs=1)
    assert "PROPERTY inference_data_length=400" in done.stdout
    for text, why in (("1,2", "1 features after the label; the model has 4"), ("1,x,1,1,1", "row")):
        (tmp_path / "bad.txt").write_text(f"{text}\n")
        done = subprocess.run([*command[:2], tmp_path / "bad.txt"], capture_output=True, text=True)
        assert done.returncode == 2 and "bad.txt:1: " in done.stderr and why in done.stderr


def test_single_rows_and_batches_only_predict(two, data, tmp_path):
    words = ("--framework", "lightgbm", "--data", data, "--model", two / "model.txt", "--batch", 30)
    options = ("--strict", "--into", "r", "--no-monitor", "--voirfile", FOLDER / "frameworks.py")
    done = inject(tmp_path, "run", *options, FOLDER / "main.py", *words)
    assert done.returncode == 0, done.stderr
    found = {name: value for (name, _, _), value in named(tmp_path / "r").items()}
    assert found["prediction_batches"] == 4 and found["time_data_loading"] > 0
    assert "time_training" not in found
    record = read(str(tmp_path / "r"))
    assert len(record.rates) > 1 and record.tags["task"] == "score", (
        "its rate is one of inferencing"
    )


LOGGER = """
class MetricsLogger:
    def log_metric(self, key, value, step=None):
        pass

    def set_properties(self, **kwargs):
        pass

    def log_inferencing_latencies(self, time_per_batch, batch_length=1, factor_to_usecs=1000000.0):
        self.log_metric("prediction_queries", len(time_per_batch) * batch_length)
"""
SCORE = """
from common.metrics import MetricsLogger

logger = MetricsLogger()
logger.set_properties(task="score", framework="lightgbm", framework_version="C_API.4")
logger.set_properties(inference_data_length="40")
logger.log_metric("time_inferencing", 0.5)
for value in (3, 2):
    logger.log_metric("node_0/valid_0.rmse", value)
logger.log_inferencing_latencies([5.0] * 40, factor_to_usecs=1.0)
"""


def test_what_a_script_logs_of_a_process_without_python_has_the_same_names(tmp_path):
    (tmp_path / "common").mkdir()
    (tmp_path / "common" / "metrics.py").write_text(LOGGER)
    (tmp_path / "score.py").write_text(SCORE)
    options = ("--strict", "--into", "r", "--no-monitor", "--voirfile", FOLDER / "logged.py")
    done = inject(tmp_path, "run", *options, "score.py")
    assert done.returncode == 0, done.stderr
    assert named(tmp_path / "r") == {
        ("inference_data_length", 0, None): 40,
        ("time_inferencing", 0, None): 0.5,
        ("node_0/valid_0.rmse", 0, 0): 3,
        ("node_0/valid_0.rmse", 0, 1): 2,
        ("prediction_queries", 0, None): 40,
    }
    record = read(str(tmp_path / "r"))
    assert record.tags["task"] == "score" and record.tags["framework_version"] == "C_API.4"
    assert np.mean(record.rates) == pytest.approx(1e6 / 5)


def module(name: str):
    """A program of the definition, as a module."""
    spec = importlib.util.spec_from_file_location(
        f"lightgbm_benchmark_{name}", FOLDER / f"{name}.py"
    )
    found = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = found  # dataclasses and annotations look there
    spec.loader.exec_module(found)
    return found


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["--machines", "here"], "'here' is no machine: HOST:PORT"),
        (["--machines", "a:1,b:70000"], "'b:70000' is no machine"),
        (["--machines", "127.0.0.1:5,127.0.0.1:5"], "is there twice"),
        (
            ["--machines", "198.51.100.1:5,198.51.100.2:5"],
            "none of 198.51.100.1, 198.51.100.2 is an address of",
        ),
        (["--processes", "0"], "at least 1"),
    ],
)
def test_a_machine_list_that_does_not_match(words, why, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["machines.py", *words, "train.py"])
    assert module("machines").main() == 2
    assert why in capsys.readouterr().err


def test_a_machine_that_fails_ends_the_others(tmp_path):
    (tmp_path / "p.py").write_text(
        "import sys, time\nif sys.argv[1] == '1':\n    sys.exit(3)\ntime.sleep(600)\n"
    )
    command = [sys.executable, FOLDER / "machines.py", "p.py", "@rank@"]
    assert subprocess.run(command, cwd=tmp_path, timeout=60).returncode == 3


def test_processes_of_mpi_have_their_rank_and_mpirun_is_missed_by_name(tmp_path):
    launcher = FOLDER / "mpi.py"
    (tmp_path / "mpirun").write_text(  # one process after the other, as Open MPI would start both
        '#!/bin/sh\nshift 2\nfor rank in 0 1; do OMPI_COMM_WORLD_RANK=$rank "$@" || exit; done\n'
    )
    (tmp_path / "mpirun").chmod(0o755)
    (tmp_path / "p.py").write_text("import os, sys\nprint(sys.argv[1:], os.environ['PLACE'])\n")
    command = [sys.executable, launcher, "--processes", "2", "p.py", "of", "@rank@"]
    place = {"cwd": tmp_path, "capture_output": True, "text": True}
    environment = {**os.environ, "PLACE": "at.@rank@"}
    path = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(command, **place, env={**environment, "PATH": path})
    assert done.stdout.splitlines() == ["['of', '0'] at.0", "['of', '1'] at.1"], done.stderr
    done = subprocess.run(command, **place, env={**environment, "PATH": str(tmp_path / "none")})
    assert done.returncode == 2 and "mpirun was not found" in done.stderr


@pytest.mark.parametrize(
    ("commands", "why"),
    [
        ((), "mpicc was not found: LightGBM over MPI needs a C++ compiler, CMake"),
        (("mpicc",), "mpirun was not found"),
        (("mpicc", "mpirun"), "mpicc does not find mpi.h"),
    ],
)
def test_what_compiling_with_mpi_lacks_is_named(commands, why, tmp_path, monkeypatch):
    for name in commands:
        (tmp_path / name).write_text("#!/bin/sh\nexit 1\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SystemExit) as ended:
        module("prepare").compile_with_mpi(tmp_path / "mpi")
    assert why in ended.value.code and "libopenmpi-dev" in ended.value.code


def test_mpi_is_for_those_who_ask_for_it():
    """Else the suite could be passed nowhere without an MPI library."""
    machine = {"arch": "cpu", "gpu_count": 2, "cpu_count": 2, "cpu_per_gpu": 1}
    for given, unmet in (((), ("mpi",)), (("mpi=true",), ())):
        suite = load(shipped_suites()["lightgbm"], machine, parameters=given)
        [found] = [each for each in suite.benchmarks if each.name == "train-mpi"]
        assert found.unmet(machine) == unmet


def test_data_that_does_not_fit_its_schema(data, tmp_path, monkeypatch, capsys):
    main = module("main")
    for name in ("train", "test", "inference"):
        shutil.copytree(data / name, tmp_path / name)
    (tmp_path / "test" / "test_0.txt").write_text("1,2,3\n")
    for text, why in (("1,2,3\n", "2 features after the label, not 4"), ("1,a,b,c,d\n", "test_0")):
        (tmp_path / "test" / "test_0.txt").write_text(text)
        monkeypatch.setattr(
            sys, "argv", ["main.py", "--framework", "sklearn", "--data", str(tmp_path)]
        )
        with pytest.raises(SystemExit) as ended:
            main.main()
        assert ended.value.code == 2
        error = capsys.readouterr().err
        assert why in error and str(tmp_path / "test" / "test_0.txt") in error


def test_a_framework_that_is_not_installed(data, monkeypatch, capsys):
    main = module("main")
    monkeypatch.setitem(sys.modules, "xgboost", None)
    monkeypatch.setattr(sys, "argv", ["main.py", "--framework", "xgboost", "--data", str(data)])
    with pytest.raises(SystemExit) as ended:
        main.main()
    assert ended.value.code == 2 and "not installed" in capsys.readouterr().err


def test_one_suite_has_the_reference_and_its_variants():
    machine = {"arch": "cpu", "gpu_count": 2, "cpu_count": 2, "cpu_per_gpu": 1}
    job = {"base": "b", "data": "d", "out": "o", "source": "s", "device_count": 2}
    suite = load(shipped_suites()["lightgbm"], machine)
    words = {
        each.name: each.argv({**machine, **job, "benchmark_folder": "f"})
        for each in suite.benchmarks
    }
    trainings = {name: found for name, found in words.items() if name.startswith("train")}
    assert len(trainings) > 6
    for name, found in trainings.items():
        assert {f"--{each}" for each in PARAMETERS} <= set(found), name
    reference, variant = words["train"], words["train-63-bins"]
    assert [(a, b) for a, b in zip(reference, variant, strict=True) if a != b] == [("255", "63")]
    ranking = words["train-ranking"]
    assert ranking[ranking.index("--label_gain") + 1] == "0,1,3,7"
    sockets = words["train-voting-parallel"]
    custom = json.loads(sockets[sockets.index("--custom_params") + 1].replace("@port@", "7"))
    assert custom == {"machines": "@machines@", "local_listen_port": 7, "num_threads": 1}


@pytest.mark.parametrize(
    ("parameters", "variables", "sizes"),
    [
        (("features=1000", "samples=3000"), (), [(3000, 1000, 100)]),
        ((), ("features=[10, 100, 1000]",), [(100_000, n, 100) for n in (10, 100, 1000)]),
        (("trees=5000",), ("samples=[1000, 10000]",), [(n, 10, 5000) for n in (1000, 10_000)]),
    ],
)
def test_rows_features_and_trees_are_those_of_data_model_and_training(parameters, variables, sizes):
    machine = {"arch": "cpu", "gpu_count": 1, "cpu_count": 1, "cpu_per_gpu": 1}
    job = {"base": "b", "data": "d", "out": "o", "source": "s", "device_count": 1}
    context = {**machine, **job, "benchmark_folder": "f"}
    suite = load(shipped_suites()["lightgbm"], machine, parameters=parameters, variables=variables)
    names, limits = set(), []
    for family, given in (("train", "--num_trees"), ("framework-sklearn", "--num_trees")):
        made = [each for each in suite.benchmarks if each.family == family]
        for each, (rows, features, trees) in zip(made, sizes, strict=True):
            data = each.filled(context)["prepare"]["argv"]
            words = each.argv(context)
            assert int(words[words.index(given) + 1]) == trees
            asked = [int(data[f"--{n}"]) for n in ("train_samples", "n_features", "model_trees")]
            assert asked == [rows, features, trees]
            assert each.filled(context)["env"]["OMP_NUM_THREADS"] == 1
            names.add(each.name)
            limits.append((rows * features * trees, each.max_duration))
    assert len(names) == 2 * len(sizes)
    # What a busy core needed was 0.2 seconds of a million, the most: 37 to 61 s of 300 million.
    assert all(limit > size / 1e6 for size, limit in limits)


@pytest.mark.parametrize("ending", ["raises", "--no-monitor"])
def test_what_a_script_raises_is_reported_with_what_it_did_before(ending, tmp_path):
    """And the resources it used, unless they are not wanted."""
    needs("lightgbm")
    (tmp_path / "train.py").write_text(
        "import lightgbm, numpy\n\n\ndef stop(env):\n    if env.iteration == 3:\n"
        "        raise ValueError('no more memory')\n\n\n"
        "x = numpy.random.default_rng(0).normal(size=(300, 4))\n"
        "lightgbm.train({'verbose': -1}, lightgbm.Dataset(x, x[:, 0]), 9, callbacks=[stop])\n"
    )
    words = ("--no-monitor",) if ending == "--no-monitor" else ("--interval", "0.1")
    done = inject(tmp_path, "run", "--into", "r", *words, "--quiet", "train.py")
    assert done.returncode == 1 and done.stderr.endswith("ValueError: no more memory\n")
    shown = inject(tmp_path, "report", "r").stdout.splitlines()
    assert "  ValueError: no more memory" in shown
    assert any(line.startswith("train: 4 steps") for line in shown), "with the one that it ended"
    found = named(tmp_path / "r")
    assert found["train_data.length", 0, None] == 300 and found["time_data_loading", 0, None] > 0
    monitored = {each.name for each in LIGHTGBM} & {name for name, _, _ in found}
    assert len(monitored) == (0 if ending == "--no-monitor" else 18)


def test_help_says_which_layer_an_argument_is_of(tmp_path):
    (tmp_path / "x.py").write_text(
        "from dataclasses import dataclass\nfrom voir import configurable\n\n\n@dataclass\nclass Own:\n"
        "    # Rounds to keep\n    rounds: int = 3\n\n\n@configurable\n"
        "def instrument_own(ov, options: Own):\n    yield ov.phases.init\n"
    )
    shown = inject(tmp_path, "run", "--voirfile", "x.py", "--help").stdout
    general, _, own = shown.partition("x.py")
    assert "--rounds" in own and "--rounds" not in general
    assert {"--no-monitor", "--tag", "--track", "--verbose"} <= set(
        re.findall(r"--[a-z-]+", general)
    )


def test_every_name_of_a_task_is_in_the_registry():
    names = {each.name for each in LIGHTGBM_TASKS}
    assert {"time_data_loading", "time_training", "time_inferencing"} <= names
    assert len(LIGHTGBM) == 18


@pytest.mark.release
def test_the_scripts_of_the_repository_agree_with_what_is_measured(tmp_path):
    """What they log of themselves, beside what is recorded of them from outside."""
    needs("lightgbm", "mlflow", "matplotlib", "sklearn")
    sizes = ("samples=2000", "test_samples=500", "trees=10")
    options = [
        "--base",
        tmp_path,
        "--use-current-env",
        "--select",
        "train,train-data-parallel,score-c-api",
    ]
    options += [word for size in sizes for word in ("-P", size)]
    done = inject(tmp_path, "suite", "install", "lightgbm", *options)
    if not [*tmp_path.glob("sources/lightgbm-benchmark-*/*/src")]:  # other versions do as well
        pytest.skip(f"git does not reach the repository: {done.stdout}")
    done = inject(tmp_path, "suite", "prepare", "lightgbm", *options)
    assert done.returncode == 0, done.stderr
    more = ("--devices", "cpu:2", "--name", "one")
    done = inject(tmp_path, "suite", "run", "lightgbm", *options, *more)
    assert done.returncode == 0, done.stderr
    [folder] = (tmp_path / "runs").iterdir()
    run = folder / "jobs" / "train.R0.D0"
    log = re.compile(r"log_metric\((\S+?),([-\d.e]+), step=(\d+)\)")
    own = {(m[1], int(m[3])): float(m[2]) for m in log.finditer((run / "stderr").read_text())}
    found = named(run)
    assert found["train_data.length", 0, None] == own["train_data.length", 0] == 2000
    for step in range(10):
        name = "node_0/valid_0.rmse"
        assert found[name, 0, step] == pytest.approx(own[name, step])
    for name in ("time_data_loading", "time_training"):
        assert 0 < found[name, 0, None] <= own[name, 0]
    found = named(folder / "jobs" / "score-c-api.R0.D0")
    times = {name for name, _, _ in found if name.startswith("time_")}
    assert times == {"time_data_loading", "time_inferencing", "time_inferencing_per_query"}
    total, each = (found[f"time_inferencing{end}", 0, None] for end in ("", "_per_query"))
    assert total == pytest.approx(each * 500, rel=0.01)
    assert found["inference_data_length", 0, None] == found["prediction_queries", 0, None] == 500
