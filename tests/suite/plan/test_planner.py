"""From a suite and a machine to processes; and that these are the processes that a run starts."""

from __future__ import annotations

import json
import os
import re
import stat
import subprocess
import sys
from dataclasses import replace

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from suite_runs import PATIENCE, last, nothing_left
from suite_runs import made_suite as suite
from suite_runs import plan as read_plan

from injector.suite.config.problems import SuiteError
from injector.suite.environments.setup import Resources
from injector.suite.plan import command_lines
from injector.suite.plan.jobs import Plan, PlannedProcess, PlanOptions, plan_lines
from injector.suite.plan.machine import Machine, PlanDevice, visible_devices
from injector.suite.plan.planner import plan_suite
from injector.suite.run.suite_folder import write_plan

CPU = Machine(tuple(PlanDevice("cpu", n) for n in range(2)), (0, 1, 2, 3), 4, 8 << 30, "here")
CUDA = Machine(
    tuple(PlanDevice("cuda", n, str(n + 2), f"Card {n}", f"GPU-{n}", 80 << 30) for n in range(2)),
    tuple(range(8)),
    8,
    64 << 30,
    "there",
)
GROUND = Resources("/env/bin/python", {"data": "/base/data"})


def planned(machine=CPU, ground=GROUND, wish=None, **benchmarks) -> Plan:
    return plan_suite(
        suite(**benchmarks),
        machine,
        "/base",
        lambda each: ground,
        wish or PlanOptions("/base/runs/x"),
    )


def processes(made: Plan) -> list[PlannedProcess]:
    return [process for job in made.jobs for process in job.processes]


def program(process: PlannedProcess) -> list[str]:
    return list(process.command[process.command.index("--") + 1 :])


def own_options(process: PlannedProcess) -> list[str]:
    start = ["/env/bin/python", "-m", "injector", "run", "--into"]
    assert list(process.command[:5]) == start
    return list(process.command[5 : process.command.index("--")])


# --- per_gpu ----------------------------------------------------------------------------------------


def test_per_gpu_is_a_process_for_each_device():
    [job] = planned(CUDA, a={"argv": {"--lr": 0.1}}).jobs
    assert (job.key, job.devices) == ("a.R0", ("cuda:0", "cuda:1"))
    first, second = job.processes
    assert [first.key, second.key] == ["a.R0.D0", "a.R0.D1"]
    assert [first.run, second.run] == ["jobs/a.R0.D0", "jobs/a.R0.D1"]
    assert first.environment["CUDA_VISIBLE_DEVICES"] == "2"  # as this process may use it
    assert second.environment["CUDA_VISIBLE_DEVICES"] == "3"
    assert first.environment["OMP_NUM_THREADS"] == "4"
    assert program(first) == ["/x/train.py", "--lr", "0.1"]


def test_a_condition_about_the_job_holds_for_each_job_or_not():
    when = {
        "device_count == 1": {"argv": {"--a": 2}, "max_duration": 33},
        "out == 'x'": {"argv": {}},
    }
    made = planned(a={"when": when, "requires_capabilities": ["gpu_count == 2"]})
    first, _ = processes(made)
    assert program(first)[-2:] == ["--a", "2"] and first.timeout == 33
    made = planned(a={"when": when, "requires_capabilities": ["gpu_count == 3"]})
    assert [each.reason for each in made.left_out] == ["needs gpu_count == 3"]
    with pytest.raises(SuiteError, match="waits for what a job has, and sets plan"):
        planned(a={"when": {"device_count == 1": {"plan": {"n": 2}}}})


def test_shares_of_the_processor_see_no_accelerator():
    for process in processes(planned(a={})):
        assert process.environment["CUDA_VISIBLE_DEVICES"] == ""
        assert process.environment["OMP_NUM_THREADS"] == "2"


def test_binding_to_cores():
    made = planned(wish=PlanOptions("/r", pin=True), a={})
    assert [each.cores for each in processes(made)] == [(0, 1), (2, 3)]
    assert [each.cores for each in processes(planned(a={}))] == [(), ()]
    assert [each.cores for each in processes(planned(a={"plan": {"pin": True}}))] == [
        (0, 1),
        (2, 3),
    ]


