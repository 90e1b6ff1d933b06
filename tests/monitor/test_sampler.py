"""``inject run --sample``: stacks of the processes that train, and which region each belongs to."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest
from search_path import search_path

from injector.analysis.summary import summarise
from injector.cli import main
from injector.errors import UserError
from injector.monitor import own_sampler, sampler
from injector.report.terminal import render
from injector.store.folder import open_run
from injector.store.stacks import UNNAMED as NAMELESS
from injector.store.stacks import Frame, Stack, stacks

OWN = sys.version_info >= (3, 15)
PY_SPY = shutil.which("py-spy") or Path(sys.executable).with_name("py-spy").exists()
needs_sampler = pytest.mark.skipif(not (OWN or PY_SPY), reason="py-spy is not installed")

PROGRAM = """
import os, signal, sys, time
import injector

def work(seconds):
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        pass

def inner():
    work(0.006)  # inner

@injector.region("decorated")
def decorated():
    work(0.006)  # decorated

def evaluate():
    with injector.region("forward", phase="eval"):
        work(0.004)

for turn in range(120):
    with injector.region("step"):
        with injector.region("block"):
            inner()
            pass  # block
        decorated()
        time.sleep(0.004)  # wait
        work(0.006)  # other
    evaluate()
    if turn == 100 and "die" in sys.argv:
        os.kill(os.getpid(), signal.SIGKILL)
"""

UNNAMED = """
import time
import injector

def work(seconds):
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        pass

def hidden():
    work(0.008)  # hidden

for turn in range(100):
    with injector.region("step"):
        work(0.012)  # plain
        hidden()  # call
"""


LAYERED = """
import torch

model = torch.nn.Sequential(torch.nn.Linear(256, 512), torch.nn.Tanh(), torch.nn.Linear(512, 8))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for turn in range(150):
    loss = model(torch.ones(2048, 256)).square().mean()  # model
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


BOOSTING = """
import time
import lightgbm, numpy

def until(env):
    if time.monotonic() > end:
        raise lightgbm.callback.EarlyStopException(env.iteration, [])

x = numpy.random.default_rng(0).normal(size=(10_000, 30))
data = lightgbm.Dataset(x, x[:, 0] * x[:, 1])
end = time.monotonic() + 3
settings = {"objective": "regression", "num_threads": 1, "verbose": -1}
lightgbm.train(settings, data, 1_000_000, callbacks=[until])  # train
"""


def start(
    folder: Path, *words: str, path: str = "", program: str = PROGRAM, options: str = "--sample"
):
    (folder / "train.py").write_text(program)
    own = [*options.split(), "--runs", str(folder / "runs")]
    command = [sys.executable, "-m", "injector", "run", *own]
    done = subprocess.run(
        [*command, "train.py", *words],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "PYTHONPATH": search_path(), "PATH": path or os.environ["PATH"]},
    )
    runs = sorted((folder / "runs").glob("*/raw"))
    return done, runs[-1].parent if runs else None


def number_of(mark: str, program: str = PROGRAM) -> int:
    return next(n for n, text in enumerate(program.splitlines(), 1) if text.endswith(f"# {mark}"))


@needs_sampler
@pytest.mark.parametrize("words", [(), ("die",)])
def test_each_stack_belongs_to_the_region_that_it_goes_through(tmp_path, words):
    done, folder = start(tmp_path, *words)
    assert done.returncode == (-signal.SIGKILL if words else 0), done.stderr
    summary = summarise(open_run(str(folder)))
    [loop] = summary.sampled
    found = {each.region: each for each in loop.regions}
    assert set(found) <= {"block", "decorated", "wait", "other"} and len(found) >= 3
    lines = {region: {one.place.line for one in each.lines} for region, each in found.items()}
    work = {n for n, text in enumerate(PROGRAM.splitlines(), 1) if "perf_counter" in text}
    # The innermost line of the program says where it was, not the one that the region begins at.
    assert work & lines["block"] and work & lines["decorated"]
    assert lines["wait"] == {number_of("wait")}
    assert number_of("block") not in set().union(*lines.values())
    assert loop.samples == sum(each.samples for each in loop.regions) == loop.tree.samples
    shares = {child.name for child in loop.tree.children}
    assert shares == set(found)
    text = render(summary)
    assert "sampled stacks of train at train.py:" in text and "of its samples" in text
    assert main(["report", str(folder), "-o", str(tmp_path / "x.html")]) == 0
    assert 'class="flame"' in (tmp_path / "x.html").read_text()
    # The evaluation between the steps is in none of them.
    assert not any("evaluate" in one.inner for each in loop.regions for one in each.lines)


