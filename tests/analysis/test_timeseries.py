"""The time series of a run that is over."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from layouts import EPOCH, Program

from injector.analysis.timeseries import POINTS, thinned, time_series
from injector.store.folder import open_run


def write(folder: Path, *programs: Program, events: list[dict] | None = None) -> None:
    for program in programs:
        program.write(folder)
    info = {"schema": 1, "started": EPOCH - 2.0, "ended": EPOCH + 60.0}
    (folder / "run.json").write_text(json.dumps(info))
    lines = [json.dumps({"event": "data", "data": data}) for data in events or ()]
    (folder / "x.D0.data").write_text("\n".join(lines))


def turns(count: int, rank: int | None = None, **more: object) -> Program:
    program = Program(pid=1 + (rank or 0), rank=rank, **more)  # type: ignore[arg-type]
    for _ in range(count):
        program.turn()
    return program


def test_rates_and_steps_over_time(tmp_path: Path) -> None:
    write(tmp_path, turns(400))
    found = time_series(open_run(str(tmp_path)))
    rate, step = found["rate"]["train"], found["step"]["process 1"]
    assert len(rate) == 100 and rate[0][0] == pytest.approx(2.016, abs=0.01)
    assert [v for _, v in rate] == pytest.approx([1000.0] * 100)
    assert [v for _, v in step] == pytest.approx([0.008] * 100)


def test_ranks_are_added_up(tmp_path: Path) -> None:
    write(tmp_path, turns(400, 0, world=2), turns(400, 1, world=2))
    found = time_series(open_run(str(tmp_path)))
    assert set(found["step"]) == {"rank 0", "rank 1"}
    assert [v for _, v in found["rate"]["train"]] == pytest.approx([2000.0] * 100)


def test_attempts_follow_each_other(tmp_path: Path) -> None:
    again = turns(400, 0, attempt=1, origin=65_000_000_000)
    again.pid = 9
    write(tmp_path, turns(400, 0, attempt=0), again)
    rate = time_series(open_run(str(tmp_path)))["rate"]["train"]
    assert len(rate) == 200 and rate == sorted(rate)
    assert rate[100][0] - rate[99][0] > 50


def test_steps_without_items(tmp_path: Path) -> None:
    programs = []
    for rank in range(2):
        program = Program(pid=1 + rank, rank=rank, world=2)
        for _ in range(40):
            program.io(2)
            program.update(8)
        programs.append(program)
    write(tmp_path, *programs)
    rate = time_series(open_run(str(tmp_path)))["rate"]["train"]
    assert [v for _, v in rate] == pytest.approx([100.0] * 10), "a step of both is one step"


def test_losses_come_from_the_record(tmp_path: Path) -> None:
    events = [{"task": "train", "loss": 1.0 / n, "time": EPOCH + n} for n in range(1, 1000)]
    events += [{"task": "train", "loss": "NaN", "time": EPOCH}, {"lr": 0.1, "time": EPOCH}]
    write(tmp_path, turns(1), events=events)
    [(name, line)] = time_series(open_run(str(tmp_path)))["loss"].items()
    assert name == "train/loss" and POINTS // 2 < len(line) <= POINTS
    assert (line[0], line[-1]) == ((3.0, 1.0), (1001.0, 1 / 999))


def test_a_run_without_anything(tmp_path: Path) -> None:
    (tmp_path / "raw").mkdir()
    assert all(not lines for lines in time_series(open_run(str(tmp_path))).values())


def test_thinning_keeps_both_ends_and_what_stands_out() -> None:
    line = [(float(at), 1.0 + at % 2 / 10) for at in range(10_000)]
    line[4711], line[815] = (4711.0, 90.0), (815.0, -90.0)
    kept = thinned(line)
    assert POINTS - 10 < len(kept) <= POINTS and kept == sorted(kept)
    assert {line[0], line[815], line[4711], line[-1]} <= {*kept}
    assert thinned(line[:5]) == line[:5]


def monitor(folder: Path, host: str, pid: int, load: float, second: int) -> None:
    """Two samples of one device, which every host counts from 0."""
    began = {"host": host, "schema": 1, "time": EPOCH + second, "monotonic_ns": 0}
    state = {"0": {"load": load}}
    records = [("process", began, 0), ("device_list", {"0": {"index": 0}}, 0)]
    records += [("devices", state, at * 10**9) for at in range(2)]
    lines = [json.dumps({"event": e, "data": data, "t": t}) + "\n" for e, data, t in records]
    (folder / "raw" / f"{host}.{pid}.monitor").write_text("".join(lines))


def test_devices_of_several_hosts_have_lines_of_their_own(tmp_path: Path) -> None:
    write(tmp_path, turns(400, 0, world=2), turns(400, 1, world=2))
    monitor(tmp_path, "a", 5, 0.25, 0)
    assert list(time_series(open_run(str(tmp_path)))["load"]) == ["0"]
    monitor(tmp_path, "b", 5, 0.75, 0)
    load = time_series(open_run(str(tmp_path)))["load"]
    assert {name: [v for _, v in line] for name, line in load.items()} == {
        "a 0": [0.25] * 2,
        "b 0": [0.75] * 2,
    }


def test_monitors_of_two_attempts_on_one_host_are_one_line(tmp_path: Path) -> None:
    write(tmp_path, turns(400))
    monitor(tmp_path, "a", 5, 0.75, 30)
    monitor(tmp_path, "a", 6, 0.25, 0)
    [(name, line)] = time_series(open_run(str(tmp_path)))["load"].items()
    assert (name, [v for _, v in line]) == ("0", [0.25, 0.25, 0.75, 0.75])
