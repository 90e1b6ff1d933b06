"""Like jobs of a suite as tasks of Slurm's job arrays: under Slurm itself, and how they are put together."""

from __future__ import annotations

import re
import subprocess
import sys
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from suite_runs import PATIENCE, journal, last, until

from injector.errors import UserError
from injector.suite.plan.jobs import Job, Plan, PlannedProcess
from injector.suite.run import slurm as commands
from injector.suite.run.engine import QueuedJob
from injector.suite.run.processes import CannotStartError
from injector.suite.run.slurm_engine import SlurmEngine

pytestmark = pytest.mark.xdist_group("slurm")


def handles(run):
    """By job, its number in Slurm."""
    return {key: each["handle"] for key, each in queued(run).items()}


def queued(run):
    lines = [each for each in journal(run) if each.get("state") == "queued"]
    return {each["key"]: each for each in reversed(lines)}


def begun(cluster, names, *words, seconds=600, **more):
    """A suite of jobs with these names, two of which run, one on each node."""
    suite = cluster.write(cluster.counted(*names, seconds=seconds, **more))
    process = cluster.start(suite, "--engine", "slurm", *words)
    until(lambda: len(cluster.entries()) == 2, "two beginnings")
    until(lambda: sum(each["state"] == "started" for each in last(cluster.run()).values()) == 2)
    return process


SHOWS = """
import os, sys, time
print(sorted(key for key in os.environ if key.startswith("SLURM_ARRAY")), os.environ["SLURM_JOB_NAME"])
if sys.argv[1:] == ["fails"]:
    sys.exit(3)
"""


def test_like_jobs_are_tasks_of_arrays_as_large_as_slurm_has_them(cluster):
    program = cluster.program("shows.py", SHOWS)
    names = ["a", "b", "fails", "c", "d", "e"]
    suite = {name: {"run": f"{program} {name}"} for name in names}
    suite["fails"]["weight"] = 1
    suite["c"]["max_duration"] = 1200  # it asks for another time than the others
    done = cluster.call("run", cluster.write(suite, "many"), "--engine", "slurm")
    run = cluster.run()
    assert done.returncode == 1 and "5 of 6 passed, 1 failed" in done.stderr, done.stderr
    assert "fails.R0 failed: exit code 3" in done.stderr
    found = handles(run)
    first = found["a.R0"].partition("_")[0]
    assert [found[f"{name}.R0"] for name in ("a", "b", "fails", "d")] == [
        f"{first}_{task}" for task in range(4)
    ]
    assert found["e.R0"].isdecimal() and found["c.R0"].isdecimal()
    assert f"a.R0 is queued (Slurm job {first}_0)" in done.stderr
    said = {name: (run / f"jobs/{name}.R0.D0/stdout").read_text() for name in ("a", "d", "e")}
    assert said == {"a": "[] many\n", "d": "[] many\n", "e": "[] e.R0\n"}
    assert (run / f"machines/{first}_3.out").exists()


@pytest.mark.release
def test_a_task_that_is_cancelled_fails_alone(cluster):
    """One that runs, and one that waits, of which Slurm forgets that it ever was."""
    process = begun(cluster, "abcd")
    number = handles(cluster.run())
    cluster.ask("scancel", number["a.R0"], number["c.R0"])
    until(lambda: {"a.R0", "c.R0"} <= finished(cluster), "the end of both")
    assert last(cluster.run())["b.R0"]["state"] == "started"
    (cluster.folder / "ledger.go").touch()
    _, message = process.communicate(timeout=PATIENCE)
    assert process.returncode == 1 and "2 of 4 passed, 2 failed" in message, message
    for key in ("a.R0", "c.R0"):
        assert re.search(
            rf"{key} failed: .*it was cancelled in Slurm \(Slurm job {number[key]}: ", message
        )
    assert cluster.entries() == {
        **{f"begin {name}.R0.D0": 1 for name in "abd"},
        **{f"end {name}.R0.D0": 1 for name in "bd"},
    }


def finished(cluster):
    return {key for key, each in last(cluster.run()).items() if each["state"] == "finished"}


