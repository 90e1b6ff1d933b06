"""The journal: what was written is read, whatever became of its writer."""

from __future__ import annotations

import json
import os

from hypothesis import given
from hypothesis import strategies as st

from injector.suite.run import journal, suite_folder
from injector.suite.run.journal import Journal


def written(folder, *events):
    made = Journal(str(folder))
    for key, state, facts in events:
        made.job(key, state, facts.pop("attempt", 1), **facts)
    made.close()
    return made


def test_the_last_word_on_each_job_counts(tmp_path):
    written(
        tmp_path,
        ("a", "started", {"boot": "x"}),
        ("b", "started", {}),
        ("a", "finished", {"ok": True, "seconds": 2.5}),
        ("b", "failed-to-start", {"reason": "no room"}),
    )
    found = journal.read(str(tmp_path))
    assert (found["a"].state, found["a"].ok, found["a"].seconds) == ("finished", True, 2.5)
    assert (found["b"].state, found["b"].ok, found["b"].reason) == (
        "failed-to-start",
        False,
        "no room",
    )
    assert found["a"].boot == "x"


def test_there_is_none(tmp_path):
    assert journal.read(str(tmp_path)) == {}


@given(cut=st.integers(0, 200))
def test_a_line_that_was_cut_loses_only_itself(tmp_path_factory, cut):
    folder = tmp_path_factory.mktemp("journal")
    written(folder, ("a", "started", {}), ("a", "finished", {"ok": True}))
    path = folder / "journal.jsonl"
    whole = path.read_bytes()
    lines = whole.splitlines(keepends=True)
    kept = max(0, len(whole) - cut)
    path.write_bytes(whole[:kept])
    written(folder, ("b", "started", {}))
    found = journal.read(str(folder))
    assert found["b"].state == "started"
    if kept >= len(whole) - 1:  # all but, at most, the end of the line
        assert found["a"].state == "finished"
    elif kept >= len(lines[0]) - 1:
        assert found["a"].state == "started"
    else:
        assert "a" not in found


def test_a_full_disk_is_reported_and_ends_nothing(tmp_path):
    os.symlink("/dev/full", tmp_path / "journal.jsonl")
    made = written(tmp_path, ("a", "started", {}))
    assert made.problem == f"{tmp_path}/journal.jsonl: No space left on device"


def test_how_long_benchmarks_took_when_they_last_ended_well(tmp_path):
    for number, seconds in enumerate((10.0, 20.0)):
        run = tmp_path / "runs" / f"x.2026-01-0{number + 1}_00-00-00.000000"
        run.mkdir(parents=True)
        (run / "plan.json").write_text(json.dumps({"suite": {"file": "/x.yaml"}}))
        written(run, ("a.R0", "finished", {"benchmark": "a", "ok": True, "seconds": seconds}))
    written(
        run,
        ("a.R1", "finished", {"benchmark": "a", "ok": False, "seconds": 1.0}),
        ("b.R0", "finished", {"benchmark": "b", "ok": True, "seconds": 3.0}),
    )
    assert suite_folder.past_durations(str(tmp_path), {"a", "b", "c"}) == {"a": 20.0, "b": 3.0}
    assert suite_folder.past_durations(str(tmp_path), {"c"}) == {}
    assert suite_folder.past_durations(str(tmp_path / "nothing"), {"a"}) == {}
