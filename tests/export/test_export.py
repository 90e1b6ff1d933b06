"""``inject export``: what it is given, what it says of what it cannot take, and its documented examples."""

from __future__ import annotations

import dataclasses
import json
import re
import shlex
import shutil
from pathlib import Path

import numpy as np
import pytest

from injector.analysis.latencies import latency
from injector.analysis.summary import summarise
from injector.bus.readable import collected
from injector.cli.export import TRACKERS
from injector.export.content import Content
from injector.export.figures import Figure
from injector.export.prometheus import Page
from injector.export.series import thinned
from injector.export.tracked import Destination
from injector.store.folder import open_run
from injector.value_class import replace

ROOT = Path(__file__).parents[2]


def folder_of(runs):
    [folder] = (runs / ".inject" / "runs").glob("train.*")
    return folder


@pytest.fixture
def copied(runs, tmp_path):
    """A copy of the run, which a test may damage."""
    return Path(shutil.copytree(folder_of(runs), tmp_path / "copied"))


def content_of(folder, points=1000):
    run = open_run(str(folder))
    return Content(run, summarise(run), points=points)


def test_what_a_run_is_found_by(runs):
    content = content_of(folder_of(runs))
    assert content.tags["team"] == "vision"
    assert content.tags["injector.exit"] == "0"
    assert content.params["lr"] == "0.1"
    assert "k" not in content.params.values()  # what looks secret stays here
    assert content.tags["injector.command"].endswith("train.py --lr 0.1 --api-key=***")
    assert content.figures["train/steps"].value == 10
    assert content.figures["train/throughput"].unit == "items/s"


@pytest.mark.parametrize(
    ("words", "shown", "params"),
    [
        ("--token abc", "--token ***", {}),
        ("--token -abc --lr 0.1", "--token *** --lr 0.1", {"lr": "0.1"}),
        ("--token -a=b x=1", "--token *** x=1", {"x": "1"}),
        ("--token -1 -v", "--token *** -v", {"v": "true"}),
        ("--use-token --lr=0.1", "--use-token --lr=0.1", {"lr": "0.1"}),
        ("--password=-abc token=d", "--password=*** token=***", {}),
    ],
)
def test_a_secret_is_hidden_whatever_it_begins_with(runs, words, shown, params):
    content = content_of(folder_of(runs))
    summary = replace(content.summary, command=("train.py", *words.split()), params={})
    content = dataclasses.replace(content, summary=summary)
    assert content.tags["injector.command"] == f"train.py {shown}"
    names = {"api-key", "lr", "abc", "a", "x", "v", "token", "use-token", "password"}
    assert {key: value for key, value in content.params.items() if key in names} == params


@pytest.mark.parametrize("points", range(2, 10))
def test_no_series_has_more_points_than_wanted(runs, points):
    long = [one for one in content_of(folder_of(runs), 0).series if one.total == 10]
    assert long
    for one in long:
        values = thinned(one, points).values
        assert len(values) <= points and {min(one.values), max(one.values)} <= set(values)


def test_latencies_are_figures_with_the_units_of_the_registry(runs):
    content = content_of(folder_of(runs))
    profile = replace(
        content.summary.profile,
        latencies=(
            latency(np.array([0.1, 0.3]), np.array([4.0, 4.0]), "evaluation"),
            latency(np.array([0.2]), None, "evaluation"),
        ),
    )
    content = dataclasses.replace(content, summary=replace(content.summary, profile=profile))
    found = {name: one for name, one in content.figures.items() if name.startswith("latency/")}
    first = "latency/evaluation/"
    assert found[first + "batch/p50"] == Figure(pytest.approx(0.2), "s")
    assert found[first + "query/mean"] == Figure(pytest.approx(0.05), "s")
    assert found[first + "queries"] == Figure(8.0, "items")
    assert found["latency/evaluation_2/batch/p99"].value == pytest.approx(0.2)
    assert "latency/evaluation_2/query/p50" not in found
    page = Page(Destination())
    page.add(content)
    assert "injector_latency_evaluation_batch_p50_seconds" in page._gauges


def test_series_are_by_step(runs):
    series = {one.name: one for one in content_of(folder_of(runs)).series}
    assert series["train/step_time"].steps.tolist() == list(range(10))
    assert series["loss"].values.tolist() == [10.0 - at for at in range(10)]
    assert series["loss"].steps.tolist() == list(range(10))
    assert series["f1"].steps.tolist() == [3, 7]  # as the program says
    assert series["f1"].values.tolist() == [0.3, 0.7]
    parts = [one.values for name, one in series.items() if name.startswith("train/regions/")]
    assert sum(parts) == pytest.approx(series["train/step_time"].values, rel=1e-5)


