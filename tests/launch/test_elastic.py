"""Ranks of an elastic launcher that die, hang or are started again: real ones, under torchrun."""

from __future__ import annotations

import time

import pytest

from injector.analysis import outcomes
from injector.analysis.profiling import profile
from injector.live.state import State
from injector.store.folder import open_run

from .elastic import BAD, COLLECTIVE, STEPS, UPDATE, finish, start

torch = pytest.importorskip("torch")
if not torch.distributed.is_available():
    pytest.skip("this PyTorch has no torch.distributed", allow_module_level=True)


def watched(process, folder):
    """The run at the moment when one rank is seen to hang; None if it ended before that."""
    state = None
    while process.poll() is None:
        folders = sorted((folder / "runs").glob("*"))
        if state is None or state.folder != str(folders[-1]):
            state = State(str(folders[-1])) if folders else None
        snapshot = state.tick() if state else None
        if snapshot and [row.state for row in snapshot.ranks] == ["waiting", "hung"]:
            return snapshot
        time.sleep(0.1)
    return None


@pytest.mark.release
def test_a_rank_that_was_killed_and_started_again(inject, environ, tmp_path):
    job = finish(start(inject, environ, tmp_path, "killed-once", restarts=1), tmp_path)
    assert job.exit == 0, job.err
    first, second = job.broken
    assert (first["rank"], first["attempt"], first["kind"]) == (1, 0, "died")
    assert (first["how"], first["steps"], first["restarted"]) == ("killed by SIGKILL", BAD, 1)
    assert (first["last"]["region"], first["last"]["line"]) == ("optimizer", UPDATE)
    assert (second["rank"], second["kind"], second["steps"]) == (0, "followed", BAD + 1)
    assert second["how"] in ("killed by SIGTERM", "exit not known")
    # Steps of both attempts are kept apart, and the second one is whole.
    assert sorted(job.loops()) == [(0, 2, BAD + 1), (1, 2, STEPS)]
    message = " ".join(job.err.split())
    assert f"attempt 0: rank 1 died at step {BAD}: killed by SIGKILL" in message
    assert "started again as attempt 1" in message
    assert "\nrestarted " in job.err and "\nbroken " not in job.err
    attempts = [(p["rank"], p["attempt"]) for p in job.info["processes"]]
    assert sorted(attempts[1:]) == [(0, 0), (0, 1), (1, 0), (1, 1)] and attempts[0] == (None, None)
    # Who watched it saw one row a rank, of the second attempt.
    rows = State(str(job.folder)).tick().ranks
    assert [(row.rank, row.attempt, row.steps, row.state) for row in rows] == [
        (0, 1, STEPS, "ended"),
        (1, 1, STEPS, "ended"),
    ]
    assert rows[1].notes == (f"restarted: attempt 0 died at step {BAD} (killed by SIGKILL)",)


@pytest.mark.release
def test_a_rank_that_exits(inject, environ, tmp_path):
    job = finish(start(inject, environ, tmp_path, "exits"), tmp_path)
    assert job.exit == 1, job.err
    first, second = job.broken
    assert (first["rank"], first["kind"], first["how"]) == (1, "died", "exit code 3"), job.err
    assert (first["steps"], first["restarted"]) == (BAD, None)
    assert (second["rank"], second["kind"]) == (0, "followed")
    assert "\nbroken " in job.err
    assert job.err.index("\nbroken ") < job.err.index("\nverdict ")
    kinds = [warning["kind"] for warning in job.info["warnings"]]
    assert kinds == ["ranks", "ranks"]
    row = State(str(job.folder)).tick().ranks[1]
    assert (row.rank, row.state, row.steps) == (1, "died", BAD)
    assert row.notes[0].startswith(
        "died at step 12: exit code 3; its last span: optimizer at job.py:"
    )


@pytest.mark.release
def test_a_rank_that_hangs_while_the_other_waits(inject, environ, tmp_path, monkeypatch):
    monkeypatch.setattr(outcomes, "LEAST", 1.0)
    monkeypatch.setattr(outcomes, "TIMES", 1.0)
    for seconds in (20, 60, 180):
        process = start(inject, environ, tmp_path, "hangs", "--timeout", str(seconds))
        live = watched(process, tmp_path)
        job = finish(process, tmp_path)
        assert job.exit == 124
        hangs = tmp_path / "hangs"
        if live and job.info["ended"] - float(hangs.read_text()) > 3:
            break
    assert [row.state for row in live.ranks] == ["waiting", "hung"] and live.state == "stuck"
    assert f" in comm (all_reduce) at job.py:{COLLECTIVE}, after step " in live.ranks[0].notes[0]
    assert live.ranks[0].notes[0].startswith("has waited ")
    assert live.ranks[1].notes[0].startswith("has hung for ")
    assert live.ranks[1].notes[0].endswith(f"its last span: optimizer at job.py:{UPDATE}")
    hung, waited = profile(open_run(str(job.folder))).outcomes
    assert (hung.rank, hung.kind, hung.steps) == (1, "hung", BAD)
    assert (hung.last, hung.place.line, hung.inside) == ("optimizer", UPDATE, ())
    assert (waited.rank, waited.kind) == (0, "waited")
    [(inside, place)] = waited.inside
    assert (inside, place.line) == ("comm (all_reduce)", COLLECTIVE)
    assert hung.seconds > 1 and waited.seconds > 1
