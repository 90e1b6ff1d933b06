"""What the document on Deep500's timers in MAELSTROM says of them, sentence by sentence.

Training loops behind a ``fit`` are in ``tests/voirfiles``.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from search_path import search_path
from small_run import inject, inject_here
from wandb_file import ReadRun

import injector
from injector.analysis.query import Words
from injector.analysis.summary import Summary, summarise
from injector.analysis.training_loop import TrainingLoop
from injector.analysis.views import regions
from injector.export.content import Content
from injector.measure import device
from injector.store.folder import Run, open_run

PROGRAMS = Path(__file__).parents[1] / "programs" / "timers"
shared = pytest.mark.xdist_group("timers")  # a run of each program for all of these


class Ran:
    """A program under ``inject``, beside the same one without."""

    def __init__(self, folder: Path, program: str, *words: str) -> None:
        path = str(PROGRAMS / program)
        self.done = inject(folder, "run", "--into", "r", *words, path)
        assert self.done.returncode == 0, self.done.stderr
        self.run: Run = open_run(str(folder / "r"))
        self.summary: Summary = summarise(self.run)

    @property
    def loop(self) -> TrainingLoop:
        assert self.summary.profile is not None
        [loop] = self.summary.profile.loops
        return loop

    def shares(self) -> dict[str, float]:
        return self.loop.tree.shares()


@pytest.fixture(scope="module")
def torch_loop(tmp_path_factory: pytest.TempPathFactory) -> Ran:
    pytest.importorskip("torch")
    return Ran(tmp_path_factory.mktemp("torch"), "torch_loop.py")


@pytest.fixture(scope="module")
def sklearn_loop(tmp_path_factory: pytest.TempPathFactory) -> Ran:
    pytest.importorskip("sklearn")
    return Ran(tmp_path_factory.mktemp("sklearn"), "sklearn_loop.py")


@pytest.fixture(scope="module")
def two_ranks(tmp_path_factory: pytest.TempPathFactory) -> Ran:
    return Ran(tmp_path_factory.mktemp("ranks"), "two_ranks.py")


# --- a generic timer interface --------------------------------------------------------------------


def test_start_and_end_mark_a_region_and_measure_what_elapses() -> None:
    timer = injector.Timer()
    before = time.perf_counter()
    timer.start("load")
    time.sleep(0.002)
    timer.end("load")
    assert 0.002 <= timer.statistics("load").total <= time.perf_counter() - before


def test_regions_with_different_keys_nest_and_overlap() -> None:
    timer = injector.Timer()
    timer.start("outer")
    timer.start("inner")
    timer.end("inner")
    timer.start("across")
    timer.end("outer")
    timer.end("across")
    assert timer.keys() == ["inner", "outer", "across"]


def test_a_key_ends_once_it_was_started_and_starts_once() -> None:
    timer = injector.Timer()
    with pytest.raises(ValueError, match="was not started"):
        timer.end("x")
    timer.start("x")
    with pytest.raises(ValueError, match="was already started"):
        timer.start("x")


def test_statistics_of_known_durations() -> None:
    timer = injector.Timer()
    for seconds in (1.0, 2.0, 3.0):
        timer.add("x", seconds)
    found = timer.statistics("x")
    assert (found.min, found.mean, found.median, found.max, found.stdev) == (1, 2, 2, 3, 1)
    timer.add("one", 4.0)
    assert timer.statistics("one").stdev == 0


@shared
def test_a_key_describes_a_region_for_later_analysis(sklearn_loop: Ran) -> None:
    columns = regions(sklearn_loop.run)
    words = columns["region"]
    assert isinstance(words, Words)
    names = [words.words[code] for code in words.codes]
    counts = {name: names.count(name) for name in ("epoch", "io", "forward", "Other")}
    assert counts == {"epoch": 2, "io": 20, "forward": 20, "Other": 20}


# --- default keys ---------------------------------------------------------------------------------


@shared
def test_the_default_keys_make_a_training_loop(torch_loop: Ran) -> None:
    """Epoch, Batch, IO, Forward, Backward, with steps and epochs, items and the verdict."""
    loop = torch_loop.loop
    assert (loop.paced_by, loop.steps) == ("step", 24)
    assert loop.place is not None and loop.place.text == 'timer.start("Batch")'
    assert [epoch.steps for epoch in loop.epochs] == [8, 8, 8]
    names = {node.name for node in loop.tree.children}
    assert {"io", "h2d", "forward", "backward", "optimizer"} <= names
    assert sum(torch_loop.shares().values()) == pytest.approx(1)


@shared
def test_probes_within_the_keys_still_know_items_and_losses(torch_loop: Ran) -> None:
    loop = torch_loop.loop
    assert (loop.items_per_step, loop.epochs[0].items) == (16, 128)
    assert loop.epochs[0].losses and loop.epochs[0].losses[0].n == 8


@shared
def test_what_is_not_trained_is_no_batch(torch_loop: Ran) -> None:
    assert torch_loop.summary.profile is not None
    [passes] = torch_loop.summary.profile.evaluations
    assert (passes.passes, passes.batches) == (3, 6)


@shared
def test_communication_within_a_batch(two_ranks: Ran) -> None:
    """So an application can determine whether it is bound by communication."""
    assert all(track.regions["comm"] > 0 for track in two_ranks.loop.ranks)
    assert two_ranks.loop.ranks[0].regions["comm"] > two_ranks.loop.ranks[1].regions["comm"]


@shared
def test_an_other_key_and_new_ones_are_regions_of_their_own(sklearn_loop: Ran) -> None:
    assert sklearn_loop.shares()["Other"] > 0
    [overlap] = sklearn_loop.loop.overlaps
    assert (overlap.later.name, overlap.earlier.name) == ("Other", "forward")


# --- clocks of the host and of devices ------------------------------------------------------------


def test_the_default_is_the_hosts_clock_of_high_resolution() -> None:
    timer = injector.Timer()
    for _ in range(100):
        timer.start("x")
        timer.end("x")
    assert timer.statistics("x").median < 1e-4
    assert timer.keys(device=True) == []


class Event:
    """An event of CUDA as PyTorch has it; the device of the test does what it is made to do."""

    now = 0.0
    """Milliseconds at the end of the queue."""
    done = 0.0
    synchronised = 0
    made = 0

    def __init__(self, enable_timing: bool = False) -> None:
        assert enable_timing
        type(self).made += 1

    def record(self, stream: object = None) -> None:
        self.stream, self.at = stream, self.now

    def query(self) -> bool:
        return self.at <= self.done

    def elapsed_time(self, end: Event) -> float:
        if not (self.query() and end.query()):
            raise RuntimeError("an event was not completed")
        return end.at - self.at

    def synchronize(self) -> None:
        type(self).synchronised += 1
        type(self).done = self.now


@pytest.fixture
def cuda(monkeypatch: pytest.MonkeyPatch) -> Iterator[type[Event]]:
    """PyTorch with a device of CUDA, or of HIP, whose API is the same."""
    event = type("Event", (Event,), {})
    backend = SimpleNamespace(
        Event=event,
        is_initialized=lambda: True,
        current_device=lambda: 0,
        current_stream=lambda index: f"stream of {index}",
        is_current_stream_capturing=lambda: False,
    )
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(cuda=backend))
    device.use(None)
    yield event
    monkeypatch.undo()
    device.use(None)


@pytest.mark.parametrize("given", ["cuda:1", "cuda", True])
def test_device_events_synchronise_only_on_request(cuda: Any, given: Any) -> None:
    timer = injector.Timer(device=given)
    for _ in range(100):
        timer.start("Forward")
        cuda.now += 5.0
        timer.end("Forward")
    assert timer.keys(device=True) == [] and cuda.synchronised == 0
    timer.synchronize()
    assert cuda.synchronised == 1
    found = timer.statistics("Forward", device=True)
    assert (found.n, found.min, found.max) == (100, 0.005, 0.005)
    assert timer.statistics("Forward").max < 1


def test_the_cost_of_events_is_shared_by_many_regions(cuda: Any) -> None:
    """They are used again, as soon as the device has passed them."""
    timer = injector.Timer(device="cuda:0")
    for _ in range(1000):
        timer.start("x")
        timer.end("x")
        cuda.done = cuda.now = cuda.now + 1.0
    assert timer.statistics("x", device=True).n == 1000 and cuda.made < 100


def test_host_and_device_times_of_a_key_are_kept_apart(cuda: Any) -> None:
    timer = injector.Timer(device="cuda:0")
    timer.start("x")
    cuda.now += 3000.0
    timer.end("x")
    timer.synchronize()
    assert timer.statistics("x", device=True).total == 3 and timer.statistics("x").total < 3


def test_another_accelerator_or_framework_plugs_in_a_clock() -> None:
    class Clock:
        name = "npu:0"

        def record(self) -> float:
            return time.process_time()

        def elapsed(self, begin: float, end: float) -> float:
            return end - begin

    timer = injector.Timer(clock=Clock())
    timer.start("x")
    time.sleep(0.01)
    timer.end("x")
    assert timer.statistics("x", device=True).total < 0.01 <= timer.statistics("x").total


CLOCK = """
class Ticks:
    name = "npu:0"
    now = 0.0

    def record(self):
        Ticks.now += 1.0
        return Ticks.now

    def elapsed(self, begin, end):
        return end - begin


