"""Going on after somebody, or something, has stopped a suite: nothing is lost, nothing is done twice."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import time

import pytest
from suite_runs import PATIENCE, journal, last, nothing_left, of, until

KILLS = int(os.environ.get("INJECT_SUITE_KILLS", "12"))
"""How often a suite is killed at a random moment; 200 take some ten minutes."""
OFTEN = 1
"""How many of them every commit waits for."""

JOBS = ("a", "b", "c")


def once_each(suites, devices):
    """The ledger of a suite in which every process of :data:`JOBS` ran exactly once."""
    keys = [f"{job}.R0.D{number}" for job in JOBS for number in range(devices)]
    return {f"{word} {key}": 1 for key in keys for word in ("begin", "end")}


@pytest.mark.parametrize(
    "seed",
    [
        pytest.param(seed, marks=[pytest.mark.release] if seed >= OFTEN else [])
        for seed in range(KILLS)
    ],
)
def test_killed_at_a_random_moment_and_resumed(suites, seed):
    """As often as it takes: a resumed suite is killed as well."""
    chance = random.Random(seed)
    suite = suites.write(suites.counted(*JOBS, seconds=0.3))
    process = suites.start(suite, devices="cpu:2")
    kills = 0
    while True:
        try:
            process.wait(chance.uniform(0, 3.0))
            break
        except Exception:
            process.kill()
            process.wait()
            kills += 1
        if not suites.runs() or not (suites.runs()[-1] / "plan.json").exists():
            process = suites.start(suite, devices="cpu:2")  # killed before it began
        else:
            process = suites.start("--resume", suites.runs()[-1])
    assert process.returncode == 0, process.stderr.read()
    assert dict(suites.entries()) == once_each(suites, 2)
    found = last(suites.runs()[-1])
    assert all(each["state"] == "finished" and each["ok"] for each in found.values())
    assert len(found) == len(JOBS)
    nothing_left(suites.base)


def killed_while(suites, suite, job="a", devices="cpu:2"):
    """A suite that is killed while the processes of a job run; its run folder."""
    process = suites.start(suite, devices=devices)
    count = int(devices.rpartition(":")[2])
    until(lambda: sum(f"begin {job}." in each for each in suites.entries()) == count, "a beginning")
    process.kill()
    process.wait()
    return suites.run()


def go(suites):
    """Let the programs end that wait for it."""
    (suites.folder / "ledger.go").touch()


def test_what_runs_when_it_is_killed_goes_on_and_is_taken_over(suites):
    run = killed_while(suites, suites.write(suites.counted(*JOBS, seconds=600)))
    resumed = suites.start("--resume", run)
    until(lambda: any(e["event"] == "resume" for e in journal(run)), "a second begin")
    go(suites)
    assert resumed.wait(PATIENCE) == 0
    assert dict(suites.entries()) == once_each(suites, 2)
    assert {each["attempt"] for each in last(run).values()} == {1}


def test_what_has_ended_meanwhile_is_taken_as_it_is(suites):
    run = killed_while(suites, suites.write(suites.counted(*JOBS, seconds=600)))
    go(suites)
    nothing_left(suites.base)
    done = suites.call("run", "--resume", run)
    assert done.returncode == 0, done.stderr
    assert dict(suites.entries()) == once_each(suites, 2)
    [finished] = [e for e in journal(run) if e.get("key") == "a.R0" and e["state"] == "finished"]
    assert finished["seconds"] > 0


def test_a_failure_meanwhile_is_still_one(suites):
    run = killed_while(suites, suites.write(suites.counted("a", seconds=600)), devices="cpu:1")
    for pid in os.listdir("/proc"):
        if pid.isdecimal() and is_program(pid, run):
            os.kill(int(pid), signal.SIGKILL)
    nothing_left(suites.base)
    done = suites.call("run", "--resume", run)
    assert done.returncode == 1
    assert last(run)["a.R0"]["reason"] == "killed by SIGKILL"


def is_program(pid, run):
    """Whether a process is the program of a run, and not what watches over it."""
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            ours = f"INJECT_SUITE_RUN={run}".encode() in file.read()
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            words = file.read().split(b"\0")
    except OSError:
        return False
    return ours and any(word.endswith(b"counted.py") for word in words[:3])


def test_a_time_limit_holds_though_the_suite_is_dead(suites):
    suite = suites.write(
        suites.counted("a", seconds=600, max_duration=2, voir={"options": {"grace": 0.2}})
    )
    run = killed_while(suites, suite, devices="cpu:1")
    nothing_left(suites.base)
    done = suites.call("run", "--resume", run)
    assert done.returncode == 1
    assert last(run)["a.R0"]["reason"] == "ended by its time limit"


def kill_all(suites, run):
    """What a loss of power does, as far as processes go."""
    while left := [pid for pid in os.listdir("/proc") if pid.isdecimal() and belongs(pid, run)]:
        for pid in left:
            try:
                os.kill(int(pid), signal.SIGKILL)
            except ProcessLookupError:
                pass


def belongs(pid, run):
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            variables = file.read().split(b"\0")
        with open(f"/proc/{pid}/stat") as file:
            state = file.read().rpartition(")")[2].split()[0]
    except OSError:
        return False
    mark = f"INJECT_SUITE_RUN={run}".encode()
    return state not in "ZX" and any(each.startswith(mark) for each in variables)


def test_what_was_lost_with_the_machine_runs_again_in_a_folder_of_its_own(suites):
    run = killed_while(suites, suites.write(suites.counted(*JOBS, seconds=600)))
    kill_all(suites, run)
    go(suites)
    done = suites.call("run", "--resume", run)
    assert done.returncode == 0, done.stderr
    found = last(run)
    assert {key: each["attempt"] for key, each in found.items()} == {
        "a.R0": 2,
        "b.R0": 1,
        "c.R0": 1,
    }
    assert found["a.R0"]["processes"]["a.R0.D1"]["run"] == "jobs/a.R0.D1.a2"
    assert json.loads((run / "jobs/a.R0.D1.a2/run.json").read_text())["exit"]["code"] == 0
    assert suites.entries()["end a.R0.D1.a2"] == 1
    linked = (run / "a.D1.data").read_bytes()
    assert linked == (run / "jobs/a.R0.D1.a2/a.D0.data").read_bytes()


def test_a_program_whose_inject_run_died_too_is_ended_and_run_again(suites):
    """Nobody would write its record, nor keep its time."""
    run = killed_while(suites, suites.write(suites.counted("a", seconds=600)), devices="cpu:1")
    for pid in os.listdir("/proc"):
        if pid.isdecimal() and belongs(pid, run) and not is_program(pid, run):
            os.kill(int(pid), signal.SIGKILL)
    assert of(suites.base)
    process = suites.start("--resume", run)
    until(lambda: suites.entries()["begin a.R0.D0.a2"], "a second attempt")
    go(suites)
    assert process.wait(PATIENCE) == 0
    assert suites.entries() == {"begin a.R0.D0": 1, "begin a.R0.D0.a2": 1, "end a.R0.D0.a2": 1}


def test_after_a_loss_of_power_a_torn_journal_is_read(suites):
    run = killed_while(suites, suites.write(suites.counted(*JOBS, seconds=600)))
    go(suites)
    nothing_left(suites.base)
    path = run / "journal.jsonl"
    path.write_bytes(path.read_bytes()[:-20])  # the job's beginning was not written to its end
    shutil.rmtree(run / "jobs")
    suites.ledger.unlink()
    done = suites.call("run", "--resume", run)
    assert done.returncode == 0, done.stderr
    assert dict(suites.entries()) == once_each(suites, 2)


@pytest.mark.parametrize(
    ("rerun", "again"), [("never", set()), ("onfail", {"bad"}), ("always", {"bad", "a"})]
)
def test_which_jobs_run_again(suites, rerun, again):
    bad = suites.program("bad.py", "import sys; sys.exit(1)")
    suite = suites.write({"bad": {"run": bad}, **suites.counted("a")})
    assert suites.call("run", suite).returncode == 1
    run = suites.run()
    suites.program("bad.py", "")
    done = suites.call("run", "--resume", "--rerun", rerun)
    assert done.returncode == (0 if again else 1)
    attempts = {key.partition(".")[0]: each["attempt"] for key, each in last(run).items()}
    assert attempts == {name: 2 if name in again else 1 for name in ("bad", "a")}


def test_a_finished_suite_has_nothing_left_to_do(suites):
    assert suites.call("run", suites.write(suites.counted("a"))).returncode == 0
    before = suites.entries()
    done = suites.call("run", "--resume")
    assert (done.returncode, suites.entries()) == (0, before)
    assert "1 of 1 passed" in done.stderr


def test_two_cannot_run_one_run(suites):
    suite = suites.write(suites.counted("a", seconds=600))
    process = suites.start(suite)
    until(suites.entries, "a beginning")
    done = suites.call("run", "--resume", suites.run())
    assert done.returncode == 2
    assert f"is being run by process {process.pid}" in done.stderr
    go(suites)
    assert process.wait(PATIENCE) == 0


def test_which_run_is_resumed(suites):
    first = suites.write(suites.counted("a"), "first")
    second = suites.write(suites.counted("a"), "second")
    for suite in (first, second):
        assert suites.call("run", suite).returncode == 0
    assert "/second." in suites.call("run", "--resume").stderr
    assert "/first." in suites.call("run", first, "--resume").stderr
    assert "/first." in suites.call("run", "--resume", first).stderr
    name = next(run.name for run in suites.runs() if run.name.startswith("first"))
    assert "/first." in suites.call("run", "--resume", name).stderr
    missing = suites.call("run", "--resume", "nothing")
    assert missing.returncode == 2
    assert "no suite has been run in nothing" in missing.stderr


def test_what_resuming_would_do_is_shown_and_not_done(suites):
    run = killed_while(suites, suites.write(suites.counted(*JOBS, seconds=600)))
    kill_all(suites, run)
    done = suites.call("run", "--resume", run, "--dry-run")
    assert done.returncode == 0
    assert done.stdout.splitlines() == [
        "a.R0 is run, attempt 2",
        "b.R0 is run",
        "c.R0 is run",
        "3 jobs to do, 0 are kept",
    ]
    time.sleep(0.1)
    assert not of(suites.base)


def test_a_prepare_step_of_an_included_file_is_found_by_the_plan_alone(suites):
    common = suites.folder / "common"
    common.mkdir()
    (common / "prepare.py").write_text(
        "import sys, pathlib; pathlib.Path(sys.argv[1], 'x').touch()"
    )
    (common / "base.yaml").write_text("_base: {prepare: prepare.py, validation: {rate: false}}\n")
    program = suites.program("a.py", "")
    suite = suites.folder / "suite.yaml"
    suite.write_text(f"include: common/base.yaml\na: {{inherits: _base, run: {program}}}\n")
    assert suites.call("prepare", suite, devices=None).returncode == 0
    assert suites.call("run", suite).returncode == 0
    again = suites.call("run", "--resume", suites.run(), "--rerun", "always")
    assert again.returncode == 0, again.stderr
    assert last(suites.run())["a.R0"]["attempt"] == 2