@pytest.mark.parametrize(
    ("kind", "variables"),
    [
        ("cuda", {"CUDA_VISIBLE_DEVICES": "4,5", "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}),
        (
            "rocm",
            {
                "ROCR_VISIBLE_DEVICES": "4,5",
                "HIP_VISIBLE_DEVICES": None,
                "CUDA_VISIBLE_DEVICES": None,
            },
        ),
        ("xpu", {"ZE_AFFINITY_MASK": "4,5"}),
        ("cpu", {"CUDA_VISIBLE_DEVICES": "", "HIP_VISIBLE_DEVICES": "-1"}),
    ],
)
def test_what_shows_a_program_its_devices(kind, variables):
    assert visible_devices([PlanDevice(kind, 0, "4"), PlanDevice(kind, 1, "5")]) == variables


# --- njobs ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("run", "how"),
    [
        ("/x/train.py", ["/x/train.py"]),
        ("-m pkg.train", ["-m", "pkg.train"]),
        ("tool train", ["--no-python", "/env/bin/tool", "train"]),
    ],
)
def test_njobs_is_one_job_over_all_devices(run, how):
    [job] = planned(CUDA, a={"run": run, "argv": ["x"], "plan": {"method": "njobs", "n": 1}}).jobs
    [process] = job.processes
    assert process.devices == ("cuda:0", "cuda:1")
    assert process.environment["CUDA_VISIBLE_DEVICES"] == "2,3"
    assert process.environment["OMP_NUM_THREADS"] == "4"
    torchrun = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    assert program(process) == [*torchrun, *how, "x"]


def test_several_jobs_over_all_devices():
    [job] = planned(a={"plan": {"method": "njobs", "n": 3}}).jobs
    assert [each.key for each in job.processes] == ["a.R0.D0", "a.R0.D1", "a.R0.D2"]
    assert {each.devices for each in job.processes} == {("cpu:0", "cpu:1")}


# --- several machines -------------------------------------------------------------------------------

PAIR = replace(CUDA, count=2)


def test_per_gpu_on_several_machines_is_a_process_for_each_device_of_each():
    [job] = planned(PAIR, a={"num_machines": 2}).jobs
    assert job.machines == 2
    assert job.devices == ("cuda:0", "cuda:1", "cuda:0@1", "cuda:1@1")
    assert [each.machines for each in job.processes] == [(0,), (0,), (1,), (1,)]


def test_torchrun_on_each_of_several_machines():
    settings = {"num_machines": 2, "plan": {"method": "njobs"}, "argv": ["{device_count}"]}
    [process] = processes(planned(PAIR, a=settings))
    assert process.machines == (0, 1) and len(process.devices) == 4
    torchrun = "-m torch.distributed.run --nnodes 2 --nproc-per-node 2 --rdzv-backend c10d"
    assert program(process) == [*torchrun.split(), "/x/train.py", "4"]


@pytest.mark.parametrize("launcher", ["accelerate", "deepspeed"])
def test_launchers_of_frameworks_on_several_machines_are_torchrun(launcher):
    job = {"num_machines": 2, "plan": {"method": "njobs"}}
    [usual] = processes(planned(PAIR, a=job))
    [process] = processes(
        planned(PAIR, a={**job, "plan": {"method": "njobs", "launcher": launcher}})
    )
    assert program(process) == program(usual)


@pytest.mark.parametrize(("there", "say"), [(CUDA, "this is one"), (PAIR, "there are 2")])
def test_more_machines_than_there_are(there, say):
    [left_out] = planned(there, a={"num_machines": 3}).left_out
    assert left_out.reason == f"needs 3 machines; {say}"


# --- particular devices -----------------------------------------------------------------------------

FOUR = Machine(
    tuple(PlanDevice("cuda", n, str(n + 4)) for n in range(4)), tuple(range(8)), 8, 1 << 30, "there"
)


def test_per_gpu_on_particular_devices():
    first, second = processes(planned(FOUR, a={"plan": {"devices": [0, 2]}}))
    assert (first.devices, second.devices) == (("cuda:0",), ("cuda:2",))
    assert [each.environment["CUDA_VISIBLE_DEVICES"] for each in (first, second)] == ["4", "6"]


def test_a_job_over_particular_devices_has_them_in_their_order():
    plan = {"method": "njobs", "n": 2, "devices": [3, 1]}
    argv = {"--n": "{device_count}"}
    for process in processes(planned(FOUR, a={"plan": plan, "argv": argv})):
        assert process.devices == ("cuda:3", "cuda:1")
        assert process.environment["CUDA_VISIBLE_DEVICES"] == "7,5"
        assert program(process)[-2:] == ["--n", "2"]
        assert "--nproc-per-node 2" in " ".join(program(process))


def test_a_device_has_the_number_that_the_option_gives_it():
    machine = Machine(FOUR.devices[2:], FOUR.cores, 8, 1 << 30, "there")  # --devices cuda:2,3
    [process] = processes(planned(machine, a={"plan": {"devices": [3]}}))
    assert process.devices == ("cuda:3",)


def test_particular_devices_that_the_machine_lacks_or_that_stand_twice():
    with pytest.raises(SuiteError) as raised:
        planned(CUDA, a={"plan": {"devices": [1, 5, 1, 7]}}, b={"plan": {"devices": [2]}})
    assert [(each.where.key, each.text) for each in raised.value.problems] == [
        ("a", "device 1 stands 2 times"),
        ("a", "there is no device 5, 7; there is cuda:0, cuda:1"),
        ("b", "there is no device 2; there is cuda:0, cuda:1"),
    ]


@pytest.mark.parametrize(
    ("machine", "launcher", "words"),
    [
        (CUDA, "none", ["/x/train.py"]),
        (CUDA, "accelerate", ["-m", "accelerate.commands.launch"]),
        (CPU, "accelerate", ["-m", "torch.distributed.run"]),
        (CUDA, "deepspeed", ["-m", "deepspeed.launcher.runner", "--num_gpus", "2", "/x/train.py"]),
        (CUDA, "tune run --fast", ["/env/bin/tune", "run", "--fast", "/x/train.py"]),
        (CUDA, "-m tune.cli run", ["-m", "tune.cli", "run", "/x/train.py"]),
    ],
)
def test_launchers_of_frameworks(machine, launcher, words):
    [process] = processes(planned(machine, a={"plan": {"method": "njobs", "launcher": launcher}}))
    assert program(process)[: len(words)] == words
    assert program(process)[-1] == "/x/train.py"


def test_milabenchs_classes_say_where_they_want_a_launcher(tmp_path):
    (tmp_path / "benchfile.py").write_text("")
    made = planned(a={"definition": str(tmp_path), "plan": {"method": "njobs"}})
    assert program(processes(made)[0]) == ["/x/train.py"]


def test_a_launcher_that_no_one_knows():
    with pytest.raises(SuiteError, match=r"'torchrn'; did you mean torchrun\?"):
        planned(a={"plan": {"method": "njobs", "launcher": "torchrn"}})


@pytest.mark.parametrize("launcher", ["srun -n 4", "horovodrun -np 4", "deepspeed --num_gpus 2"])
def test_launchers_that_start_ranks_elsewhere_by_themselves(launcher):
    job = {"plan": {"method": "njobs", "launcher": launcher}, "num_machines": 2}
    with pytest.raises(
        SuiteError, match=f"{launcher} would start a job of its own on each of 2 machines"
    ):
        planned(PAIR, a=job)
    [process] = processes(planned(CUDA, a={**job, "num_machines": 1}))
    assert program(process)[-1] == "/x/train.py"


MPI_PAIR = replace(PAIR, engine={"name": "ssh"})


@pytest.mark.parametrize(
    ("launcher", "words"),
    [
        ("mpirun", "mpirun -n {} /env/bin/python /x/train.py"),
        ("mpiexec.hydra", "mpiexec.hydra -n {} /env/bin/python /x/train.py"),
        ("/mpi/mpirun --bind-to core", "/mpi/mpirun --bind-to core /env/bin/python /x/train.py"),
    ],
)
def test_mpirun_starts_the_ranks_of_one_machine_or_of_several(launcher, words):
    job = {"plan": {"method": "njobs", "launcher": launcher}}
    [process] = processes(planned(MPI_PAIR, a=job))
    assert program(process) == words.format(2).split()
    [process] = processes(planned(MPI_PAIR, a={**job, "num_machines": 2}))
    start = ["/env/bin/python", "-I", "-S", command_lines.MPI_START, "2", "2"]
    assert program(process) == [*start, *words.format(4).split()]
    assert os.path.isfile(command_lines.MPI_START)


@pytest.mark.parametrize("run", ["-m pkg.mod", "compiled"])
def test_what_mpirun_starts(run):
    job = {"plan": {"method": "njobs", "launcher": "mpirun"}, "run": run}
    [process] = processes(planned(MPI_PAIR, a=job))
    whole = {"-m pkg.mod": "/env/bin/python -m pkg.mod", "compiled": "/env/bin/compiled"}[run]
    assert program(process) == ["mpirun", "-n", "2", *whole.split()]


def test_mpirun_that_is_not_there(monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    job = {"plan": {"method": "njobs", "launcher": "mpirun"}}
    with pytest.raises(SuiteError, match="no command mpirun in the environment, nor on the PATH"):
        planned(CUDA, replace(GROUND, has=lambda path: "/" in path), a=job)
    planned(MPI_PAIR, replace(GROUND, has=lambda path: "/" in path), a=job)  # it runs elsewhere


def test_mpirun_in_containers_on_several_machines():
    job = {"plan": {"method": "njobs", "launcher": "mpirun"}, "num_machines": 2}
    ground = replace(GROUND, container=lambda settings: ["--container", "image"])
    with pytest.raises(
        SuiteError, match="mpirun starts no ranks in containers on several machines"
    ):
        planned(MPI_PAIR, ground, a=job)


# --- words ------------------------------------------------------------------------------------------


def test_options_of_inject_run():
    options = {"stop": 60, "skip": 5, "interval": "1s", "max_duration": 30, "grace": 1}
    [process, _] = processes(planned(a={"voir": {"options": options}, "max_duration": 90}))
    words = own_options(process)
    assert words[0] == "/base/runs/x/jobs/a.R0.D0"
    assert words[1:4] == ["--name", "a", "--quiet"]
    assert words[4:6] == ["--timeout", "90"]
    assert words[6:] == [
        *("--stop", "60", "--skip", "5", "--interval", "1s", "--max-duration", "30", "--grace", "1")
    ]


def test_options_of_milabench_and_of_voirfiles():
    options = {"gpu_poll": 0.1, "interval": "1s", "batch_size": 4, "dash": True, "log": False}
    settings = {"voir": {"options": {**options, "none": None}}, "voirfile": __file__}
    [process, _] = processes(planned(a=settings))
    assert own_options(process)[8:] == [
        *("--gpu-poll", "0.1", "--interval", "1s", "--batch-size", "4", "--dash", "--no-log")
    ]


def test_an_option_that_is_a_mapping():
    with pytest.raises(SuiteError, match="not a mapping"):
        planned(a={"voir": {"options": {"x": {"y": 1}}}})


@pytest.mark.parametrize(
    ("option", "value", "says"),
    [
        ("phase", "inferenz", "phase is training or inference, not 'inferenz'"),
        ("stop", -3, "stop is a number of steps, not '-3'"),
        ("stop", "{1 +}", "stop is a number of steps, not '{1 +}'"),
        ("stop", [[{"a": 1}]], "stop is a number of steps, not \"[[{'a': 1}]]\""),
        ("max_duration", "soon", "max_duration is a time above 0"),
        ("price", "much", "price is what an hour costs"),
        ("layers", True, "layers takes one value, not true"),
        ("tag", ["a=1", "b=2"], "tag takes one value, not a list"),
        ("strict", 1, "strict is true, or is left out; it takes no value"),
        ("quiet", False, "quiet is true, or is left out"),
    ],
)
def test_a_value_that_inject_run_refuses_is_named_before_anything_runs(option, value, says):
    with pytest.raises(SuiteError, match=re.escape(says)):
        planned(a={"voir": {"options": {option: value}}})
    # A voirfile may have an option of this name, whose values nothing knows before it is loaded.
    planned(a={"voir": {"options": {option: value}}, "voirfile": "/elsewhere/x.py"})


def test_variables_that_all_processes_have_are_shown_once():
    plan = planned(a={"env": {"A": 1, "B": 2}}, b={"env": {"A": 1, "B": 3}})
    lines = [line.strip() for line in plan_lines(plan, None)]
    assert lines.count("env of all  A=1") == 1 and "env  A=1" not in lines
    assert "env  B=2" in lines and "env  B=3" in lines and "env of all  B=2" not in lines
    alone = planned(a={"env": {"A": 1}, "plan": {"devices": 1}})
    assert "    env  A=1" in plan_lines(alone, None)


def test_an_option_that_nothing_declares_is_a_mistake_of_the_suite(tmp_path, monkeypatch):
    script = tmp_path / "train.py"
    script.write_text("")
    real = replace(GROUND, python=sys.executable, has=os.path.exists)
    settings = {"run": str(script), "voir": {"options": {"stopp": 3, "strict": True}}}
    says = re.escape("inject run has no option --stopp, and no voirfile")
    with pytest.raises(SuiteError, match=says + ".*did you mean stop") as raised:
        planned(ground=real, a=settings)
    assert len(raised.value.problems) == 1
    with pytest.raises(SuiteError, match="no option --into"):
        planned(ground=real, a={**settings, "voir": {"options": {"into": "x"}}})
    with pytest.raises(SuiteError, match=says):
        planned(ground=real, a={**settings, "voirfile": "auto"})
    # Each of these may be a voirfile that declares it.
    planned(ground=real, a={**settings, "voirfile": __file__})
    planned(ground=real, a={**settings, "env": {"VOIRFILE": "x.py"}})
    beside = tmp_path / "voirfile.py"
    beside.write_text("")
    planned(ground=real, a=settings)
    planned(ground=real, a={**settings, "run": "-m launcher train.py", "folder": str(tmp_path)})
    beside.unlink()
    monkeypatch.setenv("VOIRFILE", "x.py")
    planned(ground=real, a=settings)


def test_voirfiles(tmp_path):
    definition = tmp_path / "definition"
    definition.mkdir()
    (definition / "voirfile.py").write_text("")
    (definition / "main.py").write_text("")
    own = {"run": "main.py", "definition": str(definition)}
    [process, _] = processes(planned(a=own))
    assert own_options(process)[-2:] == ["--voirfile", str(definition / "voirfile.py")]
    assert program(process) == [str(definition / "main.py")]
    [process, _] = processes(planned(a={**own, "voirfile": ["auto", "/elsewhere/x.py"]}))
    assert own_options(process)[-4:] == ["--voirfile", "auto", "--voirfile", "/elsewhere/x.py"]


def test_a_program_that_no_one_names():
    with pytest.raises(SuiteError, match="nothing to run"):
        planned(a={"run": None})


def test_mistakes_of_all_benchmarks_at_once():
    with pytest.raises(SuiteError) as raised:
        planned(
            a={"run": None},
            b={"plan": {"method": "per_gp"}},
            c={"plan": {"method": "njobs", "n": 0}},
        )
    assert len(raised.value.problems) == 3
    assert "did you mean per_gpu?" in str(raised.value)


# --- surroundings -----------------------------------------------------------------------------------


def test_variables_of_the_benchmark_come_last():
    ground = Resources("/env/bin/python", {}, lambda settings: {"PATH": "/env/bin", "A": "theirs"})
    env = {"A": "own", "OMP_NUM_THREADS": 1, "FLAG": True, "GONE": None}
    [process, _] = processes(planned(ground=ground, a={"env": env}))
    found = process.environment
    assert (found["PATH"], found["A"], found["OMP_NUM_THREADS"]) == ("/env/bin", "own", "1")
    assert found["FLAG"] == "true"
    assert found.get("GONE") is None
    assert found["INJECT_SUITE_RUN"] == "/base/runs/x/jobs/a.R0.D0"


def test_where_a_program_runs():
    [own, _] = processes(planned(a={}))
    assert own.folder == "/base/runs/x/jobs/a.R0.D0/out"
    [source, _] = processes(planned(ground=Resources("/env/bin/python", folder="/source"), a={}))
    assert source.folder == "/source"
    [message, _] = processes(planned(a={"folder": "/there"}))
    assert message.folder == "/there"


def test_each_process_has_an_out_of_its_own():
    made = processes(planned(a={"argv": ["{out}/model"]}))
    assert [program(each)[-1] for each in made] == [
        "/base/runs/x/jobs/a.R0.D0/out/model",
        "/base/runs/x/jobs/a.R0.D1/out/model",
    ]


def test_what_it_will_take():
    wish = PlanOptions("/r", history={"a": 42.0, "c": 9_000.0})
    made = planned(wish=wish, a={"max_duration": 100}, b={"max_duration": 200}, c={})
    assert {job.benchmark: job.expected for job in made.jobs} == {"a": 42.0, "b": 200.0, "c": 600.0}


def test_left_out():
    made = planned(
        a={"enabled": False},
        b={"num_machines": 2},
        c={"requires_capabilities": ["gpu['count'] > 2"]},
        d={},
    )
    assert [job.benchmark for job in made.jobs] == ["d"]
    assert {each.benchmark: each.reason for each in made.left_out} == {
        "a": "not enabled",
        "b": "needs 2 machines; this is one",
        "c": "needs gpu['count'] > 2",
    }
    assert not any(each.failure for each in made.left_out)


def test_names_that_are_no_file_names():
    made = planned(**{"a/b": {}, "a_b": {}, "..": {}})
    runs = [each.run for each in processes(made)]
    assert len(set(runs)) == len(runs)
    assert all(run.count("/") == 1 and not run.startswith("jobs/.") for run in runs)


# --- the plan as a file -----------------------------------------------------------------------------


def test_a_plan_is_read_as_it_was_written():
    made = planned(CUDA, wish=PlanOptions("/r", repeat=2, pin=True), a={}, b={"enabled": False})
    assert Plan.of_json(json.loads(json.dumps(made.as_json()))) == made


def test_another_attempt_has_a_folder_of_its_own():
    made = planned(a={"argv": ["{out}/x", "/base/runs/x/jobs/a.R0.D10"]})
    process = made.jobs[0].processes[1].attempt(2, "/base/runs/x")
    assert process.run == "jobs/a.R0.D1.a2"
    assert "/base/runs/x/jobs/a.R0.D1.a2" in process.command
    assert process.environment["INJECT_SUITE_RUN"] == "/base/runs/x/jobs/a.R0.D1.a2"
    assert process.folder == "/base/runs/x/jobs/a.R0.D1.a2/out"
    assert program(process)[1:] == [
        "/base/runs/x/jobs/a.R0.D1.a2/out/x",
        "/base/runs/x/jobs/a.R0.D10",
    ]
    assert made.jobs[0].attempt(1, "/base/runs/x") == made.jobs[0]


benchmarks = st.fixed_dictionaries(
    {
        "argv": st.lists(st.text(alphabet="ab -=\"'é", max_size=6), max_size=3),
        "env": st.dictionaries(
            st.sampled_from("ABC"), st.text(alphabet="xy =\"'é", max_size=6), max_size=3
        ),
        "plan": st.one_of(
            st.just({"method": "per_gpu"}),
            st.just({"method": "per_gpu", "pin": True}),
            st.builds(
                lambda n, how: {"method": "njobs", "n": n, "launcher": how},
                st.integers(1, 2),
                st.sampled_from(["torchrun", "none"]),
            ),
        ),
        "voir": st.builds(
            lambda stop: {"options": {"stop": stop}}, st.one_of(st.none(), st.integers(1, 99))
        ),
        "weight": st.sampled_from([0.5, 1, 2]),
    }
)
suites_of = st.dictionaries(st.sampled_from(["a", "b-c", "d.e"]), benchmarks, min_size=1)


@given(suites_of, st.integers(1, 3), st.sampled_from([CPU, CUDA]))
def test_the_same_suite_gives_the_same_plan(benchmarks, repeat, machine):
    wish = PlanOptions("/r", repeat=repeat)
    once, again = (planned(machine, wish=wish, **benchmarks) for _ in range(2))
    assert once == again
    assert len(once.jobs) == repeat * len(benchmarks)
    keys = [each.key for each in processes(once)]
    assert len(keys) == len(set(keys))


RECORDER = """\
#!/bin/sh
exec {python} -c '
import json, os, sys
told = {{"command": sys.argv[1:], "environment": dict(os.environ), "folder": os.getcwd(),
        "cores": sorted(os.sched_getaffinity(0))}}
with open(os.environ["INJECT_SUITE_RUN"] + "/told.json", "x") as file:
    json.dump(told, file)
' "$0" "$@"
"""


@settings(
    max_examples=8, suppress_health_check=[HealthCheck.function_scoped_fixture], derandomize=True
)
@given(benchmarks=suites_of)
def test_a_run_starts_what_the_plan_says(suites, tmp_path, benchmarks):
    """A stand-in for the interpreter writes down what it was started with."""
    recorder = tmp_path / "python"
    recorder.write_text(RECORDER.format(python=sys.executable))
    recorder.chmod(recorder.stat().st_mode | stat.S_IXUSR)
    cores = tuple(sorted(os.sched_getaffinity(0)))
    machine = Machine(CPU.devices, cores, len(cores), 1 << 30, "here")
    folder = suites.base / "runs" / f"x.{len(suites.runs())}"
    folder.mkdir(parents=True)
    wish = PlanOptions(str(folder), options={"use_current_env": True})
    made = plan_suite(
        suite(**benchmarks), machine, str(suites.base), lambda each: Resources(str(recorder)), wish
    )
    write_plan(str(folder), made)
    done = suites.call("run", "--resume", folder)
    assert done.returncode == 1, done.stderr  # nothing was recorded in any of them
    for process in processes(made):
        told = json.loads((folder / process.run / "told.json").read_text())
        assert told["command"] == list(process.command)
        assert told["folder"] == process.folder
        assert told["cores"] == list(process.cores or cores)
        expected = {**suites.environ, **process.environment}
        kept = {name: value for name, value in expected.items() if value is not None}
        extra = set(told["environment"]) - set(kept)
        assert {name: told["environment"][name] for name in kept} == kept
        assert extra <= {"PWD", "SHLVL", "_", "OLDPWD", "LC_CTYPE"}  # a shell's own
    assert len(list((folder / "jobs").iterdir())) == len(processes(made))


def test_an_inject_run_that_hangs_is_ended_by_the_suite(suites, tmp_path):
    """A stand-in that keeps no time at all."""
    stubborn = tmp_path / "python"
    stubborn.write_text("#!/bin/sh\ntrap '' TERM INT\nsleep 3600 & wait; sleep 3600\n")
    stubborn.chmod(stubborn.stat().st_mode | stat.S_IXUSR)
    folder = suites.base / "runs" / "x"
    folder.mkdir(parents=True)
    made = planned(
        ground=Resources(str(stubborn)),
        wish=PlanOptions(str(folder), options={"use_current_env": True}),
        a={"max_duration": 0.2},
        b={"max_duration": 0.2},
    )
    write_plan(str(folder), made)
    program = (
        "from injector.suite.run import active_job; active_job.BACKSTOP = 0.2\n"
        f"from injector.cli import main; main(['suite', 'run', '--resume', {str(folder)!r}])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=suites.environ,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    for job in ("a.R0", "b.R0"):
        found = last(folder)[job]
        assert found["reason"].startswith("ended by its time limit"), done.stderr
        assert "inject run itself did not end, and was killed" in found["reason"]
        assert found["processes"][f"{job}.D1"]["timed_out"] is True
    assert nothing_left(folder)


def test_plan_shows_what_run_starts(suites):
    suite = suites.write(
        {
            **suites.counted("a"),
            "b": {
                "run": suites.program("none.py", ""),
                "plan": {"method": "njobs", "launcher": "none"},
            },
        }
    )
    shown = suites.call("plan", suite, "--json", "--repeat", 2, devices="cpu:2")
    assert shown.returncode == 0, shown.stderr
    assert not suites.base.exists()
    dry = suites.call("run", suite, "--dry-run", devices="cpu:2")
    assert "a.R0.D1  cpu:1" in dry.stdout
    assert not suites.base.exists()
    suites.call("run", suite, "--repeat", 2, devices="cpu:2")
    [run] = suites.runs()
    plan_suite = read_plan(run)
    assert plan_suite.pop("checksum")
    text = json.dumps(plan_suite).replace(str(run), f"{suites.base}/runs/suite.TIME")
    assert json.loads(text) == json.loads(shown.stdout)


def test_a_plan_for_people(suites):
    suite = suites.write(suites.counted("a", max_duration=90))
    shown = suites.call("plan", suite, "--pin", devices="cpu:1").stdout
    assert "a.R0  about 90 s, at most 90 s" in shown
    assert "env  CUDA_VISIBLE_DEVICES=''" in shown
    assert "-m injector run --into" in shown
    assert "bound to cores" in shown
    assert shown.splitlines()[-1] == "1 job, 1 process, about 90 s one after the other"


def test_what_it_took_before_is_what_it_is_expected_to_take(suites):
    suite = suites.write(suites.counted("a"))
    assert suites.call("run", suite).returncode == 0
    shown = json.loads(suites.call("plan", suite, "--json").stdout)
    [job] = shown["jobs"]
    assert 0 < job["processes"][0]["expected"] < 600


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--repeat", "0"], "at least 1"),
        (["--max-parallel", "0"], "at least 1"),
        (["--rerun", "onfail"], "add --resume"),
        (["--wait", "soon"], "--wait is a time"),
        (["--resume", "--repeat", "2"], "are those of the run"),
        (["--resume"], "there is no run"),
    ],
)
def test_options_that_make_no_sense_start_nothing(suites, words, message):
    suite = suites.write(suites.counted("a"))
    done = suites.call("run", suite, *words)
    assert done.returncode == 2
    assert message in done.stderr
    assert not suites.entries()
    assert not suites.runs()


def test_a_suite_with_mistakes_starts_nothing(suites):
    (suites.folder / "bad.yaml").write_text("a: {run: x.py, plan: {method: per_gp}}\n")
    done = suites.call("run", "bad.yaml")
    assert done.returncode == 2
    assert "bad.yaml:1" in done.stderr
    assert "per_gpu" in done.stderr
    assert not suites.runs()


PREPARE = "import os, sys; os.makedirs(os.environ['MILABENCH_DIR_DATA'], exist_ok=True)\n"


@pytest.mark.parametrize(
    "argument",
    [
        "{gpu_count}",
        *(
            pytest.param(text, marks=pytest.mark.release)
            for text in (
                *("auto({n_worker}, 8)", "{cpu_per_gpu}", "{n_worker}", "{device_count}", "{arch}"),
                *("{cpu_count * exp.size}", "{gpu.count}"),
            )
        ),
    ],
)
def test_data_prepared_for_one_machine_are_those_of_another(suites, argument):
    """Prepared beside one device; run on two, and once more from the plan that was kept."""
    suites.program("prepare.py", PREPARE)
    suite = suites.folder / "suite.yaml"
    told = {"a": {
        "run": suites.program("a.py", ""), "argv": {"--some": argument},
        "prepare": {"script": "prepare.py", "data": ".", "argv": [], "with_argv": True},
        "matrix": {"size": [1, 2]}, "validation": {"rate": False},
    }}  # fmt: skip
    job = {key: told["a"].pop(key) for key in ("run", "argv", "prepare", "validation")}
    told["a"]["job"] = job
    suite.write_text(yaml.safe_dump({"variables": {"exp": {"size": 3}}, **told}))
    done = suites.call("prepare", suite, devices=None)
    assert done.returncode == 0, done.stdout + done.stderr
    done = suites.call("run", suite, devices="cpu:2")
    assert done.returncode == 0, done.stderr
    done = suites.call("run", "--resume", "--rerun", "always")
    assert done.returncode == 0, done.stderr
    assert "[2/2]" in done.stderr


def test_other_arguments_of_a_prepare_step_are_other_data(suites):
    suites.program("prepare.py", PREPARE)
    step = {"script": "prepare.py", "argv": ["{data}", "--shards", "{gpu_count}", "{cpu_count}"]}
    suite = suites.write({"a": {"run": suites.program("a.py", ""), "prepare": step}})
    assert suites.call("prepare", suite, devices=None).returncode == 0
    done = suites.call("run", suite, devices="cpu:2")
    assert (done.returncode, "its data are not prepared" in done.stderr) == (1, True)


@pytest.mark.parametrize("verb", ["plan", "run"])
@pytest.mark.parametrize(
    "told", [{"run": "nope.py"}, {"run": "/nowhere/nope.py"}, {"run": "nope.py", "folder": "/tmp"}]
)
def test_a_script_that_is_not_there_is_reported_before_anything_starts(suites, verb, told):
    suite = suites.write({"fine": {"run": suites.program("a.py", "")}, "b": told})
    done = suites.call(verb, suite)
    assert done.returncode == 2
    assert "suite.yaml:" in done.stderr and "b.run: there is no file" in done.stderr
    assert "nope.py" in done.stderr and not suites.runs()


@pytest.mark.parametrize(
    ("told", "message"),
    [
        ({"voirfile": "nope.py"}, "b.voirfile: there is no file"),
        ({"voirfile": ["auto", "torhc"]}, "b.voirfile: there is no file"),
        ({"voirfile": "{gpu_count}"}, "b.voirfile: there is no file"),
        ({"run": "{gpu_count}"}, "b.run: there is no command 1 in"),
        ({"run": "nosuchcommand --x 1"}, "b.run: there is no command nosuchcommand in"),
        ({"run": "python nope.py"}, "b.run: there is no file nope.py"),
        ({"run": "/nowhere/command"}, "b.run: there is no"),
        ({"folder": "nowhere"}, "b.folder: there is no folder"),
        ({"folder": "a.py"}, "b.folder: there is no folder"),
        *[
            (
                {"plan": {"method": "njobs", "launcher": each}},
                "b.plan.launcher: there is no command",
            )
            for each in ("nosuchlauncher", "nosuchlauncher --fast 2", "/nowhere/launch", "./launch")
        ],
        *[
            (told, f"b.{key}: {{{name}}} is known once there are")
            for name in ("device_count", "out")
            for key, told in {
                "num_machines": {"num_machines": f"{{{name}}}"},
                **{
                    f"plan.{each}": {"plan": {each: f"{{{name}}}"}}
                    for each in ("method", "n", "devices")
                },
            }.items()
        ],
        ({"num_machines": "auto(1, 2)"}, "b.num_machines: auto(1, 2) is known once there are"),
        # Texts may be numbers.
        ({"voirfile": [3]}, "b.voirfile: there is no file"),
        ({"prepare": 0.5}, "b.prepare: there is no file"),
        ({"plan": {"method": "njobs", "launcher": "env"}}, "env, if its whole path is given"),
        ({"plan": {"method": "njobs", "launcher": "tune"}}, "b.plan.launcher: tune starts"),
        (
            {"plan": {"method": "njobs", "launcher": "torchrun '--x"}},
            "no closing quotation in torch",
        ),
        ({"run": "a.py '--x"}, "b.run: is no command line: no closing quotation in a.py '--x"),
        ({"max_duration": float("inf")}, "b.max_duration: should be a finite number"),
        ({"env": {"A=B": 1}}, "b.env.A=B: 'A=B' is no name of a variable"),
        ({"argv": ["x\0y"]}, "b.argv.0: a text cannot have the character \\0"),
    ],
)
def test_nothing_else_that_a_benchmark_names_may_be_missing(suites, told, message):
    suite = suites.write({"b": {"run": suites.program("a.py", ""), **told}})
    done = suites.call("plan", suite)
    assert (done.returncode, message in done.stderr) == (2, True), done.stderr


def test_commands_of_an_environment_that_is_still_to_be_made_may_be_missing(suites):
    """Once it is made, and as long as there is one, what it lacks is a mistake of the suite."""
    plan = {"method": "njobs", "launcher": "launch --fast"}
    suite = suites.write({"b": {"run": suites.program("a.py", ""), "plan": plan}})
    words = [word for word in suites.words("plan", suite) if word != "--use-current-env"]
    how = {"cwd": suites.folder, "env": suites.environ, "capture_output": True, "text": True}
    done = subprocess.run(words, **how)
    why = "would not start yet: b: the environment b is not installed"
    assert done.returncode == 0 and why in done.stdout
    made = suites.folder / "base/venv/b/bin"
    made.mkdir(parents=True)
    (made / "python").symlink_to(sys.executable)
    done = subprocess.run(words, **how)
    assert (done.returncode, "b.plan.launcher: there is no command launch" in done.stderr) == (
        2,
        True,
    )


def test_a_folder_is_relative_to_the_file_that_names_it(suites, tmp_path):
    (suites.folder / "below").mkdir()
    suite = suites.write({"b": {"run": suites.program("a.py", ""), "folder": "below"}})
    done = suites.call("plan", suite, "--json")
    assert done.returncode == 0, done.stderr
    [job] = json.loads(done.stdout)["jobs"]
    assert job["processes"][0]["folder"] == str(suites.folder / "below")


@pytest.mark.parametrize("verb", ["plan", "run"])
def test_a_device_that_the_machine_lacks_is_reported_with_file_line_and_key(suites, verb):
    suites.program("a.py", "")
    suite = suites.folder / "suite.yaml"
    suite.write_text("fine: {run: a.py}\nb:\n  run: a.py\n  plan:\n    devices: [1, 4]\n")
    done = suites.call(verb, suite, devices="cpu:2")
    assert done.returncode == 2
    assert (
        "suite.yaml:5: b.plan.devices: there is no device 4; there is cpu:0, cpu:1" in done.stderr
    )
    assert not suites.runs()


def test_a_script_that_is_still_to_be_fetched_or_made_may_be_missing(suites):
    suites.program("prepare.py", PREPARE)
    suite = suites.write({
        "git": {"run": "train.py", "origin": {"git": "https://example.org/a.git", "commit": "0" * 40}},
        "made": {"run": "{data}/train.py", "prepare": "prepare.py"},
    })  # fmt: skip
    done = suites.call("plan", suite)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("origin", [{}, {"branch": "main"}, {"commit": "abc1234"}])
def test_a_source_without_a_whole_commit_is_a_mistake_before_anything_starts(suites, origin):
    suites.program("a.py", "")
    given = {"git": "./nowhere", **origin}
    suite = suites.write({"fine": {"run": "a.py"}, "moves": {"run": "a.py", "origin": given}})
    done = suites.call("run", suite)
    assert done.returncode == 2
    assert "moves.origin" in done.stderr and "cannot be compared" in done.stderr
    assert not suites.runs()


def test_a_plan_of_one_benchmark_can_be_pinned(suites):
    run = suites.program("a.py", "")
    suite = suites.write({"a": {"run": run, "plan": {"pin": True}}, "b": {"run": run}})
    shown = json.loads(suites.call("plan", suite, "--json", devices="cpu:1").stdout)
    cores = {job["benchmark"]: job["processes"][0]["cores"] for job in shown["jobs"]}
    assert cores["a"] and not cores["b"]


def test_torchtune_takes_the_ranks_and_then_the_recipe():
    program = command_lines.ProgramCommand(
        "module", "torchtune._cli.tune", ("run", "recipe.py", "--config", "c")
    )
    assert command_lines.LAUNCHERS["tune"](program, command_lines.Ranks(4, 1, "cuda")) == [
        "-m", "torchtune._cli.tune", "run", "--standalone", "--nproc-per-node", "4",
        "recipe.py", "--config", "c",
    ]  # fmt: skip