@needs_sampler
def test_samples_in_the_layers_of_a_model_are_of_its_forward(tmp_path):
    """With ``--layers`` as well, whose calls lie in those of the forward."""
    done, folder = start(tmp_path, program=LAYERED, options="--sample --layers 2")
    assert done.returncode == 0, done.stderr
    [loop] = summarise(open_run(str(folder))).sampled
    found = {each.region: each for each in loop.regions}
    assert set(found) <= {"forward", "backward", "zero_grad", "optimizer", "other"}
    assert {one.place.line for one in found["forward"].lines} == {number_of("model", LAYERED)}
    assert all(0 < one.in_inner <= one.samples for each in loop.regions for one in each.lines)


@needs_sampler
def test_a_report_elsewhere_is_the_same(tmp_path):
    """Without the program's files what was asked of them stands in run.json."""
    _, folder = start(tmp_path, program=UNNAMED)
    before = summarise(open_run(str(folder))).sampled
    [other] = before[0].regions  # no part of a step has a name, and still its lines have
    assert other.region == "other" and other.share == 0
    outer = {box.name for box in before[0].tree.children[0].children}
    lines = number_of("plain", UNNAMED), number_of("call", UNNAMED)
    assert outer >= {f"<module> (train.py:{line})" for line in lines}
    (tmp_path / "train.py").unlink()
    assert summarise(open_run(str(folder))).sampled == before
    (tmp_path / "train.py").write_text("\n" * 50)
    assert summarise(open_run(str(folder))).sampled == before
    assert json.loads((folder / "run.json").read_text())["sampling"]["rate"] == sampler.RATE


def test_a_process_that_cannot_be_read_is_a_warning(tmp_path):
    """py-spy may not read the memory of others: the program runs, and the report says why."""
    done, folder = start(tmp_path, path=f"{failing_py_spy(tmp_path)}:{os.environ['PATH']}")
    assert done.returncode == 0
    if OWN:  # which is used instead, and can
        assert "was not sampled" not in done.stderr and "sampled stacks of train" in done.stderr
    else:
        assert "was not sampled: py-spy: Permission Denied" in done.stderr
    assert not list(folder.glob("raw/*.sampling"))


def failing_py_spy(folder: Path) -> Path:
    fake = folder / "bin" / "py-spy"
    fake.parent.mkdir()
    fake.write_text("#!/bin/sh\necho 'Error: Permission Denied: try again' >&2\nexit 1\n")
    fake.chmod(fake.stat().st_mode | stat.S_IEXEC)
    return fake.parent


def sampled(folder: Path, python: str, monkeypatch) -> tuple[list[str], str]:
    """The names of the samplers that a process gets which says that it runs ``python``, and the outcome."""
    monkeypatch.setattr(sampler, "_PYTHON", re.compile("/python"))  # pytest may run on another name
    raw = folder / "raw"
    raw.mkdir(exist_ok=True)
    stem = f"{os.uname().nodename}.{os.getpid()}"
    (raw / f"{stem}.spans").touch()
    line = {"event": "process", "data": {"python": python}, "t": 0}
    (raw / f"{stem}.log").write_text(json.dumps(line) + "\n")
    apart: set[int] = set()
    one, names = sampler.Sampler(str(folder), apart), []
    for _ in range(sampler.TRIES):
        assert one.look()
        names += one._names.values()
        while apart and not all(one._has_ended(pid) for pid in set(apart)):
            time.sleep(0.01)
    [problem] = one.end()
    return names, problem


