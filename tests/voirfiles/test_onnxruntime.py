"""ONNX Runtime: what a session is called with, and how long that takes."""

from __future__ import annotations

import runpy

import numpy as np
import pytest
from boosted import run
from trained import needs

from injector.analysis.summary import summarise
from injector.store.folder import open_run
from injector.voirfiles import shipped

needs("onnxruntime", "onnx")


def test_calls_of_a_session(tmp_path):
    found = run(tmp_path, "onnxruntime_run.py")
    part = found.part("arrays")
    calls = part.of("predict")
    assert [span.items & 0xFFFFFF for span in calls] == [4, 4, 2, 3, 4]  # the last one is an error
    assert {span.site["what"] for span in calls} == {"a model in memory on CPU"}
    assert found.part("values").items("predict") == [3]
    assert found.part("bound").items("predict") == [0]
    assert len(found.of("build")) == 1

    [folder] = (tmp_path / "runs").iterdir()
    profile = summarise(open_run(str(folder))).profile
    assert profile is not None
    latencies = {each.place.text: each for each in profile.latencies}
    assert "y, _ = session.run(None, fed(n))" in latencies


@pytest.mark.parametrize("shape", [(4, 7), (4,), (4, 7, 2)], ids=str)
@pytest.mark.parametrize("kind", ["i8", "f4"])
@pytest.mark.parametrize("name", ["input_ids", "categories"])
def test_tokens_are_tables_of_integers_that_are_called_so(shape, kind, name):
    [path] = (one.path for one in shipped() if one.name == "onnxruntime")
    count = runpy.run_path(path)["items_and_tokens"]
    is_tokens = (shape, kind, name) == ((4, 7), "i8", "input_ids")
    assert count({name: np.zeros(shape, kind)}) == (4, 28 if is_tokens else 0)
