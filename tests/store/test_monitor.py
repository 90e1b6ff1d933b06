"""The monitor's file: one module knows its form, and docs/monitor.md says the same."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import injector
from injector.bus.writer import Writer
from injector.store import monitor

PACKAGE = Path(injector.__file__).parent
DOCS = PACKAGE.parent / "docs" / "monitor.md"
HOST = {"cores": [[1.0, 2.0]], "memory": {"total": 4, "used": 1, "fraction": 0.25}}
TREE = [{"pid": 1, "ppid": 0, "name": "x", "cpu": 0.5, "rss": 10, "threads": 1}]
DEVICE = {"index": 0, "uuid": "GPU-0", "name": "A", "vendor": "nvidia", "driver": ""}


def written(folder):
    """One of each record, as a monitor writes them."""
    writer = Writer(str(folder), {"interval": 0.5}, suffix=monitor.SUFFIX)
    records = monitor.MonitorRecords(writer.emit)
    records.device_list({"0": DEVICE})
    records.host(HOST)
    records.tree(TREE)
    records.devices({"0": {"load": 0.5}})
    records.exit(7, -9)
    records.problem("no disk")
    records.end()
    writer.close()
    return folder


def test_what_is_written_is_read(tmp_path):
    [found] = monitor.read(str(written(tmp_path)))
    assert found.interval == 0.5 and found.whole and found.problems == ["no disk"]
    assert [sample.data for sample in found.hosts] == [HOST]
    assert [sample.data for sample in found.trees] == [{"processes": TREE}]
    assert [sample.data for sample in found.devices] == [{"0": {"load": 0.5}}]
    assert found.described == {"0": DEVICE}
    [log] = monitor.monitor_logs(str(tmp_path))
    [ended] = [one for one in monitor.samples(log) if one.event == "exit"]
    assert ended.data == {"pid": 7, "code": -9} and isinstance(ended.t, int)


def test_the_docs_name_every_event_that_is_written(tmp_path):
    [log] = monitor.monitor_logs(str(written(tmp_path)))
    events = {one.event for one in monitor.samples(log)}
    rows = re.findall(r"^\| `(\w+)` \|", DOCS.read_text(), re.MULTILINE)
    assert set(rows) == events


@pytest.mark.parametrize("data", [None, [1], {"code": 1}, {"pid": "7", "code": 1}])
def test_a_record_without_usable_data_is_left_out(data):
    assert monitor.sample_of({"event": "exit", "data": data, "t": 1}) is None


def test_the_load_of_cores():
    before, after = [[1.0, 1.0], [0.0, 4.0]], [[2.0, 1.0], [1.0, 7.0]]
    assert monitor.core_loads(before, after) == [1.0, 0.25]
    assert monitor.cpu_load(before, after) == 0.4
    assert monitor.core_loads(before, []) is monitor.cpu_load(None, after) is None


@pytest.mark.parametrize("suffix", [".monitor", ".spans", ".values", ".stacks"])
def test_one_module_states_the_suffix_of_each_file(suffix):
    stating = [
        path.relative_to(PACKAGE).as_posix()
        for path in PACKAGE.rglob("*.py")
        if f'"{suffix}"' in path.read_text()
    ]
    assert len(stating) == 1 and stating[0].startswith("store/"), stating
