"""What a suite comes to on a Ray cluster, and the parts of its engine that need none."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest
from suite_runs import made_suite, until

from injector.errors import UserError
from injector.suite.environments.setup import Resources
from injector.suite.plan.jobs import PlanOptions
from injector.suite.plan.planner import plan_suite
from injector.suite.run import file_copy, ray_client, ray_engine
from injector.suite.run.ray_node import RayPart
from injector.suite.run.ray_program import bundle_of as program_bundle

GROUND = Resources("/env/bin/python", {"data": "/base/data"})


def node(name, cpus=8, gpus=0, names=(), **resources):
    """As the process that talks to Ray describes one."""
    there = {"CPU": float(cpus), "memory": 1e9, **resources} | (
        {"GPU": float(gpus)} if gpus else {}
    )
    return {
        "name": name,
        "id": name,
        "resources": there,
        "cpus": cpus,
        "memory": 64 << 30,
        "gpus": names,
    }


@pytest.fixture
def cluster(monkeypatch):
    """The nodes of a cluster that answers."""
    nodes = []
    found = {"nodes": nodes, "address": "10.0.0.1:6379"}
    monkeypatch.setattr(ray_client, "cluster", lambda address: found)
    return nodes


def planned(options=None, devices=None, **benchmarks):
    machine = ray_engine.machine_of(options or {}, devices)
    ground = PlanOptions("/base/runs/x")
    made = plan_suite(made_suite(**benchmarks), machine, "/base", lambda each: GROUND, ground)
    ray_engine.check(made)
    return made


def test_the_least_of_the_nodes_that_have_gpus_counts(cluster):
    card = ("NVIDIA A100", 80 << 30)
    cluster += [node("head", 64), node("a", 32, 2, [card] * 2), node("b", 16, 4, [card] * 4)]
    machine = ray_engine.machine_of({}, None)
    assert (machine.count, machine.cpu_count, machine.host) == (2, 16, "a, b")
    assert [(each.key, each.name, each.memory) for each in machine.devices] == [
        ("cuda:0", *card), ("cuda:1", *card),
    ]  # fmt: skip
    assert machine.engine["address"] == "10.0.0.1:6379"


def test_gpus_that_ray_was_only_told_of_have_no_names(cluster):
    cluster += [node("a", gpus=2)]
    assert [each.name for each in ray_engine.machine_of({}, None).devices] == ["", ""]


def test_nodes_without_a_resource_that_devices_need_are_not_counted(cluster):
    cluster += [node("a", 4, TPU=4.0), node("b", 2), node("c", 8, TPU=2.0)]
    machine = ray_engine.machine_of({"resources": {"TPU": 1}}, "cpu:2")
    assert (machine.host, machine.count, machine.cpu_count) == ("a, c", 2, 4)


@pytest.mark.parametrize(
    ("options", "bundle"),
    [
        ({}, {"CPU": 4, "GPU": 2}),
        ({"cpus": 1}, {"CPU": 2, "GPU": 2}),
        ({"gpus": 0}, {"CPU": 4}),
        ({"gpus": 0.5, "resources": {"disk": 2}}, {"CPU": 4, "GPU": 1, "disk": 4}),
    ],
)
def test_what_a_job_asks_ray_for(cluster, options, bundle):
    cluster += [node("a", 8, 4, disk=4.0)]
    made = planned(options, half={"plan": {"method": "per_gpu", "devices": 2}})
    assert ray_engine.bundle_of(made.jobs[0], made.machine) == bundle


def test_a_number_of_a_device_counts_those_that_ray_gives(cluster):
    cluster += [node("a", 8, 4)]
    made = planned(one={"plan": {"method": "per_gpu", "devices": [2]}})
    assert ray_engine.bundle_of(made.jobs[0], made.machine) == {"CPU": 2, "GPU": 3}


def test_a_job_over_several_nodes_asks_for_the_same_of_each(cluster):
    cluster += [node("a", 8, 2), node("b", 8, 2)]
    made = planned(wide={"num_machines": 2})
    assert [each.machines for each in made.jobs[0].processes] == [(0,), (0,), (1,), (1,)]
    assert ray_engine.bundle_of(made.jobs[0], made.machine) == {"CPU": 8, "GPU": 2}


@pytest.mark.parametrize(
    ("options", "devices", "message"),
    [
        ({"adress": "auto"}, None, "system.ray: no key 'adress'; there is address, cpus"),
        ({"cpus": "two"}, None, "system.ray.cpus: numbers of at least 0, not 'two'"),
        ({"resources": 1}, None, r"system.ray.resources: a map such as \{TPU: 1\}"),
        ({"resources": {"TPU": -1}}, None, "system.ray.resources: numbers of at least 0"),
        ({"resources": {"TPU": 1}}, None, "the suite needs 1 TPU on a node of Ray; none has more"),
        ({}, "cuda:0,5", "a node has 2 GPUs, counted from 0"),
        ({"cpus": 5}, None, "x.R0 needs 10 CPU on a node of Ray; none has more than 8"),
        ({"cpus": 4, "gpus": 1, "resources": {"x": 1}}, None, "x.R0 needs 2 nodes of Ray with 8"),
        ({"cpus": 0, "gpus": 0}, None, "x.R0 asks Ray for nothing"),
    ],
)
def test_what_the_cluster_does_not_have_is_a_mistake(cluster, options, devices, message):
    cluster += [node("a", 8, 2, x=4.0), node("b", 8, 2, x=1.0), node("c", 2, 2, x=1.0)]
    wide = options.get("resources") == {"x": 1}
    with pytest.raises(UserError, match=message):
        planned(options, devices, x={"num_machines": 2 if wide else 1})


def test_a_cluster_without_nodes_for_jobs(cluster):
    with pytest.raises(UserError, match=r"cluster at 10\.0\.0\.1:6379 has no node with cores"):
        ray_engine.machine_of({}, None)


def test_where_no_cluster_runs_this_machine_is_planned_for(monkeypatch):
    nothing = {"nodes": [], "address": ray_engine.LOCAL}
    monkeypatch.setattr(ray_client, "cluster", lambda address: nothing)
    machine = ray_engine.machine_of({}, "cpu:2")
    assert [each.key for each in machine.devices] == ["cpu:0", "cpu:1"]
    assert machine.engine["nodes"][0]["resources"] == {"CPU": machine.cpu_count, "GPU": 0}


WITHOUT = "import sys; sys.modules['ray'] = None; from injector.cli import main; sys.exit(main())"


@pytest.mark.parametrize("verb", [["suite", "run", "suite.yaml"], ["run", "counted.py"]])
def test_without_ray_it_is_named_what_to_install(suites, verb):
    suites.write(suites.counted("a"))
    words = [sys.executable, "-c", WITHOUT, *verb[:-1], "--engine", "ray", verb[-1]]
    done = subprocess.run(
        words, cwd=suites.folder, env=suites.environ, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 2, done.stderr
    assert "Ray is not installed here: pip install 'overlay-injector[ray]'" in done.stderr
    assert not list(suites.folder.glob(".inject/suite/runs/*"))


@pytest.mark.parametrize(
    ("options", "bundle"),
    [({}, {"CPU": 1}), ({"gpus": "2", "cpus": "0", "resources.TPU": "1"}, {"GPU": 2, "TPU": 1})],
)
def test_what_one_program_asks_ray_for(options, bundle):
    assert program_bundle({"address": "auto", **options}) == bundle


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        (
            "gpu",
            "1",
            "--engine-option gpu: of ray there are address, cpus, gpus and resources.NAME",
        ),
        ("gpus", "all", "--engine-option gpus: a number of at least 0, not 'all'"),
        ("cpus", True, "--engine-option cpus: a number of at least 0, not True"),
    ],
)
def test_mistakes_in_the_options_of_one_program(name, text, message):
    with pytest.raises(UserError, match=message):
        program_bundle({name: text})


# --- files -------------------------------------------------------------------------------------------


def moved(pieces, old, new):
    return [each._replace(path=each.path.replace(str(old), str(new))) for each in pieces]


def test_files_arrive_as_they_are(tmp_path, monkeypatch):
    monkeypatch.setattr(file_copy, "PIECE", 10)
    here, there = tmp_path / "here", tmp_path / "there"
    (here / "empty").mkdir(parents=True)
    (here / "none").touch()
    (here / "large").write_bytes(bytes(range(35)))
    (here / "runs.sh").write_text("#!/bin/sh\n")
    (here / "runs.sh").chmod(0o755)
    (here / "link").symlink_to("large")
    (here / "cache").mkdir()
    (here / "cache/x.pyc").touch()
    ours = file_copy.entries([str(here)], ["cache"])
    theirs = {path.replace(str(here), str(there)): entry for path, entry in ours.items()}
    assert len(file_copy.lacking(theirs)) == len(ours) == 6
    for batch in file_copy.batches(ours):
        assert sum(len(each.data) for each in file_copy.read(batch)) <= 10
        file_copy.write(moved(file_copy.read(batch), here, there))
    assert file_copy.lacking(theirs) == []
    assert (there / "large").read_bytes() == bytes(range(35))
    assert os.access(there / "runs.sh", os.X_OK) and os.readlink(there / "link") == "large"
    assert sorted(each.name for each in there.iterdir()) == [
        *("empty", "large", "link", "none", "runs.sh"),
    ]


def test_only_what_has_changed_is_copied(tmp_path):
    for name in "ab":
        (tmp_path / name).write_text(name)
    wanted = file_copy.entries([str(tmp_path)])
    (tmp_path / "b").write_text("other")
    assert file_copy.lacking(wanted) == [str(tmp_path / "b")]
    assert file_copy.lacking(file_copy.entries([str(tmp_path)])) == []


def test_a_file_that_goes_while_it_is_copied_is_left_out(tmp_path):
    (tmp_path / "a").write_text("a")
    wanted = file_copy.entries([str(tmp_path / "a"), str(tmp_path / "never")])
    (tmp_path / "a").unlink()
    [batch] = file_copy.batches(wanted)
    assert file_copy.read(batch) == []


# --- a part in its worker ----------------------------------------------------------------------------


def started(tmp_path, text, output=None):
    part = RayPart()
    part.start([sys.executable, "-c", text], str(tmp_path / "part"), output, {"MINE": "1"}, {})
    return part


def test_a_part_keeps_its_output_in_a_file(tmp_path):
    part = started(tmp_path, "import os; print(os.environ['MINE']); os._exit(4)", "output")
    assert part.wait() == 4 and part.output() is None
    assert (tmp_path / "part/output").read_text() in ("", "1\n")


def test_what_a_part_prints_can_be_asked_for(tmp_path):
    part = started(tmp_path, "import sys; print('out'); print('err', file=sys.stderr)")
    found = {1: b"", 2: b""}
    while (pieces := part.output()) is not None:
        for number, data in pieces:
            found[number] += data
    assert found == {1: b"out\n", 2: b"err\n"} and part.wait() == 0


def test_a_part_without_its_command_says_so(tmp_path):
    part = RayPart()
    part.start(["/no/python"], str(tmp_path), "output", {}, {})
    with pytest.raises(FileNotFoundError, match="/no/python"):
        part.wait()


def test_a_signal_reaches_a_part(tmp_path):
    part = started(tmp_path, "import time; time.sleep(600)", "output")
    part.signal(signal.SIGTERM)
    assert part.wait() == -signal.SIGTERM
    part.signal(signal.SIGTERM)  # and does no harm afterwards


WORKER = """
import os, sys
from injector.suite.run.ray_node import RayPart
part = RayPart()
text = "import signal, time; signal.signal(15, lambda *a: (open('ended', 'w'), exit()))"
text += "; print(); time.sleep(600)"
part.start([sys.executable, "-uc", text], sys.argv[1], None, {}, {})
while not part.output():
    pass
