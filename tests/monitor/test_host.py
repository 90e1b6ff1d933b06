"""Host and container: what is read, and from where."""

from __future__ import annotations

import os

from injector.monitor import host


def test_every_core_has_busy_and_idle_seconds():
    sample = host.fast()
    assert len(sample["cores"]) == os.cpu_count()
    assert all(busy >= 0 and idle >= 0 for busy, idle in sample["cores"])
    memory = sample["memory"]
    assert 0 < memory["used"] < memory["total"]


def test_busy_seconds_rise_with_work():
    before = sum(busy for busy, _ in host.fast()["cores"])
    while sum(busy for busy, _ in host.fast()["cores"]) < before + 0.05:
        sum(range(10_000))


def test_the_slow_readings_are_all_there():
    sample = host.slow()
    assert len(sample["load"]) == 3
    assert 0 < sample["filesystem"]["fraction"] <= 1
    assert all(read >= 0 and written >= 0 for read, written in sample["disks"].values())
    assert "lo" in sample["nets"]


def write(folder, **files):
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name.replace("__", ".")).write_text(text)
    return str(folder)


def test_pressure_is_in_seconds(tmp_path):
    folder = write(
        tmp_path / "pressure",
        cpu="some avg10=0.00 avg60=0.00 avg300=0.00 total=2500000\n",
        memory="some avg10=0.00 total=1\nfull avg10=0.00 total=1000000\n",
    )
    found = host.limits(folder, str(tmp_path), str(tmp_path / "none"))
    assert found["pressure"] == {"cpu": {"some": 2.5}, "memory": {"some": 1e-06, "full": 1.0}}


def test_a_control_group_of_version_2(tmp_path):
    own = tmp_path / "own"
    own.write_text("0::/job/7\n")
    write(
        tmp_path / "cgroup" / "job" / "7",
        memory__current="1048576\n",
        memory__max="max\n",
        cpu__max="150000 100000\n",
        cpu__stat="usage_usec 4000000\nthrottled_usec 500000\n",
    )
    found = host.limits(str(tmp_path / "none"), str(tmp_path / "cgroup"), str(own))
    assert found == {
        "cgroup": {"memory": 1 << 20, "cpus": 1.5, "cpu": 4.0, "throttled": 0.5},
    }


def test_a_control_group_of_version_1(tmp_path):
    own = tmp_path / "own"
    own.write_text("5:memory:/job\n4:cpu,cpuacct:/job\n")
    write(
        tmp_path / "cgroup" / "memory" / "job",
        memory__usage_in_bytes="2097152",
        memory__limit_in_bytes="4194304",
    )
    write(tmp_path / "cgroup" / "cpu" / "job", cpu__cfs_quota_us="-1", cpu__cfs_period_us="100000")
    found = host.limits(str(tmp_path / "none"), str(tmp_path / "cgroup"), str(own))
    assert found == {"cgroup": {"memory": 2 << 20, "memory_limit": 4 << 20}}


def test_a_system_that_tells_nothing(tmp_path):
    nowhere = str(tmp_path / "none")
    assert host.limits(nowhere, nowhere, nowhere) == {}