def shown(cluster, verb, *words):
    """What a verb prints of the suite's run."""
    done = subprocess.run(
        [sys.executable, "-m", "injector", verb, *words, "--base", str(cluster.base)],
        cwd=cluster.folder, env=cluster.environ, capture_output=True, text=True, timeout=PATIENCE,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.release
def test_tasks_that_wait_are_shown_as_queued(cluster):
    process = begun(cluster, "abcd")
    assert "2 running, 2 queued" in shown(cluster, "runs")
    text = shown(cluster, "watch", cluster.run().name, "--once")
    assert "0 of 4 jobs" in text and "queued: c, d" in text, text
    (cluster.folder / "ledger.go").touch()
    _, message = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, message


@pytest.mark.release
def test_tasks_that_are_preempted_run_again(cluster):
    process = begun(cluster, "abc")
    words = ["sbatch", "--parsable", "--partition=urgent", "--nodes=2", "--exclusive"]
    cluster.ask(*words, "--output=/dev/null", "--wrap=sleep 1")
    until(lambda: [last(cluster.run())[f"{n}.R0"]["attempt"] for n in "abc"] == [2, 2, 1], "again")
    (cluster.folder / "ledger.go").touch()
    numbers = [handles(cluster.run())[f"{name}.R0"] for name in "ab"]
    until(lambda: over(cluster, process, *numbers), "the end")
    _, message = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, message
    ends = [each for each in cluster.entries() if each.startswith("end")]
    assert sorted(ends) == ["end a.R0.D0.a2", "end b.R0.D0.a2", "end c.R0.D0"]


def over(cluster, process, *numbers):
    """Whether the suite has ended; until then jobs that Slurm holds back are let begin."""
    if "PENDING" in cluster.ask("squeue", "-ho", "%T"):
        for number in numbers:
            now = ["scontrol", "update", f"JobId={number}", "StartTime=now"]
            subprocess.run(now, env=cluster.environ, capture_output=True, check=False)
    return process.poll() is not None


@pytest.mark.release
def test_a_task_that_slurm_requeues_runs_again_and_the_others_go_on(cluster):
    process = begun(cluster, "ab")
    number = handles(cluster.run())["b.R0"]
    cluster.ask("scontrol", "requeue", number)
    until(lambda: last(cluster.run())["b.R0"]["attempt"] == 2, "a second attempt")
    (cluster.folder / "ledger.go").touch()
    until(lambda: over(cluster, process, number), "the end")
    _, message = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, message
    ends = [each for each in cluster.entries() if each.startswith("end")]
    assert sorted(ends) == ["end a.R0.D0", "end b.R0.D0.a2"]
    assert last(cluster.run())["a.R0"]["attempt"] == 1


@pytest.mark.release
def test_a_task_whose_node_lost_its_daemon_runs_again(cluster, slurm):
    process = begun(cluster, "ab")
    number = handles(cluster.run())["a.R0"]
    node = cluster.ask("squeue", "--noheader", f"--jobs={number}", "--format=%B").strip()
    slurm.lose(node)
    try:
        until(lambda: last(cluster.run())["a.R0"]["attempt"] == 2, "a second attempt")
        (cluster.folder / "ledger.go").touch()  # which ends the other one, so that there is a node
        _, message = process.communicate(timeout=PATIENCE)
    finally:
        slurm.add(node)
    assert process.returncode == 0, message
    assert cluster.entries()["end a.R0.D0.a2"] == cluster.entries()["end b.R0.D0"] == 1
    assert f"a.R0 is queued (Slurm job {number}, requeued after {node} ended" in message


@pytest.mark.release
def test_a_suite_that_was_killed_goes_on_with_its_array(cluster):
    """As many tasks run at the same time as the second call says."""
    suite = cluster.write(cluster.counted(*"abcd", seconds=600))
    process = cluster.start(suite, "--engine", "slurm", "--max-parallel", "1")
    until(cluster.entries, "a beginning")
    until(lambda: last(cluster.run())["a.R0"]["state"] == "started", "a line")
    process.kill()
    process.wait()
    before = handles(cluster.run())
    assert len(before) == 4 and len(cluster.entries()) == 1
    words = cluster.words("run", "--resume")
    again = subprocess.Popen(
        words, cwd=cluster.folder, env=cluster.environ, stderr=subprocess.PIPE, text=True
    )
    until(lambda: len(cluster.entries()) == 2, "a second beginning")
    (cluster.folder / "ledger.go").touch()
    _, message = again.communicate(timeout=PATIENCE)
    assert again.returncode == 0, message
    assert handles(cluster.run()) == before, "nothing was submitted again"
    assert cluster.entries() == {
        f"{word} {name}.R0.D0": 1 for name in "abcd" for word in ("begin", "end")
    }


@pytest.mark.release
@pytest.mark.parametrize("limit", [1, 2])
def test_no_more_jobs_run_at_the_same_time_than_may(cluster, limit):
    """Of two arrays and a job of its own. One core each, so that four could."""
    suite = cluster.counted(*"abcdefg", seconds=2, plan={"devices": 1})
    for name in "def":
        suite[name]["max_duration"] = 1200
    suite["g"]["max_duration"] = 1800
    done = cluster.call(
        "run", cluster.write(suite), "--engine", "slurm", "--max-parallel", limit, devices="cpu:2",
        patience=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = handles(cluster.run())
    arrays = Counter(commands.array_of(each) for each in found.values())
    assert sorted(arrays.values()) == [1, 3, 3], found
    at_once, most = 0, 0
    for line in cluster.ledger.read_text().splitlines():
        at_once += 1 if line.startswith("begin") else -1
        most = max(most, at_once)
    assert most == limit


@pytest.mark.release
def test_an_interrupt_ends_all_tasks_of_an_array(cluster):
    process = begun(cluster, "abcd")
    process.send_signal(2)
    _, message = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130 and "4 left to run" in message, message
    assert {each["state"] for each in last(cluster.run()).values()} == {"interrupted"}
    assert (cluster.run() / "jobs/a.R0.D0/run.json").exists()
    until(lambda: not cluster.ask("squeue", "--noheader"), "an empty queue")


# --- how they are put together -----------------------------------------------------------------------


def job(key, machines=1, timeout=60.0):
    processes = [
        PlannedProcess(
            f"{key}.D{n}", ("cpu:0",), ("python",), {}, "/f", f"jobs/{key}.D{n}", timeout, timeout,
            machines=(n,),
        )
        for n in range(machines)
    ]  # fmt: skip
    return Job(key, key.partition(".")[0], 0, tuple(processes))


def kind(queued):
    return queued.job.processes[0].timeout


JOBS = st.lists(st.tuples(st.integers(1, 2), st.sampled_from([60.0, 120.0, 180.0]), st.booleans()))


@given(JOBS, st.integers(0, 5))
def test_every_job_is_in_one_array_or_alone(given_jobs, most):
    waiting = [
        QueuedJob(job(f"b.R{n}", machines, timeout), 1, 1.0 if adopted else None)
        for n, (machines, timeout, adopted) in enumerate(given_jobs)
    ]
    place = {each.job.key: n for n, each in enumerate(waiting)}
    batches = []
    while waiting:
        first = waiting.pop(0)
        others = [] if first.adopted else commands.tasks_with(first, waiting, kind, most)
        batches.append([first, *others])
        waiting = [each for each in waiting if each not in others]
    found = [place[each.job.key] for batch in batches for each in batch]
    assert sorted(found) == list(range(len(given_jobs)))
    for batch in batches:
        places = [place[each.job.key] for each in batch]
        assert places == sorted(places), "in the order of the plan"
        assert len(batch) <= max(1, most)
        assert len({kind(each) for each in batch}) == 1
        if len(batch) > 1:
            assert all(each.job.machines == 1 and each.adopted is None for each in batch)
    like = [batch for batch in batches if batch[0].job.machines == 1 and not batch[0].adopted]
    for timeout in (60.0, 120.0, 180.0):
        sizes = [len(batch) for batch in like if kind(batch[0]) == timeout]
        assert all(size == max(1, most) for size in sizes[:-1]), "no array that could be larger"


@given(st.lists(st.integers(0, 3)), st.integers(1, 6), st.randoms())
def test_arrays_share_a_limit(arrays, limit, random):
    """Jobs are submitted where there is room, and end in any order; what may run is never above the limit."""
    at_once = commands.ParallelLimit()
    at_once.limit = limit
    left, keeps = [], {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(commands, "let_run", keeps.__setitem__)
        waiting = list(enumerate(arrays))
        while waiting or left:
            at_once.share(left)
            while waiting and (room := at_once.room(left)) > 0:
                number, tasks = waiting.pop(0)
                if tasks:
                    keeps[str(number)] = min(room, tasks)
                    at_once.submitted(str(number), keeps[str(number)])
                left += [f"{number}_{task}" for task in range(tasks)] or [str(number)]
            at_once.share(left)
            tasks = Counter(commands.array_of(each) for each in left)
            alone = tasks.pop("", 0)
            running = alone + sum(min(keeps[array], n) for array, n in tasks.items())
            assert running <= limit
            assert running == limit or (not waiting and running == len(left)), "nothing is idle"
            left.remove(random.choice(left))


@pytest.fixture
def submitted(monkeypatch, tmp_path):
    """An engine with a Slurm that takes so many jobs: what it was given, and what it refuses more with."""

    class Double:
        calls, takes, why = (
            [],
            1000,
            "QOSMaxSubmitJobPerUserLimit; Job violates accounting/QOS policy",
        )

        def call(self, words, script=None):
            if words[:2] == ["scontrol", "show"]:
                return self.config
            if words[0] == "sbatch":
                array = next((each for each in words if each.startswith("--array=0-")), "")
                tasks = int(re.match(r"\d+", array[10:])[0]) + 1 if array else 1
                self.calls.append(tasks)
                if tasks > self.takes:
                    raise UserError(f"sbatch: {self.why}")
                self.takes -= tasks
                return f"{len(self.calls)}\n"
            return ""

        config = "MaxArraySize            = 1001\nSchedulerParameters = x=1,max_array_tasks=6,y\n"

    double = Double()
    double.calls = []
    monkeypatch.setattr(commands, "call", double.call)
    jobs = tuple(job(f"b.R{n}") for n in range(10))
    machine = {"devices": [{}], "cpu_count": 2, "engine": {"name": "slurm", "options": {}}}
    double.engine = SlurmEngine(Plan({"name": "s"}, "/", machine, {}, jobs), str(tmp_path))
    double.jobs = [QueuedJob(each, 1) for each in jobs]
    return double


def opened(queued, state, **facts):
    pass


@pytest.mark.parametrize(
    ("config", "most"),
    [
        ("MaxArraySize            = 1001\n", 1001),
        ("MaxArraySize = 0\n", 0),
        ("MaxArraySize = 1001\nSchedulerParameters     = max_array_tasks=7,bf_x=1\n", 7),
        ("nothing\n", 0),
    ],
)
def test_how_many_tasks_an_array_may_have(submitted, config, most):
    submitted.config = config
    assert commands.most_tasks() == most
    submitted.engine.open()
    found = submitted.engine.together(submitted.jobs[0], submitted.jobs[1:])
    assert len(found) == max(0, min(most, 10) - 1)


def test_slurm_takes_fewer_jobs_than_there_are(submitted):
    """By a limit of the user's: half as many are tried, and the rest waits until one of those has ended."""
    engine, jobs = submitted.engine, submitted.jobs
    submitted.takes = 3
    begun = engine.start(jobs, opened)
    assert [each.number for each in begun] == ["3_0", "3_1"] and submitted.calls == [10, 5, 2]
    begun += engine.start(jobs[2:], opened)
    assert [each.number for each in begun[2:]] == ["7"] and submitted.calls[3:] == [8, 4, 2, 1]
    assert engine.start(jobs[3:], opened) == [] and not engine.has_room(jobs[3].job)
    begun[0].lost("it ended")
    assert engine.has_room(jobs[3].job)
    submitted.takes = 1
    assert len(engine.start(jobs[3:], opened)) == 1


@pytest.mark.parametrize("why", ["QOSMaxSubmitJobPerUserLimit", "Invalid account"])
def test_slurm_takes_nothing(submitted, why):
    submitted.takes, submitted.why = 0, why
    with pytest.raises(CannotStartError, match=why):
        submitted.engine.start(submitted.jobs, opened)
    assert submitted.calls == ([10, 5, 2, 1] if "Limit" in why else [10])


def test_jobs_that_are_ended_are_ended_by_few_commands(submitted, monkeypatch):
    begun = submitted.engine.start(submitted.jobs, opened)
    seen = []
    monkeypatch.setattr(commands, "call", lambda words, script=None: seen.append(words) or "")
    for each in begun:
        each.end()
    submitted.engine.look([])
    assert [words[:3] for words in seen] == [
        ["scancel", "--quiet", "--state=PENDING"], ["scancel", "--quiet", "--signal=TERM"]
    ]  # fmt: skip
    assert all(words[3:] == [f"1_{n}" for n in range(10)] for words in seen)
