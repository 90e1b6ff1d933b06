"""What hosts, processes and devices used, on samples whose sums are known."""

from __future__ import annotations

import numpy as np
import pytest

from injector.analysis import hosts, machines
from injector.analysis.columns import SECOND
from injector.analysis.usage import sampled_usage, usage_of
from injector.store.monitor import Monitored, Sample


def seen(hosts=(), trees=(), devices=(), described=None):
    return Monitored("h", 1.0, list(hosts), list(trees), list(devices), described or {}, [], True)


def host(time, busy, idle, **more):
    """A sample of two cores, the second of which does nothing."""
    return Sample("host", time, {"cores": [[busy, idle], [0.0, time]], **more})


def test_the_metrics_of_lightgbm_benchmark():
    def more(memory, disk, moved):
        return {
            "memory": {"fraction": memory},
            "filesystem": {"fraction": disk},
            "disks": {"sda": [1000 + moved, 50 + 2 * moved]},
            "nets": {"lo": [moved, moved], "eth0": [10 * moved, 3 * moved]},
        }

    watched = seen(
        [
            host(0.0, 100.0, 0.0, **more(0.2, 0.5, 0)),
            host(1800.0, 100.0, 1800.0, **more(0.7, 0.6, 7)),
            host(3600.0, 1900.0, 1800.0, **more(0.3, 0.6, 10)),
        ]
    )
    found = hosts.metrics(watched, hosts.utilization(watched))
    assert found == pytest.approx(
        {
            "cpu_avg_utilization_pct": 25.0,
            "cpu_avg_utilization_over20_pct": 50.0,
            "cpu_avg_utilization_over40_pct": 50.0,
            "cpu_avg_utilization_over80_pct": 0.0,
            "cpu_avg_utilization_over100_pct": 0.0,
            "max_t_cpu_pct_per_cpu_avg": 50.0,
            "max_t_cpu_pct_per_cpu_min": 0.0,
            "max_t_cpu_pct_per_cpu_max": 100.0,
            "node_cpu_hours": 2.0,
            "node_unused_cpu_hours": 1.5,
            "node_max_memory_utilization_pct": 70.0,
            "node_max_disk_utilization_pct": 60.0,
            "total_disk_io_read": 10.0,
            "total_disk_io_write": 20.0,
            "total_net_lo_sent": 10.0,
            "total_net_lo_receive": 10.0,
            "total_net_ext_sent": 100.0,
            "total_net_ext_receive": 30.0,
        }
    )
    assert len(found) == 18


def test_one_sample_tells_no_utilization():
    watched = seen([host(0.0, 1.0, 1.0)])
    assert hosts.metrics(watched, hosts.utilization(watched)) == {}


def test_shortage_is_a_fraction_of_the_time():
    def sample(time, stalled):
        return Sample("host", time, {"pressure": {"cpu": {"some": stalled}}})

    assert hosts.shortage(seen([sample(0.0, 5.0), sample(10.0, 7.5)])) == {"cpu": 0.25}
    assert hosts.shortage(seen([sample(0.0, 5.0), sample(1.0, 6.1)])) == {"cpu": 1.0}
    assert hosts.shortage(seen([sample(0.0, 5.0)])) == {}


def test_other_programs_that_take_what_this_one_could_use():
    def full(seconds, second=1.0):
        cores = (
            [[0.0, 0.0], [0.0, 0.0]],
            [[seconds, 0.0], [second * seconds, (1 - second) * seconds]],
        )
        times = ((100.0, cores[0]), (100.0 + seconds, cores[1]))
        return seen([Sample("host", time, {"cores": each}) for time, each in times])

    def crowding(watched, own, waits):
        return hosts.crowding("h", hosts.utilization(watched), own, waits)

    message = crowding(full(10.0), 0.5, 0.9)
    assert message is not None and "kept 1.5 of 2 cores of h busy, this one 0.5" in message
    assert crowding(full(10.0), 1.6, 0.9) is None  # its own threads do
    assert crowding(full(10.0), 0.5, 0.1) is None  # nobody waits
    assert crowding(full(10.0, 0.7), 0.5, 0.9) is None  # there are cores left
    assert crowding(full(0.0), 0.5, 0.9) is None
    assert crowding(full(10.0), None, 0.9) is None
    assert crowding(seen([]), 0.5, 0.9) is None


def test_a_containers_limits():
    def sample(memory):
        return Sample("host", 0.0, {"cgroup": {"memory": memory, "memory_limit": 100, "cpus": 2.0}})

    assert hosts.container(seen([sample(30), sample(60), sample(20)])) == {
        "memory": 60.0,
        "memory_limit": 100.0,
        "cpus": 2.0,
    }


def tree(time, *entries):
    return Sample("tree", time, {"processes": list(entries)})


def entry(pid, cpu, rss, **more):
    return {"pid": pid, "started": 0.0, "name": "p", "cpu": cpu, "rss": rss, "threads": 1, **more}


def test_processes_are_kept_apart_and_followed():
    found = machines.processes_of(
        seen(
            trees=[
                tree(0.0, entry(1, 0.0, 10, uss=5)),
                tree(5.0, entry(1, 5.0, 40), entry(2, 1.0, 7)),
                tree(10.0, entry(1, 15.0, 20, fds=9)),
            ]
        )
    )
    first, second = found
    assert (first.pid, first.cpu, first.cores) == (1, 15.0, 1.5)
    assert (first.peak_rss, first.peak_uss, first.fds) == (40, 5, 9)
    assert first.rss == ((0.0, 10), (5.0, 40), (10.0, 20))
    assert (second.pid, second.peak_rss) == (2, 7)


def test_a_process_id_that_came_back_is_another_process():
    late = {**entry(1, 0.0, 10), "started": 9.0}
    found = machines.processes_of(seen(trees=[tree(0.0, entry(1, 1.0, 10)), tree(10.0, late)]))
    assert [each.cpu for each in found] == [1.0, 0.0]


def states(*values):
    return [Sample("devices", float(time), {"0": state}) for time, state in enumerate(values)]


def test_energy_is_the_counters_growth_else_the_integral_of_power():
    counted = states({"energy": 5.0, "power": 1.0}, {"energy": 25.0, "power": 1.0})
    integrated = states({"power": 100.0}, {"power": 200.0}, {"power": 200.0})
    described = {"0": {"index": 0, "name": "A", "uuid": "u"}}
    [first] = machines.devices_of(seen(devices=counted, described=described))
    [second] = machines.devices_of(seen(devices=integrated, described=described))
    assert (first.energy, second.energy) == (20.0, 350.0)
    assert second.power == pytest.approx(500 / 3)


def test_phases_of_a_study_use_the_energy_that_the_device_does():
    """A counter that was reset tells nothing, for both: the power does."""
    reset = states(*({"energy": energy, "power": 100.0} for energy in (500.0, 600.0, 50.0)))
    watched = seen(devices=reset, described={"0": {}})
    [device] = machines.devices_of(watched)
    whole = np.array([0]), np.array([2 * SECOND])
    used = usage_of(sampled_usage([watched]), {"train": whole})
    assert device.energy == used["train"].energy == 200.0


def test_reasons_for_slow_clocks_are_fractions_of_the_samples():
    told = states({"throttle": ["power cap"]}, {"throttle": []}, {"load": 1.0})
    [found] = machines.devices_of(seen(devices=told, described={"0": {}}))
    assert found.throttled == {"power cap": 0.5}
    assert (found.load, found.energy, found.peak_memory) == (1.0, None, None)
