from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from injector.analysis.profile import Model, RankOutcome
from injector.analysis.summary import summarise
from injector.bus.collector import FinishedRun, collect
from injector.bus.writer import Writer
from injector.cli.report import main
from injector.exit_status import exit_of
from injector.report import terminal, training_loops
from injector.store.folder import open_run
from injector.store.place import create
from injector.value_class import replace


def probe(selector: str, **more: Any) -> dict[str, Any]:
    place = {"module": "__main__", "function": "f", "file": "/x/train.py", "line": 57}
    place.update({"source": "loss = criterion(out, y)", "kind": "assignment", **more})
    return {"selector": selector, "hook": "injector:1", "landing": place}


def new_run(tmp_path: Path, events: list[tuple[str, Any]], **options: Any) -> str:
    folder = create("train", str(tmp_path / "runs")).path
    assert folder
    if events:
        writer = Writer(folder)
        for event, data in events:
            writer.emit(event, data)
        writer.close()
    now = time.time()
    defaults: dict[str, Any] = {"exit": 0, "command": ["python", "train.py", "--epochs", "3"]}
    about = {"started": now - 12.3, "ended": now, "name": "train"}
    collect(folder, FinishedRun(**about, **{**defaults, **options}))
    return folder


def render(folder: str) -> str:
    return terminal.render(summarise(open_run(folder)))


def rates(*values: float) -> list[tuple[str, Any]]:
    return [("data", {"task": "train", "rate": v, "units": "items/s"}) for v in values]


def test_the_whole_card(tmp_path: Path) -> None:
    events = [
        ("probe", probe("//f > loss")),
        ("probe", probe("//f > silent")),
        ("miss", {"selector": "//g > y", "reason": "train.py has no g", "nearest": ["f", "h"]}),
        *rates(100.0, 200.0, 300.0),
        ("value", {"series": "train/loss", "value": 2.5}),
        ("value", {"series": "train/loss", "value": 0.5}),
        ("data", {"lr": 0.1}),
        ("region", {"region": "forward", "seconds": 0.002}),
        ("failure", {"where": "probe 'x'", "type": "KeyError", "message": "'a'", "trace": ""}),
        ("fired", {"//f > loss": 2, "//f > silent": 0}),
        ("end", {}),
    ]
    folder = new_run(tmp_path, events)
    python = ".".join(map(str, sys.version_info[:3]))
    assert (
        render(folder)
        == f"""\
inject: python train.py --epochs 3
  exit 0 · 12.3 s · 1 process · Python {python}

rates    n   mean  median    p95    std
  train  3  200.0   200.0  290.0  100.0  items/s

losses        n  first   last    min
  train loss  2  2.500  0.500  0.500

values  n   mean  median   last
  lr    1  0.100   0.100  0.100

regions    n      mean       p95  total
  forward  1  2.000 ms  2.000 ms   2 ms

probes
  //f > loss  fired 2
      train.py:57 (f)  loss = criterion(out, y)
  //f > silent  fired 0
      train.py:57 (f)  loss = criterion(out, y)

3 warnings
  - //g > y: train.py has no g
      nearest: f, h
  - //f > silent: never fired
  - probe 'x': KeyError: 'a'

run: {folder}
"""
    )


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"exit": 3}, "  exit 3 · "),
        ({"exit": -11}, "  killed by SIGSEGV · "),
        ({"exit": -64}, "  killed by SIGRTMAX · "),
        ({"exit": -40}, "  killed by signal 40 · "),
        ({"exit": None}, "  exit not known · "),
        ({"exit": 1, "timed_out": True}, "  exit 1 · ended by --timeout · "),
    ],
)
def test_how_it_ended(tmp_path: Path, options: dict[str, Any], sentence: str) -> None:
    assert sentence in render(new_run(tmp_path, rates(1.0), **options))


