"""Spans of steps become events of the run, with what a loader's turn waited."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from raw import data_lines, gather

sys.path.insert(0, str(Path(__file__).parents[1]))
from spans import loop, payload, site, write_process

STEP = {"task": "train", "payload": "items", "line": 7, "of": 1}


def steps(folder: Path) -> list[dict[str, Any]]:
    return [line["data"] for line in data_lines(folder) if line["event"] == "data"]


def test_steps_of_a_loader(tmp_path: Path) -> None:
    sites = [site(1, "io", **STEP), site(2, "step", **STEP), site(3, "forward")]
    rows = []
    for start in (1_000, 2_000):
        rows += [(start, start + 100, payload(8), 1), (start + 100, start + 700, 0, 3)]
        rows.append((start, start + 900, payload(8), 2))
    rows.insert(3, (0, 0, 0, 0))  # a place that was taken and never written
    write_process(tmp_path, sites, rows, events=[("rank", {"rank": 3, "world": 4, "local": 1}, 5)])
    info = gather(tmp_path)
    first, second = steps(tmp_path)
    assert first == {
        "task": "train",
        "batch_id": 0,
        "elapsed": 900 / 1e9,
        "rate": 8 / (900 / 1e9),
        "units": "items/s",
        "items": 8,
        "batch_size": 8,
        "io": 100 / 1e9,
        "time": 100.0 + 1_900 / 1e9,
    }
    assert second["batch_id"] == 1
    [process] = info["processes"]
    assert process["records"] == 6 + 5  # of the log: process, three sites, the rank
    assert (process["rank"], process["world"]) == (3, 4)


def test_what_a_loader_drew_counts_more_than_how_its_batch_looks(tmp_path: Path) -> None:
    for how, items in (("counted", 32), ("items", 315)):
        named = {**STEP, "payload": how}
        sites = [
            site(1, "io", payload="items", of=5),
            site(2, "io", **named),
            site(3, "step", **named),
        ]
        rows = [(1_010, 1_090, payload(32), 1), (1_000, 1_100, payload(315), 2)]
        folder = tmp_path / how
        write_process(folder, sites, [*rows, (1_000, 1_900, payload(315), 3)])
        gather(folder)
        assert [data["items"] for data in steps(folder)] == [items]


def test_steps_without_items(tmp_path: Path) -> None:
    sites = [site(1, "step", task="train"), site(2, "step", task="train", phase="eval")]
    write_process(tmp_path, sites, loop(3, [(1, 500), (2, 100), (0, 50)], start=1))
    gather(tmp_path)
    found = steps(tmp_path)
    assert [data["task"] for data in found] == ["train", "evaluation"] * 3
    assert {(data["rate"], data["units"]) for data in found} == {(2e6, "steps/s"), (1e7, "steps/s")}
    assert not any("io" in data or "items" in data for data in found)


def test_a_step_that_took_no_time(tmp_path: Path) -> None:
    write_process(tmp_path, [site(1, "step", task="t")], [(5, 5, 0, 1)])
    gather(tmp_path)
    [data] = steps(tmp_path)
    assert data["rate"] is None and data["elapsed"] == 0


def test_spans_without_their_sites(tmp_path: Path) -> None:
    write_process(tmp_path, [], loop(3, [(1, 500)], start=1))
    with (tmp_path / "raw" / "h.1.log").open("a") as log:
        log.write('{"event":"site","data":{"site":')
    info = gather(tmp_path)
    assert steps(tmp_path) == []
    assert (info["records"], info["torn"]) == (4, 1)


def test_of_many_processes_fewer_groups_of_steps_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("injector.bus.merge.SEVERAL", 1)
    monkeypatch.setattr("injector.bus.merge.MOST", 8)
    for pid in (1, 2):
        write_process(tmp_path, [site(1, "step", **STEP)], loop(100, [(1, 10)]), pid=pid)
    gather(tmp_path)
    counted = [each["of"]["count"] for each in steps(tmp_path)]
    assert sum(counted) == 200 and len(counted) <= 8