def instrument_loop(ov):
    ov.loader("//main > loader", device=Ticks())
"""
BATCHES = """
def main():
    loader = [[step] * 4 for step in range(12)]
    print(sum(sum(batch) for batch in [each for each in loader]))
    for batch in loader:
        print(sum(batch))


main()
"""


def test_a_loader_of_an_unmodified_program_by_a_plugged_in_clock(tmp_path: Path) -> None:
    """Each fetch is two moments of a clock that counts its readings, each step at least as many."""
    pytest.importorskip("numpy")
    (tmp_path / "x.py").write_text(CLOCK)
    (tmp_path / "train.py").write_text(BATCHES)
    done = inject(tmp_path, "run", "--into", "r", "--voirfile", "x.py", "train.py")
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["264", *(str(step * 4) for step in range(12))]
    profile = summarise(open_run(str(tmp_path / "r"))).profile
    assert profile is not None
    loop = max(profile.loops, key=lambda loop: loop.steps)
    fetches = next(node for node in loop.tree.children if node.name == "io")
    assert loop.steps == 12 and fetches.device is not None and loop.tree.device is not None
    assert fetches.device.min == fetches.device.max == 1.0
    assert loop.tree.device.min >= 1.0 > loop.tree.host.max, (
        "ticks, which are no seconds of the host"
    )


# --- distributed training -------------------------------------------------------------------------


@shared
def test_all_processes_are_timed_each_for_itself(two_ranks: Ran) -> None:
    """Load imbalance shows: the second rank reads longer, and the first one waits for it."""
    ranks = two_ranks.loop.ranks
    assert [track.rank for track in ranks] == [0, 1] and {track.steps for track in ranks} == {8}
    assert ranks[1].regions["io"] > ranks[0].regions["io"]


@shared
def test_or_a_single_one(two_ranks: Ran) -> None:
    columns = regions(two_ranks.run)
    words, ranks = columns["region"], columns["rank"]
    assert isinstance(words, Words)
    names = [words.words[code] for code in words.codes]
    found = [rank for name, rank in zip(names, ranks, strict=True) if name == "first rank"]
    assert found == [0.0] * 8


# --- independent of a framework -------------------------------------------------------------------


def test_no_reimplementation_and_no_dependency() -> None:
    program = (
        "import sys, injector; timer = injector.Timer(); timer.start('x'); timer.end('x');"
        "print(timer.statistics('x').n, sorted({'torch', 'numpy', 'yaml', 'typing'} & {*sys.modules}))"
    )
    done = subprocess.run(
        [sys.executable, "-S", "-c", f"import sys; sys.path = {sys.path!r}; {program}"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == "1 []\n", done.stderr


@shared
def test_scikit_learn(sklearn_loop: Ran) -> None:
    loop = sklearn_loop.loop
    assert (loop.paced_by, loop.steps, [e.steps for e in loop.epochs]) == ("step", 20, [10, 10])
    assert "Batch 20\n" in sklearn_loop.done.stdout


@shared
def test_the_example_prints_the_same_without_inject(torch_loop: Ran) -> None:
    path = str(PROGRAMS / "torch_loop.py")
    env = {**os.environ, "PYTHONPATH": search_path()}
    plain = subprocess.run([sys.executable, path], capture_output=True, text=True, env=env)
    assert (plain.stdout, plain.stderr) == (torch_loop.done.stdout, "")
    assert "IO 24\n" in plain.stdout


@pytest.mark.parametrize("number", [0, 1])
def test_the_examples_of_the_docs_run(number: int, capsys: pytest.CaptureFixture[str]) -> None:
    page = (Path(__file__).parents[2] / "docs" / "timers.md").read_text()
    exec(re.findall(r"```python\n(.*?)```", page, re.S)[number], {"__name__": "example"})
    expected = ["['IO', 'Forward', 'Batch', 'Epoch'] 40\n", "True\n"]
    assert capsys.readouterr().out == expected[number]


# --- logging --------------------------------------------------------------------------------------


@shared
def test_keys_are_metrics_of_trackers(torch_loop: Ran, sklearn_loop: Ran) -> None:
    content = Content(torch_loop.run, torch_loop.summary)
    series = {one.name: one for one in content.series}
    for region in ("io", "h2d", "forward", "backward", "optimizer"):
        assert len(series[f"train/regions/{region}"].values) == 24
    figures = Content(sklearn_loop.run, sklearn_loop.summary).figures
    assert figures["train/share/Other"].value > 0 and figures["train/steps"].value == 20
    assert figures["regions/epoch/calls"].value == 2


KEYS = {
    "IO": "train/regions/io",
    "Forward": "train/regions/forward",
    "Backward": "train/regions/backward",
    "Other": "train/regions/Other",
    "Epoch": "regions/epoch/time",
    "Save": "regions/Save/time",
}
"""Of the program, and the series that a tracker has of each."""


@pytest.fixture(scope="module")
def tracked(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, list[float]]]:
    """The folder of a run that is tracked as it goes on and exported afterwards, and what its program says
    of each key: how many there were, the least, the largest and the sum.
    """
    for name in ("mlflow", "wandb"):
        pytest.importorskip(name)
    folder = tmp_path_factory.mktemp("tracked")
    words = ("-q", "--no-monitor", "--into", "r", str(PROGRAMS / "plain_loop.py"))
    quiet = {"MLFLOW_DISABLE_TELEMETRY": "true", "MLFLOW_EXPERIMENT_NAME": "tracked"}
    trackers = ("--track", f"mlflow=sqlite:///{folder}/s.db", "--track", f"wandb={folder}/tracked")
    done = inject(folder, "run", *trackers, *words, **quiet)
    assert done.returncode == 0, done.stderr
    for more in (
        ("mlflow", "--uri", f"sqlite:///{folder}/s.db", "--project", "exported"),
        ("wandb", "-o", "exported"),
    ):
        sent = inject_here(folder, "export", "r", "--to", *more)
        assert sent.returncode == 0, sent.stderr
    rows = [line.split() for line in done.stdout.splitlines()]
    return folder, {key: [*map(float, figures)] for key, *figures in rows}


def check_keys(
    printed: dict[str, list[float]], series: Callable[[str], list[float]], figures: dict[str, float]
) -> None:
    """A tracker has each duration that the program's Timer has."""
    assert [printed[key][0] for key in ("Batch", *KEYS)] == [24, 24, 24, 24, 24, 3, 2]
    for key, name in KEYS.items():
        found = series(name)
        sums = [len(found), min(found), max(found), sum(found)]
        assert sums == pytest.approx(printed[key], rel=1e-4, abs=1e-7), key
    losses = series("loss")
    assert len(losses) == 24 and losses[0] > losses[-1] > 0
    assert (figures["train/steps"], figures["train/epochs"]) == (24, 3)
    assert figures["train/epoch_time/mean"] <= 1.01 * printed["Epoch"][3] / 3
    assert figures["regions/Save/seconds"] == pytest.approx(printed["Save"][3], rel=1e-4)
    assert sum(value for name, value in figures.items() if "/share/" in name) == pytest.approx(1)


