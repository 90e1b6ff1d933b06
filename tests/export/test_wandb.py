"""Offline runs of Weights & Biases, read back with the classes of its client."""

from __future__ import annotations

import json
import struct
import subprocess
import sys
from datetime import datetime
from pathlib import Path

import pytest

wandb = pytest.importorskip("wandb")


def records(path):
    """The records of a ``.wandb`` file: the log format of LevelDB, behind a header of 7 bytes."""
    from wandb.proto import wandb_internal_pb2

    data = path.read_bytes()
    assert data.startswith(b":W&B")
    at, whole = 7, b""
    while at + 7 <= len(data):
        if 32768 - at % 32768 < 7:
            at += 32768 - at % 32768
        _, length, kind = struct.unpack("<IHB", data[at : at + 7])
        whole += data[at + 7 : at + 7 + length]
        at += 7 + length
        if kind in (1, 4):  # whole, or the last part of one
            yield wandb_internal_pb2.Record.FromString(whole)
            whole = b""


class ReadRun:
    """What is in an offline run."""

    def __init__(self, folder):
        self.folder = Path(folder)
        [path] = self.folder.glob("run-*.wandb")
        self.config, self.summary, self.history, self.axes = {}, {}, [], {}
        self.files = set()
        for one in records(path):
            kind = one.WhichOneof("record_type")
            if kind == "run":
                self.run = one.run
                self._update(self.config, one.run.config.update)
            elif kind == "config":
                self._update(self.config, one.config.update)
            elif kind == "summary":
                self._update(self.summary, one.summary.update)
            elif kind == "history":
                self.history.append(self._update({}, one.history.item))
            elif kind == "metric":
                self.axes[one.metric.name] = one.metric.step_metric
            elif kind == "files":
                self.files |= {each.path for each in one.files.files}
            elif kind == "exit":
                self.exit = one.exit.exit_code
            elif kind == "tbrecord":
                raise AssertionError(kind)

    @staticmethod
    def _update(found, items):
        for each in items:
            key = each.key or "/".join(each.nested_key)
            found[key] = json.loads(each.value_json)
        return found

    def points(self, name):
        axis = self.axes[name]
        return [(row[axis], row[name]) for row in self.history if name in row]


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
