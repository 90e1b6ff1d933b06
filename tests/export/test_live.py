"""``inject run --track``: what is sent while a run goes on, and its end, in trackers of all kinds."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest
from test_export import content_of, folder_of

from injector.export.live import GrowingRun
from injector.launch.command import split
from injector.store.series import GrowingSeries, read

pytestmark = pytest.mark.xdist_group("trackers")  # one tracked run and one store for all of these


def test_values_are_those_of_an_export(runs):
    folder = folder_of(runs)
    whole = {one.name: one for one in content_of(folder).series}
    live = {one.name: one for one in GrowingRun(str(folder)).new(all=True)}
    for name in ("loss", "f1"):
        assert live[name].steps.tolist() == whole[name].steps.tolist()
        assert live[name].values.tolist() == whole[name].values.tolist()
    assert live["loss"].times == pytest.approx(whole["loss"].times, abs=1e-6)
    shares = [one.values[0] for name, one in live.items() if name.startswith("train/share/")]
    assert 0 < sum(shares) <= 1 + 1e-6
    assert {one.axis for one in live.values()} == {"step", "sample"}


def test_a_second_look_has_what_is_new_and_no_more(runs):
    growing = GrowingRun(str(folder_of(runs)))
    assert "loss" in {one.name for one in growing.new(all=True)}
    assert [one.name for one in growing.new(all=True) if one.axis == "step"] == []


def test_the_value_of_a_step_that_goes_on_waits_for_its_number(runs):
    growing = GrowingRun(str(folder_of(runs)))
    first = {one.name: one for one in growing.new()}["loss"]
    rest = {one.name: one for one in growing.new(all=True)}["loss"]
    assert [*first.steps, *rest.steps] == list(range(10))
    assert len(rest.steps) == 1 or len(first.steps) == 9


def test_a_growing_series_is_read_piece_by_piece(tmp_path):
    """Over more than one chunk, a few values at a time."""
    from injector.bus.writer import Writer
    from injector.store.series import SeriesFile

    file = SeriesFile(Writer(str(tmp_path)), "loss")
    times, values = file.grow()
    [path] = (tmp_path / "raw").glob("*.values")
    growing, found, at = GrowingSeries(str(path)), [], 0
    for size in (1, 10, 5000, 3, 9000):
        for _ in range(size):
            if at == len(times):
                times, values = file.grow()
                at = 0
            values[at] = len(found) + at
            times[at] = 1.0 + at
            at += 1
        found += growing.new()
    name, whole = read(str(path))
    assert (growing.name, name) == ("loss", "loss")
    assert found == list(whole)
    assert len(found) == 14014


@pytest.mark.parametrize("ends", [False, True])
@pytest.mark.parametrize("seconds", [1, 20, 500, 5000])
def test_a_late_look_has_the_points_of_all_looks_before_it(tmp_path, seconds, ends):
    """A tracker that is slow to answer delays the next look: as many points as ever, and no fewer."""
    from injector.bus.writer import Writer
    from injector.store.series import SeriesFile

    file, count = SeriesFile(Writer(str(tmp_path)), "loss"), 10_000
    times, values = file.grow()
    at = 0
    for number in range(count):
        if at == len(times):
            times, values = file.grow()
            at = 0
        values[at], times[at] = number % 7, 1.0 + seconds * number / count
        at += 1
    [series] = [one for one in GrowingRun(str(tmp_path)).new(all=ends) if one.name == "loss"]
    usual = min(20 * -(-seconds // 5), 4000)
    assert series.total == count
    most = max(usual, 1000) if ends else usual
    assert most // 2 <= len(series.values) <= most


@pytest.fixture(scope="module")
def tracked(runs, uri, tmp_path_factory):
    """A run that all trackers are sent to, and whose program finds nothing of it."""
    for name in ("wandb", "tensorboard", "mlflow", "prometheus_client"):
        pytest.importorskip(name)
    pytest.importorskip("opentelemetry.exporter.otlp.proto.http")
    from collector import Receiver

    folder, receiver = tmp_path_factory.mktemp("tracked"), Receiver()
    places = {
        "mlflow": uri,
        "otel": receiver.uri,
        "prometheus": f"{folder}/x.prom",
        "tensorboard": f"{folder}/logs",
        "wandb": f"{folder}/w",
    }
    words = [word for tool, place in places.items() for word in ("--track", f"{tool}={place}")]
    words += ["--voirfile", f"{runs}/x.py", "--tag", "team=vision"]
    program = [f"{runs}/train.py", "--lr", "0.1", "--api-key=k"]
    done = subprocess.run(
        [sys.executable, "-m", "injector", "run", *words, *program],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "MLFLOW_EXPERIMENT_NAME": "tracked"},
    )
    assert done.returncode == 0, done.stderr
    assert "did not take it" not in done.stderr
    return folder, receiver, done.stderr


def test_each_tracker_says_where_the_run_is(tracked):
    _, _, err = tracked
    found = re.findall(r"^inject: (\w+): ", err, re.M)
    assert sorted(found) == ["mlflow", "otel", "prometheus", "tensorboard", "wandb"]
    assert err.index("\nrun: ") < err.index("inject: mlflow: ")


def test_a_tracked_run_in_mlflow(tracked, uri, tmp_path):
    from test_mlflow import check, one_run

    check(*one_run(uri, "tracked"), tmp_path, live=True)


def test_a_tracked_run_in_wandb(tracked):
    from wandb_file import ReadRun

    [run] = (tracked[0] / "w" / "wandb").glob("offline-run-*")
    read = ReadRun(run)
    assert read.points("loss") == [(at, 10.0 - at) for at in range(10)]
    assert read.summary["train/steps"] == 10
    assert read.exit == 0


def test_a_tracked_run_in_tensorboard(tracked):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    [folder] = (tracked[0] / "logs").iterdir()
    events = EventAccumulator(str(folder), size_guidance={"scalars": 0}).Reload()
    assert [(one.step, one.value) for one in events.Scalars("loss")] == [
        (at, 10.0 - at) for at in range(10)
    ]
    assert [one.value for one in events.Scalars("train/steps")] == [10]


def test_a_tracked_run_in_prometheus_and_otel(tracked):
    folder, receiver, _ = tracked
    text = (folder / "x.prom").read_text()
    assert re.search(r'^injector_train_steps\{name="train",run="[^"]*"\} 10.0$', text, re.M)
    metrics = receiver.metrics()
    assert [value for _, value in metrics["injector.loss"][1]] == [10.0 - at for at in range(10)]
    assert len([span for span in receiver.spans() if span.name == "train step"]) == 10


def test_a_tracker_that_is_not_installed_is_reported_once_and_harms_nothing(
    runs, run_inject, tmp_path
):
    text = "raise ModuleNotFoundError('No module named wandb', name='wandb')"
    (tmp_path / "wandb.py").write_text(text)
    words = ("--track", "wandb", "--into", str(tmp_path / "run"), f"{runs}/train.py")
    done = run_inject(tmp_path, "run", *words, PYTHONPATH=str(tmp_path))
    assert done.returncode == 0
    assert done.stderr.count("pip install 'overlay-injector[wandb]'") == 1
    assert "`inject export --to wandb` sends the run later" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--track excel x.py", "--track is one of mlflow, otel, prometheus, tensorboard, wandb"),
        ("--track perfetto x.py", "a trace is written when the run has ended, by inject export"),
        ("--track prometheus x.py", "--track prometheus needs a place"),
        ("--track wandb= x.py", "TRACKER=PLACE, or TRACKER"),
        ("--track", "--track needs a value"),
    ],
)
def test_what_cannot_be_tracked(words, message):
    from injector.errors import UserError

    with pytest.raises(UserError, match=re.escape(message)):
        split(words.split(), lambda _: {})
