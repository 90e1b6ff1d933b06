"""Runs in MLflow, read back by its own client: of a local store, and of a server that is started here."""

from __future__ import annotations

import os
import subprocess
import sys
import time
import urllib.request
from importlib.util import find_spec
from urllib.parse import quote

import pytest
from small_run import SEARCH, SEARCH_VOIRFILE

from injector.analysis.summary import summarise
from injector.export.mlflow import _check_database, artifact_location
from injector.store.folder import open_run

if find_spec("mlflow") is None:
    pytest.skip("mlflow is not installed", allow_module_level=True)
os.environ["MLFLOW_DISABLE_TELEMETRY"] = "true"
pytestmark = pytest.mark.xdist_group("trackers")  # one store for all of these


def client_of(uri):
    """Only the process that has these tests imports MLflow, which takes two seconds."""
    from mlflow import MlflowClient

    return MlflowClient(uri)


def one_run(uri, experiment="injector", name=None):
    client = client_of(uri)
    [found] = client.search_experiments(filter_string=f"name = '{experiment}'")
    runs = client.search_runs([found.experiment_id])
    if name is not None:
        runs = [run for run in runs if run.info.run_name == name]
    [run] = runs
    return client, run


def check(client, run, tmp_path, live=False):
    """Whether ``run`` is that of the fixture ``runs``; ``live``: its times of steps are means."""
    assert run.info.status == "FINISHED"
    assert run.data.tags["team"] == "vision"
    assert run.data.tags["mlflow.source.name"].startswith("inject run")
    assert run.data.params["lr"] == "0.1"
    assert run.data.metrics["train/steps"] == 10
    assert live or run.data.metrics["regions/comm/calls"] == 2  # of the program's Timer
    assert live or len(client.get_metric_history(run.info.run_id, "train/regions/forward")) == 10
    history = client.get_metric_history(run.info.run_id, "loss")
    assert [(one.step, one.value) for one in history] == [(at, 10.0 - at) for at in range(10)]
    assert live or len(client.get_metric_history(run.info.run_id, "train/step_time")) == 10
    assert run.info.start_time < history[0].timestamp < run.info.end_time
    page = client.download_artifacts(run.info.run_id, "report.html", str(tmp_path))
    with open(page, encoding="utf-8") as file:
        text = file.read()
    added = client.download_artifacts(run.info.run_id, "artifacts/more/notes.txt", str(tmp_path))
    with open(added, encoding="utf-8") as file:
        assert file.read() == "kept"
    assert "<html" in text and "--api-key=***" in text and "--api-key=k" not in text


def test_a_local_store(runs, export, uri, tmp_path):
    done = export(runs, "LAST", "--to", "mlflow", "--uri", uri, "--project", "mine")
    assert done.returncode == 0, done.stderr
    client, run = one_run(uri, "mine")
    assert run.info.run_id in done.stdout
    check(client, run, tmp_path)


def test_a_study_has_its_best_trial(run_inject, export, uri, tmp_path):
    (tmp_path / "search.py").write_text(SEARCH)
    (tmp_path / "x.py").write_text(SEARCH_VOIRFILE)
    words = ("--voirfile", "x.py", "search.py", "0.1", "0.25", "3", "0.9")
    done = run_inject(tmp_path, "run", *words)
    assert done.returncode == 0, done.stderr
    done = export(tmp_path, "LAST", "--to", "mlflow", "--uri", uri, "--project", "study")
    assert done.returncode == 0, done.stderr
    figures, params = (getattr(one_run(uri, "study")[1].data, of) for of in ("metrics", "params"))
    assert figures["study/best/value"] == pytest.approx(0.95)
    states = ("complete", "pruned", "failed")
    assert [figures[f"study/trials/{state}"] for state in states] == [3, 0, 1]
    of_study = {key: text for key, text in params.items() if key.startswith("study.")}
    assert of_study == {
        "study.framework": "grid",
        "study.goal": "maximize",
        "study.best.trial": "1",
        "study.best.rate": "0.25",  # a hyper-parameter that is called like a secret is left out
    }
    run = next((tmp_path / ".inject" / "runs").iterdir())
    profile = summarise(open_run(str(run))).profile
    assert profile is not None
    [study] = profile.studies
    assert figures["study/seconds"] == pytest.approx(study.seconds)
    assert study.phases
    for phase in study.phases:
        assert figures[f"study/phases/{phase.name}/seconds"] == pytest.approx(phase.seconds)
    assert figures["study/workers"] == 1


def test_a_run_that_was_killed(run_inject, export, uri, tmp_path):
    (tmp_path / "dies.py").write_text("import os; os.kill(os.getpid(), 9)")
    run_inject(tmp_path, "run", "dies.py")
    done = export(tmp_path, "LAST", "--to", "mlflow", "--uri", uri, "--project", "died")
    assert done.returncode == 0, done.stderr
    assert one_run(uri, "died")[1].info.status == "KILLED"


