"""ml_benchmark's document, claim by claim: the life of a hyper-parameter study, measured without touching it.

The table "Lifecycle" defines the steps; each test is named after one of them. The study is that of
`benchmarks/hpo-digits` (a network on digits), by Optuna, and before a release by the other frameworks.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import pytest
from search_path import search_path

from injector.analysis.studies import studies_in_run
from injector.analysis.study import Study, StudyPhase
from injector.analysis.summary import Summary, summarise
from injector.store.folder import open_run

ROOT = Path(__file__).parents[2]
TASK = ROOT / "benchmarks" / "hpo-digits"
if find_spec("sklearn") is None:
    pytest.skip("scikit-learn is not installed", allow_module_level=True)


class Measured(NamedTuple):
    out: str
    summary: Summary
    study: Study
    phases: dict[str, StudyPhase]


def measured(folder: Path, program: str, *args: str) -> Measured:
    """`program` of the benchmark under `inject run`, as it is."""
    command = [sys.executable, "-m", "injector", "run", "--runs", "runs", "--quiet"]
    if program == "grid.py":
        command += ["--voirfile", str(TASK / "grid_voirfile.py")]
    path = search_path(os.environ.get("PYTHONPATH"))
    env = {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
    done = subprocess.run(
        [*command, str(TASK / program), "--epochs", "3", *args],
        cwd=folder, env=env, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    [run] = (folder / "runs").iterdir()
    summary = summarise(open_run(str(run)))
    assert summary.profile is not None and not summary.problem
    [study] = summary.profile.studies
    return Measured(done.stdout, summary, study, {each.name: each for each in study.phases})


@pytest.fixture(scope="module")
def optuna(tmp_path_factory):
    pytest.importorskip("optuna")
    return measured(tmp_path_factory.mktemp("optuna"), "optuna_study.py", "--prune")


pytestmark = pytest.mark.xdist_group("ml_benchmark")


def test_deploy_starts_the_components_of_the_framework(optuna):
    deploy = optuna.phases["deploy"]
    assert deploy.seconds > 0 and deploy.ended <= optuna.study.started + 0.1


def test_setup_is_what_is_needed_to_start_a_trial(optuna):
    setup = optuna.phases["setup"]
    assert setup.calls == len(optuna.study.trials) == 12
    assert setup.seconds == pytest.approx(sum(trial.setup for trial in optuna.study.trials))


def test_a_trial_is_loading_training_and_validation_with_one_setting(optuna):
    for trial in optuna.study.trials:
        assert set(trial.params) == {"rate", "width"}
        parts = (trial.load, trial.train, trial.validate)
        assert all(part is not None and part > 0 for part in parts)
        within = sum(p for p in parts if p) + trial.other
        # What of the framework is inside of a trial: all but keeping its result.
        assert within <= trial.seconds + 1e-6 <= within + trial.framework + 2e-6
        assert trial.steps == (3 if trial.state == "complete" else trial.reports)


def test_the_settings_are_those_of_the_search_space_each_once(optuna):
    tried = {(trial.params["rate"], trial.params["width"]) for trial in optuna.study.trials}
    assert len(tried) == 12


def test_validation_captures_the_performance_of_a_setting(optuna):
    complete = [trial for trial in optuna.study.trials if trial.state == "complete"]
    assert all(0.0 < trial.values[""] <= 1.0 for trial in complete)
    assert optuna.study.goals == ("maximize",)


def test_result_collection_is_from_the_last_trial_to_the_best_setting(optuna):
    collected = optuna.phases["result collection"]
    last = max(trial.began + trial.seconds for trial in optuna.study.trials)
    assert collected.began == pytest.approx(optuna.study.started + last, abs=1e-6)
    assert collected.ended == pytest.approx(optuna.study.started + optuna.study.seconds, abs=1e-6)


def test_the_best_setting_is_named(optuna):
    [best] = [trial for trial in optuna.study.trials if trial.number in optuna.study.best]
    assert f"best: rate {best.params['rate']:g}, width {best.params['width']}," in optuna.out
    whole = [trial for trial in optuna.study.trials if trial.state == "complete"]
    assert best.values[""] == max(trial.values[""] for trial in whole)


def test_the_best_model_is_tested_at_last(optuna):
    test = optuna.phases["test"]
    assert test.calls == 1 and test.began >= optuna.phases["result collection"].ended


def test_metrics_are_collected_outside_of_the_framework(optuna):
    """Steps, losses and resources of the run stand beside the study, and take none of its time."""
    assert optuna.summary.profile.loops and optuna.summary.machines
    collection = optuna.phases["metric collection"]
    others = [phase for phase in optuna.study.phases if phase is not collection]
    assert others and collection.began == optuna.summary.ended
    assert collection.began >= max(phase.ended for phase in others)
    assert collection.seconds == collection.ended - collection.began > 0


def test_every_phase_is_a_span_with_begin_end_and_duration(optuna):
    for phase in optuna.study.phases:
        assert phase.began <= phase.ended
        # One worker: no phase takes more time than lies between its begin and its end.
        assert 0 < phase.seconds <= phase.ended - phase.began + 1e-6


def test_components_perform_similar_tasks_and_are_compared(optuna):
    study = optuna.study
    assert study.in_framework == pytest.approx(
        sum(optuna.phases[name].seconds for name in ("setup", "framework", "store"))
    )
    assert study.in_trials > study.in_framework > 0


@pytest.mark.release
def test_a_plain_grid_is_measured_as_well(tmp_path):
    found = measured(tmp_path, "grid.py", "--workers", "2")
    assert found.study.workers == 2 and len(found.study.trials) == 12
    best = max(found.study.trials, key=lambda trial: trial.values[""])
    assert found.study.best == (best.number,)
    assert f"best: rate {best.params['rate']:g}, width {best.params['width']}," in found.out


@pytest.mark.release
@pytest.mark.parametrize("prune", [[], ["--prune"]], ids=["whole", "pruned"])
def test_the_searches_of_scikit_learn(tmp_path, prune):
    found = measured(tmp_path, "sklearn_search.py", "--workers", "2", *prune)
    assert found.study.framework == "sklearn" and len(found.study.trials) >= 12
    assert {"result collection", "train", "validate", "test"} <= set(found.phases)


@pytest.mark.release
def test_the_raytune_example(tmp_path):
    pytest.importorskip("ray")
    found = measured(tmp_path, "ray_study.py", "--workers", "2")
    assert found.study.framework == "ray" and found.study.workers == 2
    assert [trial.state for trial in found.study.trials] == ["complete"] * 12
    names = {"deploy", "setup", "load", "train", "validate", "result collection", "test"}
    assert {*names, "un-deploy"} <= set(found.phases)
    [best] = [trial for trial in found.study.trials if trial.number in found.study.best]
    assert f"width {best.params['width']}," in found.out


def test_a_framework_that_is_not_installed_is_the_programs_own_error(tmp_path):
    (tmp_path / "study.py").write_text("import a_framework_that_is_not_installed\n")
    plain = subprocess.run(
        [sys.executable, "study.py"], cwd=tmp_path, capture_output=True, text=True
    )
    command = [sys.executable, "-m", "injector", "run", "--quiet", "study.py"]
    path = search_path(os.environ.get("PYTHONPATH"))
    ours = subprocess.run(
        command,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": path},
    )
    assert (ours.returncode, ours.stderr) == (plain.returncode, plain.stderr)


def test_a_study_whose_trial_crashes_has_its_record(tmp_path):
    pytest.importorskip("optuna")
    (tmp_path / "study.py").write_text(
        "import optuna\n"
        "optuna.logging.disable_default_handler()\n"
        "def objective(trial):\n"
        "    x = trial.suggest_int('x', 0, 9)\n"
        "    return 1 / (trial.number < 2)\n"
        "optuna.create_study().optimize(objective, n_trials=5)\n"
    )
    command = [sys.executable, "-m", "injector", "run", "--runs", "runs", "--quiet", "study.py"]
    path = search_path(os.environ.get("PYTHONPATH"))
    done = subprocess.run(
        command,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": path},
    )
    assert done.returncode == 1 and "ZeroDivisionError" in done.stderr
    [run] = (tmp_path / "runs").iterdir()
    report = subprocess.run(
        [sys.executable, "-m", "injector", "report", str(run), "--json"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    [study] = json.loads(report.stdout)["profile"]["studies"]
    assert [trial["state"] for trial in study["trials"]] == ["complete", "complete", "failed"]
    assert study["aborted"] and study["best"] in ([0], [1])
    assert study["trials"][2]["error"] == "ZeroDivisionError: division by zero"


@pytest.mark.parametrize("how", ["os.kill(os.getpid(), signal.SIGKILL)", "sys.exit(3)"])
def test_of_a_trial_that_ends_the_program_is_known_what_it_tried(tmp_path, how):
    """As the system does to one that needs too much memory."""
    pytest.importorskip("optuna")
    (tmp_path / "study.py").write_text(
        "import os, signal, sys, optuna\n"
        "optuna.logging.disable_default_handler()\n"
        "def objective(trial):\n"
        "    size = trial.suggest_int('size', 8, 8)\n"
        "    width = trial.suggest_int('width', 0, 9)\n"
        f"    if trial.number == 2: {how}\n"
        "    return width\n"
        "optuna.create_study().optimize(objective, n_trials=5)\n"
    )
    command = [sys.executable, "-m", "injector", "run", "--runs", "runs", "--quiet", "study.py"]
    path = search_path(os.environ.get("PYTHONPATH"))
    done = subprocess.run(command, cwd=tmp_path, env={**os.environ, "PYTHONPATH": path})
    assert done.returncode == (3 if "exit" in how else -signal.SIGKILL)
    [run] = (tmp_path / "runs").iterdir()
    [study] = studies_in_run(open_run(str(run)))
    assert [trial.state for trial in study.trials] == ["complete", "complete", "failed"]
    assert study.aborted and study.best in ((0,), (1,))
    assert study.trials[2].params["size"] == 8 and "width" in study.trials[2].params
    assert study.trials[2].seconds > 0


SEARCH = """
import os, signal, sys
import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.model_selection import GridSearchCV