print(part._process.pid, flush=True)
os.kill(os.getpid(), 9)
"""


def test_a_part_ends_politely_when_its_worker_is_killed(tmp_path):
    words = [sys.executable, "-c", WORKER, str(tmp_path)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60)
    assert done.returncode == -signal.SIGKILL, done.stderr
    until((tmp_path / "ended").exists, "its end")


def test_a_part_has_the_variables_of_its_node(tmp_path, monkeypatch):
    monkeypatch.setenv("RAY_JOB_ID", "1")
    monkeypatch.setenv("PYTHONBREAKPOINT", "ray.util.rpdb.set_trace")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3")
    text = "import os; print(*(os.environ.get(n) for n in {}))".format(
        ("RAY_JOB_ID", "PYTHONBREAKPOINT", "CUDA_VISIBLE_DEVICES")
    )
    part = started(tmp_path, text, "output")
    assert part.wait() == 0
    assert (tmp_path / "part/output").read_text() == "None None 3\n"


def test_a_part_writes_what_its_node_does_not_see(tmp_path):
    plan, lines = tmp_path / "x/plan.json", tmp_path / "x/journal.jsonl"
    there, journal = str(plan), str(lines)
    sees = RayPart().prepare(str(tmp_path), {there: b"{}"}, {journal: "line\n"}, 2)
    assert sees["shared"] and len(set(sees["ports"])) == 2 and not os.path.exists(there)
    for _ in range(2):
        found = RayPart().prepare(str(tmp_path / "no"), {there: b"{}"}, {journal: "line\n"}, 0)
        assert found == {"shared": False, "ports": []}
    assert plan.read_text() == "{}" and lines.read_text() == "line\n" * 2
