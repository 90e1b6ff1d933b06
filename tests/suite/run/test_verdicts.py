"""Each way in which a benchmark can go wrong, and that the others run whatever becomes of it."""

from __future__ import annotations

import signal
import subprocess

import pytest
from suite_runs import PATIENCE, journal, last, nothing_left, plan

pytestmark = pytest.mark.xdist_group("verdicts")  # one suite for most of these

PROGRAMS = {
    "ends_well": "print('done')",
    "exits": "import sys; print('first', file=sys.stderr); print('last words', file=sys.stderr); sys.exit(3)",
    "raises": "raise ValueError('no such thing')",
    "killed": "import os, signal; os.kill(os.getpid(), signal.SIGKILL)",
    "crashes": "import os; os.abort()",
    "hangs": "import time; print('hanging', flush=True); time.sleep(3600)",
    "ignores": "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(3600)",
    "leaves": "import subprocess; subprocess.Popen(['sleep', '3600'], start_new_session=True)",
    "stops": "import os, signal; os.kill(os.getpid(), signal.SIGSTOP)",
}

REASONS = {
    "ends_well": "",
    "exits": "exit code 3 (last words)",
    "raises": "exit code 1 (ValueError: no such thing)",
    "killed": "killed by SIGKILL",
    "crashes": "killed by SIGABRT",
    "hangs": "ended by its time limit",
    "ignores": "ended by its time limit",
    "stops": "ended by its time limit",
    "leaves": "",  # it ended well itself; what it left was ended by inject run, and is in its record
}


@pytest.fixture(scope="module")
def ran(tmp_path_factory, environ):
    """A suite of all of them on two devices, run once."""
    from suite_runs import Suites

    suites = Suites(tmp_path_factory.mktemp("verdicts"), environ)
    benchmarks = {}
    for name, text in PROGRAMS.items():
        options = {"options": {"grace": 0.2}}
        benchmarks[name] = {"run": suites.program(f"{name}.py", text), "voir": options}
        if REASONS[name].startswith("ended by"):
            benchmarks[name]["max_duration"] = 2
    done = suites.call("run", suites.write(benchmarks), devices="cpu:2")
    return suites, done


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_verdict_of(ran, name):
    suites, _ = ran
    found = last(suites.run())[f"{name}.R0"]
    assert (found["state"], found["reason"]) == ("finished", REASONS[name])
    assert found["ok"] is (not REASONS[name])


def test_the_processes_in_the_journal(ran):
    suites, _ = ran
    found = last(suites.run())
    assert found["exits.R0"]["processes"] == {
        f"exits.R0.D{n}": {
            "code": 3,
            "signal": None,
            "timed_out": False,
            "run": f"jobs/exits.R0.D{n}",
        }
        for n in (0, 1)
    }
    assert found["killed.R0"]["processes"]["killed.R0.D1"]["signal"] == signal.SIGKILL
    assert found["hangs.R0"]["processes"]["hangs.R0.D0"]["timed_out"] is True


def test_one_failure_is_the_suites(ran):
    suites, done = ran
    assert done.returncode == 1
    assert "2 of 9 passed, 7 failed" in done.stderr
    assert "exits.R0 failed: exit code 3 (last words)" in done.stderr
    assert journal(suites.run())[-1]["event"] == "end"


def test_nothing_is_left_of_any(ran):
    suites, _ = ran
    assert nothing_left(suites.base)


def test_what_they_printed_is_kept(ran):
    suites, _ = ran
    jobs = suites.run() / "jobs"
    assert (jobs / "ends_well.R0.D1" / "stdout").read_text() == "done\n"
    assert (jobs / "hangs.R0.D0" / "stdout").read_text() == "hanging\n"
    assert (jobs / "raises.R0.D0" / "stderr").read_text().startswith("Traceback")


def test_each_run_is_an_ordinary_one_and_linked_under_milabenchs_name(ran):
    suites, _ = ran
    run = suites.run()
    for number in (0, 1):
        data = run / f"ends_well.D{number}.data"
        assert (run / f"jobs/ends_well.R0.D{number}" / "run.json").exists()
        assert (
            data.read_bytes()
            == (run / f"jobs/ends_well.R0.D{number}" / "ends_well.D0.data").read_bytes()
        )
        assert b'"event": "end"' in data.read_bytes() or b'"event":"end"' in data.read_bytes()


def test_processes_of_a_job_run_at_the_same_time(suites):
    """Each waits for the other, so that neither ends if they ran one after the other."""
    text = """
import os, sys, time
here = os.environ["INJECT_SUITE_RUN"]
job, number = here.rsplit(".D", 1)
open(f"{sys.argv[1]}.{number}", "w").close()
end = time.monotonic() + 60
while not os.path.exists(f"{sys.argv[1]}.{1 - int(number)}"):
    assert time.monotonic() < end
    time.sleep(0.01)
"""
    program = suites.program("meets.py", text)
    suite = suites.write({"meets": {"run": f"{program} {suites.folder}/met"}})
    done = suites.call("run", suite, devices="cpu:2")
    assert done.returncode == 0, done.stderr