class Constant(ClassifierMixin, BaseEstimator):
    def __init__(self, answer=0):
        self.answer = answer
    def fit(self, x, y):
        self.classes_ = np.unique(y)
        if self.answer == 3:
            HOW
        return self
    def predict(self, x):
        return np.full(len(x), self.answer)

x, y = np.zeros((60, 3)), np.arange(60) % 2
GridSearchCV(Constant(), {"answer": [1, 2, 3, 4]}, cv=3, error_score="raise").fit(x, y)
"""


@pytest.mark.parametrize(
    ("how", "error"),
    [
        ("os.kill(os.getpid(), signal.SIGKILL)", "it went on when its process died"),
        ("raise ValueError('is 3')", "ValueError: is 3"),
    ],
)
def test_a_candidate_that_ends_a_search_has_its_error_and_its_parameters(tmp_path, how, error):
    (tmp_path / "search.py").write_text(SEARCH.replace("HOW", how))
    command = [sys.executable, "-m", "injector", "run", "--runs", "runs", "--quiet", "search.py"]
    path = search_path(os.environ.get("PYTHONPATH"))
    env = {**os.environ, "PYTHONPATH": path}
    done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True)
    assert done.returncode == (1 if "raise" in how else -signal.SIGKILL)
    [run] = (tmp_path / "runs").iterdir()
    [study] = studies_in_run(open_run(str(run)))
    assert [dict(trial.params) for trial in study.trials] == [{"answer": n} for n in (1, 2, 3)]
    assert [trial.error for trial in study.trials] == ["", "", error]
    assert study.aborted and study.best == (0,)


GRID = """
import sys