def test_thinned_series_keep_what_stands_out(large):
    whole = {one.name: one for one in content_of(large, 0).series}
    thin = {one.name: one for one in content_of(large, 100).series}
    assert whole.keys() == thin.keys()
    name = (
        "train/step_time/rank_1" if "train/step_time/rank_1" in whole else "train/step_time/rank_0"
    )
    assert whole[name].total == thin[name].total == len(whole[name].values) == 3000
    assert len(thin[name].values) <= 100
    for of in (min, max):
        assert of(thin[name].values) == of(whole[name].values)
    at = int(whole[name].values.argmax())
    assert at in thin[name].steps


@pytest.mark.parametrize("to", TRACKERS)
def test_a_library_that_is_not_installed_is_named_with_its_extra(to, runs, run_inject, tmp_path):
    for name in (
        "perfetto",
        "mlflow",
        "tensorboard",
        "wandb",
        "prometheus_client",
        "opentelemetry",
    ):
        text = f"raise ModuleNotFoundError('No module named {name}', name='{name}')"
        (tmp_path / f"{name}.py").write_text(text)
    done = run_inject(runs, "export", "LAST", "--to", to, PYTHONPATH=str(tmp_path))
    assert (done.returncode, done.stdout) == (2, "")
    assert f"pip install 'overlay-injector[{to}]'" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("nowhere", "--to", "perfetto"), "nowhere: this folder does not exist"),
        ((".", "--to", "perfetto"), "this folder holds no record of a run"),
        (("LAST", "--to", "excel"), "invalid choice: 'excel'"),
        (("LAST",), "--to"),
        (("LAST", "--to", "perfetto", "--points", "-3"), "'-3' is no number of points"),
        (("LAST", "--to", "perfetto", "--points", "1"), "'1' is no number of points: 0, or 2"),
        (("LAST", "--to", "perfetto", "--uri", "http://x"), "perfetto has no address"),
        (("LAST", "--to", "mlflow", "-o", "x"), "mlflow is given no file; --uri says where it is"),
        (("LAST", "--to", "otel", "-o", "x"), "otel is given no file"),
        (("LAST", "--to", "prometheus", "-o", "x", "--uri", "http://x"), "either written or sent"),
        (
            ("LAST", "--to", "tensorboard", "--project", "x"),
            "--project: tensorboard has no projects",
        ),
        (
            ("LAST", "--to", "perfetto", "-o", "no/such/folder/x"),
            "inject: no/such/folder/x: No such",
        ),
    ],
)
def test_what_cannot_be_exported(words, message, runs, export):
    done = export(runs, *words)
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def test_a_run_of_a_newer_schema_is_refused(copied, export):
    (copied / "run.json").write_text(json.dumps({"schema": 99}))
    done = export(copied.parent, "copied", "--to", "perfetto", "-o", "x")
    assert done.returncode == 2
    assert "schema" in done.stderr
    assert not (copied.parent / "x").exists()


def test_damage_is_reported_first_and_the_rest_exported(copied, export):
    pytest.importorskip("perfetto")
    [values] = (copied / "raw").glob("*.values")
    values.unlink()
    done = export(copied.parent, str(copied), "--to", "perfetto", "-o", "x")
    assert done.returncode == 1
    assert values.name in done.stderr
    assert (copied.parent / "x").stat().st_size > 0


def test_a_run_without_steps(run_inject, tmp_path):
    pytest.importorskip("perfetto")
    (tmp_path / "empty.py").write_text("")
    assert run_inject(tmp_path, "run", "empty.py").returncode == 0
    done = run_inject(tmp_path, "export", "LAST", "--to", "perfetto", "-o", "x")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("x: 0 slices")


def test_an_added_file_that_was_changed_is_named_and_not_exported(copied):
    with collected(open_run(str(copied))) as run:
        assert set(Content(run, summarise(run)).files) == {"more/notes.txt"}
    (copied / "artifacts/more/notes.txt").write_text("else")
    with collected(open_run(str(copied))) as run:
        assert [each for each in run.damage if "artifacts/more/notes.txt" in each]
        assert Content(run, summarise(run)).files == {}


def documented():
    text = (ROOT / "docs" / "export.md").read_text()
    for block in re.findall(r"```sh\n(.*?)```", text, re.S):
        for line in block.splitlines():
            if line.startswith("inject export"):
                yield line


IMPORTED = {"prometheus": "prometheus_client", "otel": "opentelemetry.exporter.otlp.proto.http"}


@pytest.mark.parametrize("line", list(documented()))
def test_an_example_of_the_docs_runs(line, runs, export, monkeypatch, request):
    words = shlex.split(line, comments=True)[2:]
    pytest.importorskip(IMPORTED.get(words[2], words[2]))
    if words[2] == "otel":
        from collector import Receiver

        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", Receiver().uri)
    if words[2] == "mlflow" and not (runs / "mlflow.db").exists():
        store = request.getfixturevalue("uri")
        shutil.copyfile(store.removeprefix("sqlite:///"), runs / "mlflow.db")
    done = export(runs, *words)
    assert done.returncode == 0, done.stderr