@pytest.mark.release
@pytest.mark.xdist_group("trackers of timers")
@pytest.mark.parametrize("how", ["tracked", "exported"])
def test_recorded_times_reach_mlflow(
    tracked: tuple[Path, dict[str, list[float]]], how: str
) -> None:
    from mlflow import MlflowClient

    client = MlflowClient(f"sqlite:///{tracked[0]}/s.db")
    [experiment] = client.search_experiments(filter_string=f"name = '{how}'")
    [run] = client.search_runs([experiment.experiment_id])

    def series(name: str) -> list[float]:
        points = client.get_metric_history(run.info.run_id, name)
        assert [each.step for each in points] == [*range(len(points))], name
        return [each.value for each in points]

    check_keys(tracked[1], series, run.data.metrics)


@pytest.mark.release
@pytest.mark.xdist_group("trackers of timers")
@pytest.mark.parametrize("how", ["tracked", "exported"])
def test_recorded_times_reach_weights_and_biases(
    tracked: tuple[Path, dict[str, list[float]]], how: str
) -> None:
    [folder] = (tracked[0] / how / "wandb").glob("offline-run-*")
    run = ReadRun(folder)
    assert run.axes["regions/Save/time"] == "call" and run.exit == 0
    check_keys(tracked[1], lambda name: [value for _, value in run.points(name)], run.summary)
