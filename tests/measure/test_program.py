"""``injector.metric``, ``param`` and ``artifact`` in the program's own code."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import injector
from injector.analysis.summary import summarise
from injector.measure import program
from injector.report.terminal import render
from injector.store.folder import open_run

ROOT = Path(__file__).parents[2]

PROGRAM = """
import os, threading
import injector

injector.param("lr", 0.1)
injector.param("lr", 0.2)
injector.param("layers", [1, 2])
for step in range(30):
    injector.metric("f1", step / 30)
thread = threading.Thread(target=lambda: injector.metric("threaded", 1))
thread.start()
thread.join()
if not os.fork():
    injector.metric("forked", 2)
    injector.param("child", True)
    os._exit(0)
os.wait()
injector.metric("broken", float("nan"))
injector.metric("word", "text")
with open("weights.bin", "wb") as file:
    file.write(b"first")
injector.artifact("weights.bin", "models/a.bin")
with open("weights.bin", "wb") as file:
    file.write(b"second")
injector.artifact("weights.bin")
injector.artifact("nowhere.bin")
injector.artifact(".", "folder")
timer = injector.Timer()
for _ in range(3):
    timer.start("timed")
    timer.end("timed")
print("done", timer.statistics("timed").n)
"""


def start(folder: Path, *before: str):
    (folder / "own.py").write_text(PROGRAM)
    return subprocess.run(
        [sys.executable, *before, "own.py"],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )


def test_what_a_program_tells_is_in_the_record(tmp_path, monkeypatch):
    done = start(tmp_path, "-m", "injector", "run", "--runs", "runs")
    plain = start(tmp_path)
    assert done.stdout == plain.stdout == "done 3\n" and done.returncode == plain.returncode == 0
    assert plain.stderr == ""
    [folder] = [each.parent for each in (tmp_path / "runs").glob("*/raw")]
    summary = summarise(open_run(str(folder)))
    assert summary.params == {"lr": 0.2, "layers": "[1, 2]", "child": True}
    series = {each.name: each for each in summary.summary.series}
    assert series["f1"].n == 30 and series["f1"].last == pytest.approx(29 / 30)
    assert series["threaded"].n == series["forked"].n == 1
    assert series["broken"].odd == 1 and series["word"].last == "'text'"
    assert (folder / "artifacts/models/a.bin").read_bytes() == b"first"
    assert (folder / "artifacts/weights.bin").read_bytes() == b"second"
    assert [each["name"] for each in summary.artifacts] == ["models/a.bin", "weights.bin"]
    texts = " ".join(each["text"] for each in summary.warnings)
    assert "injector.artifact('nowhere.bin'): FileNotFoundError" in texts
    assert "is a folder: injector.artifact takes a file" in texts
    [timed] = [each for each in summary.profile.others if each.name == "timed"]
    assert timed.host.n == 3 and timed.place.text == 'timer.start("timed")'
    monkeypatch.setenv("COLUMNS", "200")
    text = render(summary)
    assert "params  lr=0.2 · layers=[1, 2]" in text
    assert "artifacts  models/a.bin (5 B) · weights.bin (6 B)" in text
    assert json.loads((folder / "run.json").read_text())["params"]["lr"] == 0.2


def test_a_large_file_stays_where_it_is(tmp_path, monkeypatch):
    events = []
    monkeypatch.setattr(program, "LARGEST", 10)
    records = program.ProgramRecords(
        print, lambda *each: events.append(each), str(tmp_path / "run"), print
    )
    (tmp_path / "model.bin").write_bytes(b"x" * 11)
    records.add_file(str(tmp_path / "model.bin"), "model.bin")
    about = {"name": "model.bin", "path": str(tmp_path / "model.bin"), "size": 11, "copied": False}
    assert events == [("artifact", about)] and not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda: injector.metric(3, 1), TypeError),
        (lambda: injector.metric(" ", 1), ValueError),
        (lambda: injector.param(None, 1), TypeError),
        (lambda: injector.artifact(b"x"), TypeError),
        (lambda: injector.artifact("x", "../y"), ValueError),
        (lambda: injector.artifact("x", "/y"), ValueError),
        (lambda: injector.artifact("x", ""), ValueError),
    ],
)
def test_bad_names_are_the_program_s_error_with_and_without_inject(call, error):
    with pytest.raises(error, match=r"injector\.(metric|param|artifact): "):
        call()


def test_a_step_is_a_whole_number():
    program.metric("f1", 0.5, step=3)
    with pytest.raises(TypeError, match="a step is a whole number, not float"):
        program.metric("f1", 0.5, step=3.0)