@pytest.mark.parametrize(
    ("cause", "shown"), [("exit code 3", False), ("ValueError: first", True), (None, True)]
)
def test_an_exception_that_followed_from_the_end_of_a_rank_stands_beside_that_alone(
    tmp_path: Path, cause: str | None, shown: bool
) -> None:
    """Connections to a rank that has ended break a little later, in each of the others."""
    first = cause if cause and "Error" in cause else "RuntimeError: closed by peer"
    kind, _, message = first.partition(": ")
    error = {"type": kind, "message": message}
    summary = summarise(open_run(new_run(tmp_path, [("error", error)], exit=1)))
    how = {
        "rank": 0,
        "attempt": 0,
        "process": 0,
        "steps": 3,
        "usual": 0.1,
        "last": "",
        "place": None,
    }
    how |= {"inside": (), "seconds": 0.0, "ended": None, "restarted": None}
    ranks = [RankOutcome(kind="died", how=cause, **how)] if cause else []
    ranks += (
        [RankOutcome(kind="followed", how="RuntimeError: closed by peer", **how)] if cause else []
    )
    header = terminal.render(replace(summary, broken=tuple(ranks))).partition("broken ")[0]
    assert (first in header) == shown


def test_a_deliberate_stop(tmp_path: Path) -> None:
    assert "  stopped on request, exit 0 · " in render(new_run(tmp_path, [("stop", {})]))


@pytest.mark.parametrize(
    ("events", "why"),
    [
        ([], "no Python process of the program recorded anything"),
        ([("phase", {"name": "init"})], "no probe was set"),
        ([("probe", probe("s")), ("fired", {"s": 0})], "no probe fired"),
        ([("probe", probe("s")), ("fired", {"s": 2})], "no probe gave anything"),
        ([("probe", probe("s")), ("fired", {"s": 2}), ("data", {"a": 1})], "no probe gave a rate"),
    ],
)
def test_no_rates(tmp_path: Path, events: list[tuple[str, Any]], why: str) -> None:
    run = new_run(tmp_path, events, voirfiles=["x.py"])
    assert f"\nno rates were recorded: {why}\n" in render(run)


def test_no_voirfile(tmp_path: Path) -> None:
    assert "no voirfile records rates" in render(new_run(tmp_path, [("phase", {})]))


def test_ranks(tmp_path: Path) -> None:
    folder = create("train", str(tmp_path)).path
    assert folder
    for rank, rate in ((0, 100.0), (1, 300.0)):
        code = "import sys, json; from injector.bus.writer import Writer; w = Writer(sys.argv[1], "
        code += (
            f"{{'rank': {rank}}}); w.emit('data', {{'task': 'train', 'rate': {rate}}}); w.close()"
        )
        root = str(Path(__file__).parents[2])
        subprocess.run([sys.executable, "-c", code, folder], check=True, cwd=root)
    run = FinishedRun(exit=0, command=["torchrun"], started=0.0, ended=1.0, name="train")
    collect(folder, run)
    text = render(folder)
    assert "2 processes" in text
    rows = [line.split() for line in text.splitlines() if "items/s" in line]
    assert [row[:4] for row in rows] == [
        ["train", "2", "200.0", "200.0"],
        ["rank", "0", "1", "100.0"],
        ["rank", "1", "1", "300.0"],
    ]


def test_a_killed_process_says_at_least(tmp_path: Path) -> None:
    events = [
        ("probe", probe("//f > x")),
        ("first", {"selector": "//f > x"}),
        ("probe", probe("//f > y")),
    ]
    text = render(new_run(tmp_path, events, exit=-9))
    assert "//f > x  fired at least 1\n" in text
    assert "//f > y  fired: not known\n" in text


def test_nothing_exceeds_the_width(tmp_path: Path) -> None:
    long = "x" * 300
    events = [
        ("probe", probe(long, function=long, source=long, file=f"/{long}/{long}.py")),
        ("miss", {"selector": long, "reason": long, "nearest": [long, long]}),
        ("failure", {"where": long, "type": long, "message": long + "\x1b[31m\n", "trace": long}),
        ("data", {"task": long, "rate": 1e300, "units": "items/s"}),
        ("data", {"task": long, long: 1e-300, "note": long}),
        ("region", {"region": long, "seconds": 1e9}),
        *(("value", {"series": f"v{n}", "value": n}) for n in range(40)),
    ]
    text = render(new_run(tmp_path, events, command=[long]))
    lines = text.splitlines()
    assert all(len(line) <= 100 for line in lines[:-1])  # the last is a path, to be pasted
    assert "\x1b" not in text
    assert "  … and 30 more" in lines