def trial(rate, depth):
    if rate > 1:
        raise ValueError("rate is too large")
    depth += 1
    return [rate / depth]

for rate in (0.5, 1.0, 2.0):
    try:
        trial(rate, 1)
    except ValueError:
        pass
"""


@pytest.mark.parametrize(
    ("makes", "params"),
    [
        ('{"rate": rate, "value": result}', {"rate": 2.0}),
        ('{"rate": rate, "value": result[0]}', {}),  # which nothing that failed can tell
    ],
)
def test_a_trial_of_a_grid_that_fails_has_its_error_and_its_parameters(tmp_path, makes, params):
    (tmp_path / "grid.py").write_text(GRID)
    (tmp_path / "voirfile.py").write_text(
        "def instrument_grid(ov):\n"
        f"    ov.trial('//trial', lambda rate, result: {makes}, study='grid', goal='maximize')\n"
    )
    command = [
        sys.executable,
        "-m",
        "injector",
        "run",
        "--runs",
        "runs",
        "--voirfile",
        "voirfile.py",
    ]
    path = search_path(os.environ.get("PYTHONPATH"))
    done = subprocess.run(
        [*command, "grid.py"], cwd=tmp_path, capture_output=True, text=True,
        env={**os.environ, "PYTHONPATH": path},
    )  # fmt: skip
    assert done.returncode == 0 and "warning" not in done.stderr, done.stderr
    [run] = (tmp_path / "runs").iterdir()
    profile = summarise(open_run(str(run))).profile
    assert profile is not None
    [study] = profile.studies
    last = study.trials[2]
    assert (last.state, last.error) == ("failed", "ValueError: rate is too large")
    assert dict(last.params) == params and not last.values
    assert [trial.state for trial in study.trials] == ["complete", "complete", "failed"]


TUNED = """
import numpy as np
import optuna
from sklearn.linear_model import SGDClassifier

