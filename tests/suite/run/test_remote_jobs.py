"""Jobs of other machines: the part that each of them has, and what their journals come to."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from suite_runs import ROOT, gpus, until

from injector.errors import UserError
from injector.suite.config.expressions import NodeCondition
from injector.suite.plan.jobs import Job, Plan, PlannedProcess
from injector.suite.run import journal, machine_part, remote_job, suite_folder
from injector.suite.run.engine import QueuedJob
from injector.suite.run.journal import Journal
from injector.suite.run.machine_part import folder_of
from injector.suite.run.remote_job import RemoteJob

SHOWS = """
import os
print(*map(os.environ.get, ("CUDA_VISIBLE_DEVICES", "MASTER_ADDR", "PET_RDZV_BACKEND")))
"""


def process(key, folder, devices, machines):
    run = f"jobs/{key}"
    return PlannedProcess(
        key, devices, (sys.executable, "-c", SHOWS), {"CUDA_VISIBLE_DEVICES": "?"},
        str(folder / run / "out"), run, 60.0, 60.0, machines=machines,
    )  # fmt: skip


def planned(folder, *processes, conditions=()):
    """The run folder of a suite of one job, which its journal says is queued as 7."""
    job = Job("a.R0", "a", 0, processes, conditions=conditions)
    machine = {"host": "h", "devices": []}
    suite_folder.write_plan(str(folder), Plan({"name": "s"}, str(folder), machine, {}, (job,)))
    notes = Journal(str(folder))
    notes.job(job.key, journal.QUEUED, 1, handle="7")
    notes.close()
    return job


def part(folder, machine, environ, *options):
    """Run one machine's part in a process of its own."""
    words = [*options, str(folder), "a.R0", "1", str(machine), "7"]
    return subprocess.run(
        [sys.executable, "-m", machine_part.__name__, *words],
        env=environ | {"PYTHONPATH": str(ROOT)}, capture_output=True, text=True, timeout=60,
    )  # fmt: skip


def test_a_machine_runs_its_part_on_its_own_devices(tmp_path, environ):
    both = [process(f"a.R0.D{n}", tmp_path, (f"cuda:1{'@1' * n}",), (n,)) for n in (0, 1)]
    planned(tmp_path, *both)
    devices = gpus(tmp_path) | {"CUDA_VISIBLE_DEVICES": "GPU-1,GPU-0"}
    done = part(tmp_path, 1, environ | devices)
    assert done.returncode == 1, done.stderr  # its process is no inject run, and leaves no record
    assert (tmp_path / "jobs/a.R0.D1/stdout").read_text() == "0 None None\n"
    assert not (tmp_path / "jobs/a.R0.D0").exists()
    [ended] = journal.read(folder_of(str(tmp_path), "a.R0", 1, 1)).values()
    assert (ended.state, ended.reason) == ("finished", "left no record")


def test_files_of_a_run_that_was_not_collected_count_as_changed(tmp_path, environ):
    """So that the suite, which has copied them before, copies their last records."""
    planned(tmp_path, process("a.R0.D0", tmp_path, ("cpu:0",), (0,)))
    log = tmp_path / "jobs/a.R0.D0/raw/h.1.log"
    log.parent.mkdir(parents=True)
    log.touch()
    os.utime(log, (1, 1))
    assert part(tmp_path, 0, environ, "--apart").returncode == 1
    assert log.stat().st_mtime > 1e9


def test_records_that_are_being_written_count_as_changed_again_and_again(tmp_path, monkeypatch):
    monkeypatch.setattr(machine_part, "MARK_PERIOD", 0.01)
    log = tmp_path / "raw/h.1.log"
    log.parent.mkdir()
    log.touch()
    with machine_part._marked_as_changed([str(tmp_path)]):
        for _ in range(3):
            os.utime(log, (1, 1))
            until(lambda: log.stat().st_mtime > 1e9, "a new time of change")
    os.utime(log, (1, 1))
    with machine_part._marked_as_changed([]):
        pass
    assert log.stat().st_mtime == 1


def test_a_machine_without_the_device(tmp_path, environ):
    planned(tmp_path, process("a.R0.D0", tmp_path, ("cuda:1",), (0,)))
    done = part(tmp_path, 0, environ | gpus(tmp_path, 1))
    assert done.returncode == 2 and "has no device 1 for the job: it has 1" in done.stderr
    [ended] = journal.read(folder_of(str(tmp_path), "a.R0", 1, 0)).values()
    assert ended.state == "failed-to-start" and "has no device 1" in ended.reason


