"""What is measured on training loops is all there; a tiny round of it runs. No time is asserted."""

from __future__ import annotations

import json
import sys

import pytest

from benchmarks.overhead import __main__ as command
from benchmarks.overhead import loops, profilers, sheets, table, tools
from benchmarks.overhead.processes import cost
from benchmarks.overhead.spread import Spread
from injector.analysis.studies import studies_in_run
from injector.store.folder import open_run

pytest.importorskip("torch")
NOBODY = loops.Peers(None, {})
EVERYBODY = {name: f"/peers/{name}/python" for name in ("traceml", "pyinstrument", "viztracer")}


def test_every_part_can_be_requested():
    assert set(command.LOOPS) == {
        *("boosting", "steps", "small", "regions", "starts", "studies", "every"),
    }
    assert "truth" in command.PARTS


def test_every_tool_has_a_column(tmp_path):
    columns = {name for sheet in sheets.SHEETS for name in sheet.columns}
    for made in (profilers.loop_tools, profilers.start_tools, profilers.step_counters):
        assert {tool.name for tool in made("/peers/python", EVERYBODY, tmp_path)} <= columns


def test_only_a_loop_that_traceml_knows_of_is_another_program(tmp_path):
    (told,) = (t for t in profilers.others(None, EVERYBODY, tmp_path, None, "x.py") if t.replaces)
    assert told.name == "traceml"
    words = tools.program(told, "train_steps.py", ("file", 1))
    assert words[-4:] == [str(tools.PROGRAMS / "x.py"), "--args", "file", "1"]


@pytest.mark.parametrize(
    "program", ["train_steps.py", pytest.param("train_by_hand.py", marks=pytest.mark.release)]
)
def test_a_loop_is_timed_beside_its_twin(program, tmp_path):
    file = tmp_path / "out.json"
    cost([sys.executable, str(tools.PROGRAMS / program), str(file), "0.01", "70", "500"], tmp_path)
    found = json.loads(file.read_text())
    assert list(found) == ["70", "500"]
    assert all(len(block) == 4 and min(block) > 0 for each in found.values() for block in each)


def test_a_submodule_is_timed(tmp_path):
    file = tmp_path / "out.json"
    cost([sys.executable, str(tools.PROGRAMS / "submodules.py"), str(file), "1", "2"], tmp_path)
    assert len(json.loads(file.read_text())) == 2


@pytest.mark.release
def test_calls_are_recorded_and_compared(tmp_path):
    measured = loops.calls(tmp_path, 1, 0.01)
    wanted = {row.key for row in sheets.CALLS.rows if row.key.startswith("regions")}
    assert wanted == set(measured)
    assert {"by hand", "regions"} <= set(measured["regions every"])
    assert "devices" in measured["regions every, device"]


@pytest.mark.release
def test_a_small_loop_is_timed_with_and_without_each_kind_of_hook(tmp_path):
    measured = loops.small(tmp_path, 1, 0.02)
    assert set(measured) == {row.key for row in sheets.SMALL.rows}
    assert set(measured["small loop"]) == {"python", "io + step", "auto"}
    assert set(measured["small value"]) == {"ov.value"}
    assert set(measured["small every"]) == {"auto"}  # nothing else has hooks in PyTorch


def test_calls_of_methods_are_timed(tmp_path):
    measured = loops.methods(tmp_path, 1, 0.01)
    assert set(measured) == {row.key for row in sheets.CALLS.rows if row.key.startswith("methods")}
    (run,) = (tmp_path / "runs").glob("*")
    assert '"region":"h2d"' in next((run / "raw").glob("*.log")).read_text()


@pytest.mark.release
def test_a_trial_is_timed_and_recorded(tmp_path):
    pytest.importorskip("optuna")
    pytest.importorskip("sklearn")
    measured = loops.studies(tmp_path, 1, 0.02)
    assert set(measured) == {row.key for row in sheets.STUDIES.rows}
    assert all(cells["python"].median > 0 for cells in measured.values())
    states = [
        trial.state
        for run in (tmp_path / "runs").iterdir()
        for study in studies_in_run(open_run(str(run)))
        for trial in study.trials
    ]
    # Of Optuna and of scikit-learn: one before, and four that are timed.
    assert states == ["complete"] * 2 * (1 + 4)


@pytest.mark.release
def test_what_a_fast_loop_loses_is_counted(tmp_path):
    assert loops.every(NOBODY, tmp_path, 1, 0.001)["every"] == {
        "io + step": Spread(0.0, 0.0, 0.0, 1),
        "auto": Spread(0.0, 0.0, 0.0, 1),
    }


def test_a_lost_step_misses_the_goal():
    lost = {"every": {"auto": Spread(1.0, 1.0, 1.0, 1)}}
    (miss,) = table.missed(lost)
    assert "60 000 steps" in miss
    assert table.unmeasured(lost)
    assert "observe a variable" not in table.unmeasured(lost)


def test_blocks_become_rows_of_differences():
    blocks = {
        "python": [[(1e3, 2e3, 3e3, 10e3)], [(1e3, 2e3, 5e3, 20e3)]],
        "io + step": [[(1e3, 2e3, 4e3, 11e3)], [(1e3, 2e3, 6e3, 22e3)]],
    }
    rows = dict(loops.rows("70", blocks))
    assert rows["steps 70 CPU"]["python"].median == 4.0
    assert rows["steps 70 CPU"]["io + step"].median == 1.0
    assert rows["steps 70 slower"]["io + step"].median == pytest.approx(10.0)
    assert rows["steps 70 twins"]["io + step"].median == 4.0
