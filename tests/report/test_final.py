"""The final state of runs that are over, as whoever watches them sees it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import spans

from injector.analysis.summary import summarise
from injector.report import final, panel
from injector.store import seal
from injector.store.folder import open_run

MS = 1_000_000
SITES = [
    spans.site(1, "io", line=10, of=1),
    spans.site(2, "forward", line=11, of=2, phase="train", payload="items"),
    spans.site(3, "optimizer", line=12, of=3),
]


def write(folder: Path, ranks: int = 1, steps: int = 40, **info) -> Path:
    processes = []
    for rank in range(ranks):
        pay = {2: spans.payload(8)}
        rows = spans.loop(steps, [(1, 2 * MS), (2, 5 * MS), (3, 3 * MS)], pay=pay)
        told = {"rank": rank, "world": ranks} if ranks > 1 else {}
        spans.write_process(folder, SITES, rows, pid=1 + rank, ended=rows[-1][1], **told)
        processes.append({"pid": 1 + rank, "ppid": 0, "host": "h", "exit": {"code": 0}})
    spans.write_run(folder, processes=processes, ended=102.0, duration=2.0, **info)
    return folder


def shown(folder: Path):
    return final.snapshot(summarise(open_run(str(folder))))


def test_the_figures_are_the_reports(tmp_path: Path) -> None:
    found = shown(write(tmp_path, limits={"stop": 30, "skip": 10}))
    assert (found.name, found.state, found.steps, found.goal) == ("x", "ended", 40, 40)
    assert (found.unit, found.rate) == ("items/s", None)
    assert found.overall == pytest.approx(800.0) and found.step == pytest.approx(0.01)
    assert found.regions == pytest.approx({"io": 0.2, "forward": 0.5, "optimizer": 0.3})
    [row], [task] = found.ranks, found.tasks
    assert (row.pid, row.steps, row.state) == (1, 40, "ended")
    assert (task.task, task.overall, task.active) == ("train", pytest.approx(800.0), False)
    assert found.notes[0] == "exit 0" and found.notes[-1].startswith("verdict: compute-bound: 80 %")
    assert "overall 800.0 items/s" in panel.lines(found)[1]


def test_packed_it_is_the_same(tmp_path: Path) -> None:
    before = shown(write(tmp_path, ranks=2))
    seal.pack(str(tmp_path))
    assert not list(tmp_path.glob("raw/*.spans"))
    assert shown(tmp_path) == before


def test_a_rank_that_died(tmp_path: Path) -> None:
    write(tmp_path, ranks=2)
    info = json.loads((tmp_path / "run.json").read_text())
    info["processes"][1]["exit"] = {"code": None, "signal": 9}
    spans.write_run(tmp_path, info, exit={"code": 1, "signal": None})
    found = shown(tmp_path)
    assert [row.state for row in found.ranks] == ["ended", "died"]
    assert any("rank 1 died at step 40: killed by SIGKILL" in note for note in found.notes)


def test_a_run_without_spans(tmp_path: Path) -> None:
    spans.write_run(tmp_path, exit={"code": None, "signal": 11}, timed_out=True)
    found = shown(tmp_path)
    assert (found.ranks, found.tasks, found.steps) == ((), (), 0)
    assert found.notes == ("killed by SIGSEGV · ended by --timeout",)
    assert panel.lines(found)[0] == "x · ended · 1 min 40 s"


def test_a_folder_of_milabench(tmp_path: Path) -> None:
    lines = [
        {"event": "start", "data": {"time": 100.0}},
        {"event": "data", "data": {"task": "train", "loss": 0.5, "time": 101.0}},
        {"event": "end", "data": {"time": 103.0, "return_code": 0}},
    ]
    (tmp_path / "bench.D0.data").write_text("".join(json.dumps(line) + "\n" for line in lines))
    found = shown(tmp_path)
    assert found.values == {"train/loss": 0.5}
    assert found.notes == ("exit 0 · 3.0 s",)
