"""Event files, read back by TensorBoard's own reader."""

from __future__ import annotations

import pytest

pytest.importorskip("tensorboard")
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.plugins.hparams import plugin_data_pb2


def read(folder):
    found = EventAccumulator(str(folder), size_guidance={"scalars": 0})
    found.Reload()
    return found


def test_a_run(runs, export, tmp_path):
    done = export(runs, "LAST", "--to", "tensorboard", "-o", str(tmp_path / "train"))
    assert done.returncode == 0, done.stderr
    found = read(tmp_path / "train")
    points = found.Scalars("loss")
    assert [(one.step, one.value) for one in points] == [(at, 10.0 - at) for at in range(10)]
    times = [one.wall_time for one in points]
    assert times == sorted(times) and times[0] > 1e9
    assert found.Scalars("train/steps")[0].value == 10
    assert b"- **team**: vision" in found.Tensors("properties")[0].tensor_proto.string_val[0]
    [facts] = found.PluginTagToContent("hparams").values()
    given = plugin_data_pb2.HParamsPluginData.FromString(facts).session_start_info.hparams
    assert given["lr"].string_value == "0.1"


def test_an_export_that_is_repeated_replaces_the_first(runs, export, tmp_path):
    (tmp_path / "events.out.tfevents.1.other").write_bytes(b"")
    for _ in range(2):
        done = export(runs, "LAST", "--to", "tensorboard", "-o", str(tmp_path))
        assert done.returncode == 0, done.stderr
    assert len(read(tmp_path).Scalars("loss")) == 10
    assert (tmp_path / "events.out.tfevents.1.other").exists()


def test_a_suite_has_a_folder_for_each_run(suite, export, tmp_path):
    done = export(tmp_path, str(suite), "--to", "tensorboard")
    assert done.returncode == 0, done.stderr
    folders = sorted((tmp_path / "tensorboard" / suite.name).iterdir())
    assert len(folders) == 2
    assert [len(read(folder).Scalars("loss")) for folder in folders if "small" in folder.name] == [
        10
    ]


@pytest.mark.release
def test_slow_steps_stay(large, export, tmp_path):
    words = ("--to", "tensorboard", "-o", str(tmp_path), "--points", "50")
    done = export(tmp_path, str(large), *words)
    assert "longer than 50 points" in done.stderr
    thin = read(tmp_path).Scalars("train/step_time/rank_1")
    whole = export(tmp_path, str(large), *words[:-1], "0")
    assert whole.stderr == ""
    every = read(tmp_path).Scalars("train/step_time/rank_1")
    assert len(every) == 3000 and 40 <= len(thin) <= 50
    most = max(every, key=lambda one: one.value)
    assert (most.step, most.value) in [(one.step, one.value) for one in thin]