def test_jobs_side_by_side_where_that_is_requested(suites):
    """Each waits for the other."""
    text = """
import os, sys, time
open(sys.argv[1], "w").close()
end = time.monotonic() + 60
while not os.path.exists(sys.argv[2]):
    assert time.monotonic() < end
    time.sleep(0.01)
"""
    meets, here = suites.program("meets.py", text), suites.folder
    suite = suites.write(
        {
            "one": {"run": f"{meets} {here}/one {here}/two"},
            "two": {"run": f"{meets} {here}/two {here}/one"},
        }
    )
    done = suites.call("run", suite, "--max-parallel", 2)
    assert done.returncode == 0, done.stderr


def test_what_cannot_be_started_is_a_failure_with_its_reason(suites):
    """There is no environment: the others would run, had they one."""
    suite = suites.write({"a": {"run": suites.program("a.py", "")}})
    words = suites.words("run", suite)
    words.remove("--use-current-env")
    done = subprocess.run(words, env=suites.environ, capture_output=True, text=True)
    assert done.returncode == 1
    found = last(suites.run())["a.R0"]
    assert found["state"] == "failed-to-start"
    assert (
        "is not installed, and --use-current-env is not given: inject suite install comes first"
        in found["reason"]
    )
    assert "a.R0 failed" in done.stderr


def test_data_that_are_not_prepared_are_a_failure_with_its_reason(suites):
    suites.program("prepare.py", "print('never run')")
    a = suites.program("a.py", "")
    suite = suites.write({"a": {"run": a, "prepare": {"script": "prepare.py"}}, "b": {"run": a}})
    done = suites.call("run", suite)
    assert done.returncode == 1
    found = last(suites.run())
    assert "not prepared: inject suite prepare comes first" in found["a.R0"]["reason"]
    assert found["b.R0"]["ok"] is True


def test_a_folder_to_run_in_that_is_not_there(suites):
    a = suites.program("a.py", "")
    suite = suites.write({"a": {"run": a, "folder": str(suites.folder / "nowhere")}})
    done = suites.call("run", suite)
    assert done.returncode == 2
    assert f"suite.yaml:5: a.folder: there is no folder {suites.folder}/nowhere" in done.stderr


def test_an_option_that_no_voirfile_has(suites):
    suite = suites.write(
        {"a": {"run": suites.program("a.py", ""), "voir": {"options": {"nonsense": 1}}}}
    )
    done = suites.call("run", suite)
    assert done.returncode == 2
    assert "suite.yaml:7: a.voir.options.nonsense: " in done.stderr


def test_what_is_not_for_this_machine_is_left_out_and_reported(suites):
    a = suites.program("a.py", "")
    suite = suites.write({"a": {"run": a}, "two": {"run": a, "num_machines": 2}})
    done = suites.call("run", suite)
    assert done.returncode == 0, done.stderr
    [left] = plan(suites.run())["left_out"]
    reason = "needs 2 machines; this is one"
    assert left == {"benchmark": "two", "reason": reason, "failure": False, "weight": 1.0}
    assert "two was left out: needs 2 machines" in done.stderr


def test_an_inject_run_that_is_killed_leaves_nothing_running(suites):
    """Its program is an orphan then, that nobody but the suite can end."""
    text = """
import os, signal, subprocess, time
subprocess.Popen(["sleep", "3600"], start_new_session=True)
os.kill(os.getppid(), signal.SIGKILL)
time.sleep(3600)
"""
    a = suites.program("a.py", "")
    suite = suites.write({"kills": {"run": suites.program("kills.py", text)}, "after": {"run": a}})
    done = suites.call("run", suite)
    assert done.returncode == 1
    found = last(suites.run())
    assert "killed by SIGKILL" in found["kills.R0"]["reason"]
    assert (
        "a process of it was left running, and was ended: sleep 3600" in found["kills.R0"]["reason"]
    )
    assert found["after.R0"]["ok"] is True
    assert nothing_left(suites.base)


def test_a_full_disk_stops_no_other_benchmark(suites):
    """The program may write nothing any more, as if no room were left."""
    text = """
import resource
resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
with open("x", "w") as file:
    file.write("y")
"""
    suite = suites.write(
        {
            "full": {"run": suites.program("full.py", text)},
            "after": {"run": suites.program("a.py", "")},
        }
    )
    done = suites.call("run", suite)
    assert done.returncode == 1
    found = last(suites.run())
    assert found["full.R0"]["reason"].startswith("exit code")
    assert found["after.R0"]["ok"] is True


def test_repeats_go_round_and_have_their_own_data(suites):
    suite = suites.write(suites.counted("a", "b"))
    done = suites.call("run", suite, "--repeat", 2)
    assert done.returncode == 0, done.stderr
    begun = [e["key"] for e in journal(suites.run()) if e.get("state") == "started"]
    assert begun == ["a.R0", "b.R0", "a.R1", "b.R1"]
    names = {path.name for path in suites.run().glob("*.data")}
    assert names == {f"{b}.R{r}.D0.data" for b in "ab" for r in (0, 1)}


def test_a_name_of_ones_own(suites):
    done = suites.call("run", suites.write(suites.counted("a")), "--name", "weekly")
    assert done.returncode == 0
    assert suites.run().name.startswith("weekly.")


def test_no_one_reads_what_is_reported(suites):
    """The terminal went away: the suite goes on."""
    suite = suites.write(suites.counted("a", "b"))
    process = suites.start(suite)
    process.stderr.close()
    assert process.wait(PATIENCE) == 0
    assert sum(suites.entries().values()) == 4
