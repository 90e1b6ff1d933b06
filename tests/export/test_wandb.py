"""Offline runs of Weights & Biases, read back with the classes of its client."""

from __future__ import annotations

import subprocess
import sys
from datetime import datetime
from importlib.util import find_spec

import pytest
from wandb_file import ReadRun

if find_spec("wandb") is None:  # importing it takes a second, in each process of tests
    pytest.skip("wandb is not installed", allow_module_level=True)

PROGRAMS = {"WANDB_RUN_ID": "its", "WANDB_RESUME": "must", "WANDB_MODE": "disabled"}
"""What says how the program's own run is to be."""


@pytest.fixture(scope="module")
def exported(runs, export, tmp_path_factory):
    folder = tmp_path_factory.mktemp("wandb")
    with pytest.MonkeyPatch.context() as patch:
        for name, value in PROGRAMS.items():
            patch.setenv(name, value)
        done = export(runs, "LAST", "--to", "wandb", "-o", str(folder), "--project", "mine")
    assert done.returncode == 0, done.stderr
    [run] = (folder / "wandb").glob("offline-run-*")
    assert str(run) in done.stdout
    return ReadRun(run)


def test_properties_figures_and_series(exported):
    assert (exported.run.project, exported.run.display_name) == ("mine", "train")
    assert exported.exit == 0 and exported.run.run_id != "its"
    assert exported.config["lr"] == "0.1"
    assert exported.config["tags"]["team"] == "vision"
    assert "--api-key=***" in exported.config["tags"]["injector.command"]
    assert exported.summary["train/steps"] == 10
    assert exported.summary["regions/comm/calls"] == 2  # of the program's Timer
    assert 0 < exported.summary["regions/comm/mean"] < exported.summary["regions/comm/seconds"] < 1
    assert len(exported.points("train/regions/forward")) == 10
    assert exported.points("loss") == [(at, 10.0 - at) for at in range(10)]
    assert len(exported.points("train/step_time")) == 10
    [cpu] = [name for name in exported.axes if name.startswith("hosts/") and name.endswith("/cpu")]
    assert exported.axes[cpu] == "sample"
    times = [row["_timestamp"] for row in exported.history if "loss" in row]
    assert times == sorted(times)
    started = datetime.fromisoformat(exported.config["tags"]["injector.started"]).timestamp()
    assert started < times[0] < started + exported.summary["duration"]


def test_the_page_and_nothing_secret(exported):
    assert {"report.html", "artifacts/more/notes.txt"} <= exported.files
    assert (exported.folder / "files/artifacts/more/notes.txt").read_text() == "kept"
    page = (exported.folder / "files" / "report.html").read_text()
    assert "<html" in page
    for path in exported.folder.rglob("*"):
        if path.is_file():
            assert b"--api-key=k" not in path.read_bytes()


def test_its_own_client_takes_it(exported):
    words = ["beta", "sync", "--dry-run", str(exported.folder)]
    done = subprocess.run(
        [sys.executable, "-m", "wandb", *words], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert exported.run.run_id in done.stdout + done.stderr


def test_a_suite_is_a_group(suite, export, tmp_path):
    done = export(tmp_path, str(suite), "--to", "wandb", "--points", "5")
    assert done.returncode == 0, done.stderr
    found = [ReadRun(path) for path in (tmp_path / "wandb").glob("offline-run-*")]
    assert {one.run.run_group for one in found} == {suite.name}
    assert {one.run.display_name: one.exit for one in found} == {
        "small small.R0.D0": 0,
        "fails fails.R0.D0": 3,
    }


def test_a_folder_that_cannot_be_written(runs, export, tmp_path):
    (tmp_path / "file").write_text("")
    done = export(runs, "LAST", "--to", "wandb", "-o", str(tmp_path / "file"))
    assert (done.returncode, done.stdout) == (2, "")
    assert "file" in done.stderr and "Traceback" not in done.stderr