def test_milabench(tmp_path: Path) -> None:
    folder = tmp_path / "lofilano.2024-08-27_20:14:51.193380"
    folder.mkdir()
    for name, code in (("bert.D0", 0), ("llama.D0", 1)):
        lines = [
            {"event": "config", "data": {"name": name}, "pipe": None},
            {"event": "start", "data": {"command": ["voir"], "time": 10.0}, "pipe": None},
            {"event": "data", "data": {"task": "train", "rate": 255.0, "units": "items/s"}},
            {"event": "end", "data": {"time": 12.5, "return_code": code}, "pipe": None},
        ]
        text = "".join(json.dumps(line) + "\n" for line in lines)
        (folder / f"{name}.data").write_text(text + '{"event"')
    text = render(str(folder))
    assert text.startswith(
        "inject: lofilano.2024-08-27_20:14:51.193380\n  bert.D0: exit 0 · 2.5 s\n"
    )
    assert "  llama.D0: exit 1 · 2.5 s\n" in text
    assert "bert.D0  train" in text
    assert "2 unreadable lines of .data files left out" in text


def test_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first, second = new_run(tmp_path, rates(1.0)), new_run(tmp_path, rates(2.0))
    runs = str(tmp_path / "runs")
    assert main(["--runs", runs]) == 0
    assert capsys.readouterr().out == render(second)
    assert main([first]) == 0
    assert capsys.readouterr().out == render(first)
    assert main([Path(first).name, "--runs", runs]) == 0
    assert capsys.readouterr().out == render(first)
    assert main(["nope", "--runs", runs]) == 2
    captured = capsys.readouterr()
    assert captured.out == "" and captured.err.startswith("inject: nope: ")


def test_a_run_that_nobody_collected(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = create("train", str(tmp_path)).path
    assert folder
    writer = Writer(folder)
    for event, data in rates(1.0, 2.0):
        writer.emit(event, data)
    assert main([folder]) == 1
    text = capsys.readouterr().out
    assert "  train  2  1.500" in text and "exit not known" in text
    assert text.startswith("missing  there is no run.json: the run goes on") and text.endswith(
        f"run: {folder}\n"
    )
    assert sorted(path.name for path in Path(folder).iterdir()) == ["raw"]


ENDS = {
    "workers that raised": ([0, 1, 1], 0, "3 processes, 2 ended with exit 1"),
    "several kinds": ([3, -11, None], 0, "3 processes, 1 ended with exit 3, 1 killed by SIGSEGV"),
    "workers of a pool": ([-15, -2, 0], 0, "3 processes"),
    "a program that failed itself": ([1, 1, 0], 1, "3 processes"),
    "none": ([], 0, "nothing recorded"),
}


@pytest.mark.parametrize(("codes", "exit", "fact"), ENDS.values(), ids=ENDS)
def test_ends_of_processes_in_a_program_that_exits_with_0(
    tmp_path: Path, codes, exit, fact
) -> None:
    summary = replace(
        summarise(open_run(new_run(tmp_path, []))),
        processes=tuple({"rank": None, "exit": exit_of(code)} for code in codes),
        exit={"code": exit, "signal": None},
    )
    assert terminal.processes(summary) == fact
    ranks = tuple({**process, "rank": 0} for process in summary.processes)
    assert "exit" not in terminal.processes(replace(summary, processes=ranks))


@pytest.mark.parametrize(
    ("trainable", "text"),
    [(44_150_000, ""), (44_149_999, ""), (150_000, ", 150.0 k parameters trainable")],
)
def test_trainable_parameters_stand_there_where_they_are_fewer(trainable: int, text: str) -> None:
    [line, _] = training_loops.models([Model("Net", 44_150_000, trainable)])
    assert line == f"models   Net: 44.15 M parameters{text}"