def test_a_machine_that_has_not_what_the_job_requires(tmp_path, environ):
    conditions = (NodeCondition("gpu.capacity >= least", {"least": "100 GiB"}),)
    planned(tmp_path, process("a.R0.D0", tmp_path, ("cuda:0",), (0,)), conditions=conditions)
    done = part(tmp_path, 0, environ | gpus(tmp_path))
    assert done.returncode == 2, done.stderr
    [ended] = journal.read(folder_of(str(tmp_path), "a.R0", 1, 0)).values()
    assert ended.reason.endswith("has Stand-in: the job needs gpu.capacity >= least")


@pytest.mark.parametrize("apart", [False, True])
def test_ranks_of_several_machines_meet_at_the_first(tmp_path, environ, apart):
    planned(tmp_path, process("a.R0.D0", tmp_path, ("cpu:0", "cpu:0@1"), (0, 1)))
    meeting = tmp_path / "machines/a.R0.1.m0/meeting.json"
    meeting.parent.mkdir(parents=True)
    meeting.write_text(json.dumps({"a.R0.D0": "127.0.0.1:9"}))
    done = part(tmp_path, 1, environ, *(["--apart"] if apart else []))
    assert done.returncode == 0, done.stderr
    said = tmp_path / "machines/a.R0.1.m1/D0/stdout"
    assert said.read_text() == "? 127.0.0.1 c10d\n"


def test_a_job_that_is_not_written_down_does_not_begin(tmp_path, monkeypatch):
    planned(tmp_path, process("a.R0.D0", tmp_path, ("cpu:0",), (0,)))
    monkeypatch.setattr(machine_part, "TOGETHER", 0.2)
    with pytest.raises(UserError, match="there was no job 8 in"):
        machine_part.run(str(tmp_path), "a.R0", 1, 0, "8", False)
    assert not (tmp_path / "machines").exists()


# --- what journals come to --------------------------------------------------------------------------


class Recorded(RemoteJob):
    """A job whose engine only notes what it is to do."""

    def __init__(self, folder, machines=2):
        processes = [process(f"a.R0.D{n}", folder, ("cpu:0",), (n,)) for n in range(machines)]
        super().__init__(QueuedJob(Job("a.R0", "a", 0, tuple(processes)), 1), str(folder))
        self.calls = []

    def terminate(self):
        self.calls.append("terminate")

    def kill(self):
        self.calls.append("kill")

    def writes(self, machine, state, **facts):
        """A line in the journal of a machine."""
        made = Path(folder_of(self.folder, "a.R0", 1, machine))
        new = not made.exists()
        made.mkdir(parents=True, exist_ok=True)
        notes = Journal(str(made))
        if new:
            notes.write("begin", host=f"n{machine}")
        notes.job("a.R0", state, 1, **facts)
        notes.close()
        self.read_parts()

    def ends(self, machine, code=0):
        """A machine's part ends with an exit code."""
        reason = f"exit code {code}" if code else ""
        ended = {f"a.R0.D{machine}": {"code": code, "run": f"jobs/a.R0.D{machine}"}}
        self.writes(machine, "finished", ok=not code, reason=reason, processes=ended)


def test_a_job_is_over_when_all_its_parts_are(tmp_path):
    job = Recorded(tmp_path)
    job.read_parts()
    assert (job.state, job.over) == ("queued", False)
    job.writes(1, "started")
    assert (job.state, job.where) == ("started", "n1: cpu:0")
    job.ends(1)
    assert not job.over
    job.ends(0, 3)
    assert job.over and [each.code for each in job.results.values()] == [3, 0]


def test_where_one_part_fails_the_others_are_ended(tmp_path, monkeypatch):
    monkeypatch.setattr(remote_job, "TOGETHER", 0.0)
    job = Recorded(tmp_path)
    job.writes(1, "started")
    job.ends(0, 1)
    job.act()
    assert job.calls == ["terminate"]
    assert job.problems == ["its part on n0 failed, and the others were ended"]
    job.writes(1, "interrupted")
    assert job.over and len(job.problems) == 1


def test_a_part_that_something_else_ended(tmp_path):
    job = Recorded(tmp_path, machines=1)
    job.writes(0, "interrupted")
    assert job.over and not job.interrupted
    assert job.problems == ["it got a signal to end, which this suite did not send"]


def test_a_machine_that_is_lost_is_named(tmp_path):
    job = Recorded(tmp_path)
    job.writes(1, "started")
    job.ends(0)
    job.lost("a node failed")
    assert job.over and job.problems == ["a node failed (on n1)"]
    assert not job.results["a.R0.D1"].recorded
