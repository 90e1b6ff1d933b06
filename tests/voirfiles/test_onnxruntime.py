"""ONNX Runtime: what a session is called with, and how long that takes."""

from __future__ import annotations

from boosted import run
from trained import needs

from injector.analysis.summary import summarise
from injector.store.folder import open_run

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
