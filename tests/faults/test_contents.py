"""Strange things to record, and many at once."""

from __future__ import annotations

import subprocess
import sys

import pytest

from .faulty import ROOT

LOGGING = """
def instrument_values(ov):
    ov.step("//step")
    ov.value("//step > loss")
    ov.probe("//main > made").subscribe(lambda data: ov.log({"made": data["made"]}))
"""


def made(run):
    return [data["made"] for data in run.events("data") if "made" in data]


def test_a_record_of_ten_megabytes(launch):
    run = launch(
        "def main():\n    made = 'x' * 10_000_000\n    made = 'after'\nmain()\nsteps(10)\n",
        voirfile=LOGGING,
    ).over()
    assert run.exit == 0
    first, second = made(run)
    assert (len(first), second) == (10_000_000, "after")
    assert run.info["lost"] == run.info["torn"] == 0


def test_values_that_json_has_no_word_for(launch):
    run = launch(
        """
def main():
    for made in (float("nan"), float("inf"), -float("inf"), "\\udcff", object, {1: {2}}, b"\\xff"):
        pass
    made = made_of_itself = []
    made_of_itself.append(made)
    made = "after"
main()
sys.exit(2)
""",
        voirfile=LOGGING,
    ).over()
    assert run.exit == 2
    found = made(run)
    assert found[:4] == ["NaN", "Infinity", "-Infinity", "\\udcff"]
    assert found[4] == {"$unserializable": "<class 'object'>"}
    assert found[-1] == "after"
    assert run.info["lost"] == run.info["torn"] == 0
    assert run.info["failures"] == []


def test_values_that_are_no_numbers(launch):
    run = launch("""
def step(number):
    loss = [float("nan"), float("inf"), "text", None, number][number]
    return loss
for number in range(5):
    step(number)
""").over()
    assert run.exit == 0
    losses = [data["loss"] for data in run.events("data") if "loss" in data]
    assert sorted(map(str, losses)) == sorted(["NaN", "Infinity", "'text'", "4.0"])


@pytest.mark.parametrize("many", [64, pytest.param(256, marks=pytest.mark.release)])
def test_forked_children(launch, many):
    run = launch(f"""
children = []
for who in range({many}):
    pid = os.fork()
    if pid == 0:
        steps(20, who)
        os._exit(0)
    children.append(pid)
codes = [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in children]
steps(20)
say(*children)
sys.exit(max(codes) + 3)
""").over()
    assert run.exit == 3
    children = list(map(int, run.out.split()))
    recorded = run.processes
    assert len(recorded) == many + 1
    assert all(process.is_whole(20) for process in recorded.values())
    assert set(children) < set(recorded)


def test_many_threads(launch):
    run = launch("""
import threading
threads = [threading.Thread(target=steps, args=(500, who)) for who in range(16)]
for thread in threads: thread.start()
for thread in threads: thread.join()
say(os.getpid())
""").over()
    assert run.exit == 0
    process = run.processes[int(run.out)]
    assert process.steps == len(process.values) == 16 * 500
    assert sorted(process.values) == sorted(float(n) for n in range(500) for _ in range(16))


def test_runs_that_start_at_the_same_moment(tmp_path):
    (tmp_path / "main.py").write_text("import sys; print(sys.argv[1]); sys.exit(int(sys.argv[1]))")
    words = [sys.executable, "-m", "injector", "run", "--quiet", "--runs", "runs", "main.py"]
    started = [
        subprocess.Popen(
            [*words, str(number)],
            cwd=tmp_path,
            stdout=subprocess.PIPE,
            text=True,
            env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"},
        )
        for number in range(8)
    ]
    for number, process in enumerate(started):
        out, _ = process.communicate(timeout=120)
        assert (process.returncode, out) == (number, f"{number}\n")
    assert len(list((tmp_path / "runs").glob("main.*/run.json"))) == 8


def test_runs_of_the_very_same_moment(tmp_path, monkeypatch):
    from injector.store import place

    monkeypatch.setattr(place.time, "time_ns", lambda: 1_700_000_000_123_456_789)
    folders = [place.create("main", str(tmp_path)).path for _ in range(100)]
    assert len(set(folders)) == 100
