"""Devices: what is in the way of a job, and who is told to hold them."""

from __future__ import annotations

import json
import os

import pytest
from suite_runs import PATIENCE, last, nothing_left, until

from injector.suite.plan.machine import find_machine
from injector.suite.run.local_engine import DeviceLocks, release

FREE = {"load": 0.0, "memory_used": 600 << 20, "memory_total": 80 << 30, "processes": {}}


def scripted(folder, *samples_of_each):
    """Devices as a machine without any pretends to have them; the environment that says so."""
    path = folder / "devices.json"
    told = [
        {"name": "Stand-in", "uuid": f"GPU-{n}", "samples": samples}
        for n, samples in enumerate(samples_of_each)
    ]
    path.write_text(json.dumps(told))
    return {"INJECT_SCRIPTED_DEVICES": str(path)}


def devices(tmp_path, *samples):
    environ = scripted(tmp_path, *samples)
    found = find_machine("all", environ)
    return DeviceLocks(found.described(), str(tmp_path / "locks"), environ)


def test_nothing_is_in_the_way_of_idle_devices(tmp_path):
    assert devices(tmp_path, [FREE], [FREE]).obstacles(["cuda:0", "cuda:1"]) == []


def test_nothing_is_ever_in_the_way_of_shares_of_the_processor(tmp_path):
    found = DeviceLocks(find_machine("cpu:2").described(), str(tmp_path / "locks"))
    assert found.obstacles(["cpu:0", "cpu:1"]) == []
    assert found.take(["cpu:0"], {}) == []
    assert not (tmp_path / "locks").exists()


def test_who_holds_a_device_is_named(tmp_path):
    held = {**FREE, "processes": {str(os.getpid()): 5_000_000_000}}
    [text] = devices(tmp_path, [held], [FREE]).obstacles(["cuda:0", "cuda:1"])
    assert text.startswith(f"cuda:0 is held by process {os.getpid()} (")
    assert "python" in text and "5.0 GB" in text


def test_a_process_that_cannot_be_seen_is_named_by_its_number(tmp_path):
    held = {**FREE, "processes": {"4194999": 1}}
    [text] = devices(tmp_path, [held]).obstacles(["cuda:0"])
    assert "process 4194999 (not to be seen from here)" in text


def test_memory_that_no_one_seems_to_use(tmp_path):
    held = {**FREE, "memory_used": 20_000_000_000}
    [text] = devices(tmp_path, [held]).obstacles(["cuda:0"])
    assert text == "20.0 GB of cuda:0's memory are used by a process that cannot be seen from here"


def test_a_device_that_works(tmp_path):
    [text] = devices(tmp_path, [{**FREE, "load": 0.9}]).obstacles(["cuda:0"])
    assert text == "cuda:0 is busy (90% load)"


def test_one_job_at_a_time_has_a_device(tmp_path):
    first, second = devices(tmp_path, [FREE], [FREE]), devices(tmp_path, [FREE], [FREE])
    held = first.take(["cuda:0"], {"job": "a.R0", "run": "/there"})
    assert len(held) == 1
    assert second.take(["cuda:1", "cuda:0"], {}) == "cuda:0 is used by the job a.R0 of /there"
    other = second.take(["cuda:1"], {"job": "b.R0", "run": "/here"})
    release(held)
    release(other)
    assert len(second.take(["cuda:1", "cuda:0"], {})) == 2


@pytest.fixture
def pretending(suites):
    """A suite on a machine with one device, told sample by sample."""

    def start(*samples):
        suites.environ |= scripted(suites.folder, list(samples))
        return suites

    return start


def test_a_job_waits_for_its_device(pretending):
    held = {**FREE, "processes": {"1": 1 << 30}}
    suites = pretending(held, held, FREE)
    done = suites.call("run", suites.write(suites.counted("a")), devices="all")
    assert done.returncode == 0, done.stderr
    assert "a.R0 waits: cuda:0 is held by process 1 (" in done.stderr


def test_a_job_that_waited_in_vain_is_a_failure_that_names_the_holder(pretending):
    suites = pretending({**FREE, "processes": {"1": 1 << 30}})
    suite = suites.write(suites.counted("a", "b"))
    done = suites.call("run", suite, "--wait", "100ms", devices="all")
    assert done.returncode == 1
    for job in ("a.R0", "b.R0"):
        found = last(suites.run())[job]
        assert found["state"] == "failed-to-start"
        assert found["reason"].startswith("cuda:0 is held by process 1 (")
        assert found["reason"].endswith("(waited 0.1 s)")
    assert not suites.entries()


def test_devices_that_another_process_uses_may_be_used_all_the_same(pretending):
    suites = pretending({**FREE, "processes": {"1": 1 << 30}})
    suite = suites.write(suites.counted("a"))
    assert suites.call("run", suite, "--allow-busy", devices="all").returncode == 0


def test_two_suites_at_once_take_turns_on_a_device(pretending):
    suites = pretending(FREE)
    first = suites.write(suites.counted("a", seconds=600), "first")
    second = suites.write(suites.counted("b", seconds=600), "second")
    one = suites.start(first, devices="all")
    until(suites.entries, "a beginning")
    two = suites.start(second, "--wait", "10m", devices="all")
    message = until(lambda: next(line for line in two.stderr if "waits" in line), "a word")
    assert "b.R0 waits: cuda:0 is used by the job a.R0 of " in message
    assert not suites.entries()["begin b.R0.D0"]
    (suites.folder / "ledger.go").touch()
    assert one.wait(PATIENCE) == 0
    assert two.wait(PATIENCE) == 0
    assert suites.entries()["end b.R0.D0"] == 1


def test_a_device_is_held_though_the_suite_is_dead(pretending):
    """By the processes that go on: another suite must not come between."""
    suites = pretending(FREE)
    one = suites.start(suites.write(suites.counted("a", seconds=600), "first"), devices="all")
    until(suites.entries, "a beginning")
    one.kill()
    one.wait()
    second = suites.write(suites.counted("b", seconds=600), "second")
    done = suites.call("run", second, "--wait", "100ms", devices="all")
    assert done.returncode == 1
    assert "cuda:0 is used by the job a.R0" in done.stderr
    (suites.folder / "ledger.go").touch()
    assert nothing_left(suites.base)


def test_two_suites_at_once_on_the_same_cores(suites):
    suite = suites.write(suites.counted("a", "b"))
    both = [suites.start(suite, devices="cpu:2") for _ in range(2)]
    assert [each.wait(PATIENCE) for each in both] == [0, 0]
    assert len(suites.runs()) == 2
    assert set(suites.entries().values()) == {2}