optuna.logging.disable_default_handler()
rng = np.random.default_rng(0)
x = rng.normal(size=(300, 8))
y = x[:, 0] > 0

def objective(trial):
    model = SGDClassifier(alpha=trial.suggest_float("alpha", 1e-5, 1e-1, log=True))
    for _ in range(12):
        model.partial_fit(x, y, classes=[False, True])
    return model.score(x, y)

optuna.create_study(direction="maximize").optimize(objective, n_trials=6, n_jobs=2)
"""


def test_trials_in_threads_are_threads_and_what_a_step_fits_is_named(tmp_path):
    pytest.importorskip("optuna")
    (tmp_path / "tuned.py").write_text(TUNED)
    path = search_path(os.environ.get("PYTHONPATH"))
    done = subprocess.run(
        [sys.executable, "-m", "injector", "run", "--runs", "runs", "tuned.py"],
        cwd=tmp_path, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": path},
    )  # fmt: skip
    report = " ".join(done.stderr.split())
    assert done.returncode == 0, done.stderr
    assert "on each of 2 threads" in report and "a step and thread" in report
    assert "thread 0" in report and "thread 1" in report and "2 ranks" not in report
    assert "fit at tuned.py:14: its inside is not recorded" in report
    assert "deploy of joblib" not in report


@pytest.mark.parametrize(
    ("asks", "says"),
    [
        (
            "ov.trial('//train', lambda x: x, goal='max')",
            "ov.trial: goal is 'minimize' or 'maximize'",
        ),
        ("ov.loader('//train > loader', device='gpu')", "device is True, a device of PyTorch"),
        ("ov.region('//train', 'x', items=print)", "does not say what its parameters are called"),
    ],
)
def test_a_voirfile_that_asks_for_what_is_wrong_is_named_with_the_line(tmp_path, asks, says):
    (tmp_path / "program.py").write_text("print('ran')\n")
    (tmp_path / "asks.py").write_text(f"\ndef instrument_all(ov):\n    {asks}\n")
    command = [sys.executable, "-m", "injector", "run", "--voirfile", "asks.py", "program.py"]
    path = search_path(os.environ.get("PYTHONPATH"))
    done = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True,
        env={**os.environ, "PYTHONPATH": path},
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (2, "")
    assert f"{tmp_path / 'asks.py'}:3: " in done.stderr and says in done.stderr