def test_a_suite_is_a_run_with_children(suite, export, uri, tmp_path):
    done = export(tmp_path, str(suite), "--to", "mlflow", "--uri", uri)
    assert done.returncode == 0, done.stderr
    client, parent = one_run(uri, name=suite.name)
    children = {
        run.data.tags["benchmark"]: run
        for run in client.search_runs([parent.info.experiment_id])
        if run.data.tags.get("mlflow.parentRunId") == parent.info.run_id
    }
    assert {name: run.info.status for name, run in children.items()} == {
        "small": "FINISHED",
        "fails": "FAILED",
    }
    assert len(client.get_metric_history(children["small"].info.run_id, "loss")) == 10


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    pytest.importorskip("flask_cors")  # the parts of MLflow that its server needs
    pytest.importorskip("pandas")
    import socket

    folder = tmp_path_factory.mktemp("server")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    uri = f"http://127.0.0.1:{port}"
    words = ("--backend-store-uri", f"sqlite:///{folder}/s.db", "--artifacts-destination", "files")
    with open(folder / "log", "w", encoding="utf-8") as log:
        process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "mlflow",
                "server",
                *words,
                "--port",
                str(port),
                "--workers",
                "1",
            ],
            cwd=folder,
            stdout=log,
            stderr=log,
            env={**os.environ, "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"},
            start_new_session=True,
        )
    try:
        for _ in range(1200):
            assert process.poll() is None, (folder / "log").read_text()
            try:
                with urllib.request.urlopen(f"{uri}/health") as answer:
                    assert answer.read() == b"OK"
                break
            except OSError:
                time.sleep(0.1)
        yield uri, process
    finally:
        if process.poll() is None:
            os.killpg(process.pid, 15)
            process.wait()


@pytest.mark.release  # a server is another address of the same client: it takes seconds to start
def test_a_server(server, runs, export, tmp_path, monkeypatch):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", server[0])
    done = export(runs, "LAST", "--to", "mlflow")
    assert done.returncode == 0, done.stderr
    check(*one_run(server[0]), tmp_path)


@pytest.mark.release
def test_a_server_that_dies_while_a_run_is_tracked(server, runs, export, uri, tmp_path):
    served, process = server
    text = (runs / "train.py").read_text()
    wait = "\nimport os, time\nwhile not os.path.exists('go'):\n    time.sleep(0.01)\n"
    (tmp_path / "train.py").write_text(text + wait)
    words = ("--voirfile", str(runs / "x.py"), "--track", f"mlflow={served}", "--name", "dying")
    run = subprocess.Popen(
        [sys.executable, "-m", "injector", "run", *words, "train.py"],
        cwd=tmp_path,
        stderr=subprocess.PIPE,
        text=True,
    )
    client = client_of(served)
    found = []
    while not (found and "loss" in found[0].data.metrics):
        time.sleep(0.2)
        of = client.search_experiments(filter_string="name = 'injector'")
        found = of and client.search_runs([of[0].experiment_id], "run_name = 'dying'")
    assert found[0].info.status == "RUNNING"
    os.killpg(process.pid, 9)
    process.wait()
    (tmp_path / "go").touch()
    _, err = run.communicate()
    assert run.returncode == 0
    assert err.count("did not take it") == 1
    assert f"MLflow at {served}" in err
    assert "`inject export --to mlflow` sends the run later" in err
    done = export(tmp_path, "LAST", "--to", "mlflow", "--uri", uri, "--project", "later")
    assert done.returncode == 0, done.stderr
    assert one_run(uri, "later")[1].data.metrics["train/steps"] == 10


@pytest.mark.parametrize(
    ("uri", "message"),
    [
        ("http://127.0.0.1:9", "127.0.0.1:9"),
        ("nonsense://x", "unsupported URI"),
        # MLflow itself would try for two minutes.
        ("sqlite:////no/such/folder/x.db", "No such file or directory"),
    ],
)
def test_a_store_that_cannot_be_had(uri, message, runs, export):
    done = export(runs, "LAST", "--to", "mlflow", "--uri", uri)
    assert done.returncode == 2
    assert done.stderr.startswith(f"inject: MLflow at {uri} did not take it")
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def test_the_default_store_of_a_folder_with_spaces(tmp_path):
    """MLflow writes the path of its own default with %20 in it."""
    folder = tmp_path / "my näme"
    folder.mkdir()
    uri = f"sqlite:///{quote(str(folder))}/mlflow.db"
    _check_database(uri)
    assert list(folder.iterdir()) == []
    assert artifact_location(uri, "x") == (folder / "mlruns" / "x").as_uri()
    with pytest.raises(OSError):
        _check_database("sqlite:////no/such/folder/x.db")
    assert artifact_location("http://somewhere/x", "x") is None


def test_a_long_run_is_thinned_and_that_is_reported(large, export, uri, tmp_path):
    words = ("--to", "mlflow", "--uri", uri, "--points", "100", "--project", "long")
    done = export(tmp_path, str(large), *words)
    assert done.returncode == 0, done.stderr
    assert "series are longer than 100 points" in done.stderr
    assert "of 3000); --points 0 exports all" in done.stderr
    client, run = one_run(uri, "long")
    assert len(client.get_metric_history(run.info.run_id, "train/step_time/rank_0")) <= 100