@pytest.mark.skipif(OWN, reason="the sampler of this Python works")
def test_the_sampler_suits_the_python_of_the_process(tmp_path, monkeypatch):
    """A process of 3.15 or newer is read by its own Python, and by py-spy if that fails."""
    monkeypatch.setenv("PATH", f"{failing_py_spy(tmp_path)}:{os.environ['PATH']}")
    own = sampler.OWN
    names, problem = sampled(tmp_path, "3.15.0", monkeypatch)
    assert names == [own, "py-spy", own]
    assert problem.endswith(f"{own}: No module named 'profiling'")
    names, problem = sampled(tmp_path, "3.14.2", monkeypatch)
    assert set(names) == {"py-spy"} and "py-spy: Permission Denied" in problem
    monkeypatch.setattr(sampler.shutil, "which", lambda *_, **__: None)
    names, problem = sampled(tmp_path, "3.14.2", monkeypatch)
    assert set(names) == {""}
    assert problem.endswith(
        "was not sampled: its Python needs py-spy: pip install 'overlay-injector[sample]'"
    )


def test_without_a_sampler_nothing_is_run(monkeypatch, tmp_path, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sampler.shutil, "which", lambda *_, **__: None)
    monkeypatch.setattr(sampler, "find_spec", lambda name: None)
    assert main(["run", "--sample", "train.py"]) == 2
    assert (
        "--sample needs py-spy before Python 3.15: pip install 'overlay-injector[sample]'"
        in capsys.readouterr().err
    )
    assert not (tmp_path / ".inject").exists()


def reads_compiled_code() -> bool:
    try:
        sampler.check(native=True)
    except UserError:
        return False
    return not OWN  # which py-spy cannot read yet


@pytest.mark.skipif(not reads_compiled_code(), reason="py-spy of this platform has no --native")
def test_functions_of_compiled_code_are_below_the_line_that_runs_them(tmp_path):
    pytest.importorskip("lightgbm")
    done, folder = start(tmp_path, program=BOOSTING, options="--sample-native")
    assert done.returncode == 0, done.stderr
    summary = summarise(open_run(str(folder)))
    [loop] = summary.sampled
    [boost] = [each for each in loop.regions if each.region == "boost"]
    assert {line.place.line for line in boost.lines} == {number_of("train", BOOSTING)}
    inner = [line.inner for line in boost.lines]
    assert len(set(inner)) == len(inner) > 1  # each function counts by itself
    assert any("LightGBM::" in each and "(lib_lightgbm.so)" in each for each in inner)
    owner = "Booster." if sys.version_info >= (3, 11) else ""
    updates = boxes(loop.tree, f"{owner}update (basic.py:")
    for name in ("LGBM_BoosterUpdateOneIter", "LightGBM::GBDT::TrainOneIter"):
        assert any(boxes(each, f"{name} (lib_lightgbm.so)") for each in updates)
    assert not boxes(loop.tree, "0x")
    assert main(["report", str(folder), "-o", str(tmp_path / "x.html")]) == 0
    assert "LightGBM::GBDT::TrainOneIter" in (tmp_path / "x.html").read_text()


def boxes(node, name: str) -> list:
    """Those of a flame graph whose names begin so, none of them within another one."""
    if node.name.startswith(name):
        return [node]
    return [found for child in node.children for found in boxes(child, name)]


def test_where_no_compiled_code_can_be_read_nothing_is_run(monkeypatch, tmp_path, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text("open('ran', 'w')")
    folder = failing_py_spy(tmp_path)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    assert main(["run", "--sample-native", "train.py"]) == 2
    says = capsys.readouterr().err
    assert f"--sample-native: {folder}/py-spy has no option --native" in says
    assert os.uname().machine in says
    monkeypatch.setattr(sampler.shutil, "which", lambda *_, **__: None)
    assert main(["run", "--sample-native", "train.py"]) == 2
    assert (
        "--sample-native needs py-spy: pip install 'overlay-injector[sample]'"
        in capsys.readouterr().err
    )
    assert not (tmp_path / ".inject").exists() and not (tmp_path / "ran").exists()


def test_stacks_of_compiled_code_are_read_as_py_spy_writes_them(tmp_path):
    """Those without a name are one function of their library: addresses differ between processes."""
    file = tmp_path / "x.stacks"
    file.write_text(
        "thread (1): Main;0x7fc6 (/lib/libc.so.6);<module> (/p/a.py:4);call (/b/_ctypes/call.c:943);"
        "f<void (int)>::g (/lib/x.so);0x1 (/lib/omp.so);0x2 (/lib/omp.so);0x3 (/lib/x.so) 12\n"
    )
    [stack] = stacks(str(file))
    module, call = Frame("<module>", "/p/a.py", 4), Frame("call", "/b/_ctypes/call.c", 943)
    named, unnamed = Frame("f<void (int)>::g", "/lib/x.so", 0), Frame(NAMELESS, "/lib/x.so", 0)
    libc, omp = Frame(NAMELESS, "/lib/libc.so.6", 0), Frame(NAMELESS, "/lib/omp.so", 0)
    assert stack == Stack((libc, module, call, named, omp, unnamed), 12)
    assert [frame.compiled for frame in stack.frames] == [True, False, True, True, True, True]
    script = Frame("main", "/bin/torchrun", 8)  # a file of Python without a suffix
    of_python = (script, Frame("h", "<string>", 0), Frame("old", "~", 0), Frame("f", "/p/a.py", 0))
    assert not any(frame.compiled for frame in of_python)
    headers = (Frame("std::sort", "/usr/include/c++/12/algorithm", 9), Frame("k", "/p/k.pyx", 3))
    assert all(frame.compiled for frame in headers)


def test_stacks_of_pythons_own_sampler_are_read_as_those_of_py_spy(tmp_path):
    """The counts as Python 3.15.2 has them: file, line, qualified name; the outermost call first."""
    module, thread = ("/p/train.py", 14, "<module>"), 11005
    counts = {
        ((module, ("/p/a b.py", 10, "A.meth"), ("/p/c.py", 9, "f.<locals>.g")), thread): 179,
        ((module,), thread): 22,
        ((("<frozen runpy>", 88, "_run_code"), ("~", 0, "odd;\nname")), 7): 1,
    }
    file = tmp_path / "x.stacks"
    file.write_text("".join(own_sampler.lines(counts)))
    train = Frame("<module>", "/p/train.py", 14)
    assert list(stacks(str(file))) == [
        Stack((train, Frame("A.meth", "/p/a b.py", 10), Frame("f.<locals>.g", "/p/c.py", 9)), 179),
        Stack((train,), 22),
        Stack((Frame("_run_code", "<frozen runpy>", 88), Frame(" name", "~", 0)), 1),
    ]


def test_lines_of_stacks_are_read_as_they_are_written(tmp_path):
    file = tmp_path / "x.stacks"
    file.write_text(
        "thread (1): Main; my thread;<module> (/p/a b.py:4);f.<locals>.g (/p/c.py:7) 12\n"
        "thread (1): Main 5\n"
        "no number\n"
        "\n"
        "thread (2): x;h (<string>) 1\n"
        "cut in the mid"
    )
    assert list(stacks(str(file))) == [
        Stack(
            (
                Frame("<module>", "/p/a b.py", 4),
                Frame("f.<locals>.g", "/p/c.py", 7),
            ),
            12,
        ),
        Stack((), 5),
        Stack((Frame("h", "<string>", 0),), 1),
    ]
