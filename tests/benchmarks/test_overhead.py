"""The measurement of overhead measures what it says."""

from __future__ import annotations

import json
import subprocess
import sys
from statistics import median

import pytest

from benchmarks.overhead import __main__ as command
from benchmarks.overhead import machine, measures, modules, table, tools
from benchmarks.overhead.processes import ProgramFailed, answer, cost
from benchmarks.overhead.spread import Spread, differences, spread


def test_a_median_has_bounds_around_it():
    found = spread([5.0, 1.0, 3.0, 2.0, 4.0])
    assert found.median == 3.0
    assert found.low <= 3.0 <= found.high
    assert found.n == 5
    assert spread([5.0, 1.0, 3.0, 2.0, 4.0]) == found


def test_a_single_sample_is_its_own_median():
    assert spread([2.5]) == Spread(2.5, 2.5, 2.5, 1)


def test_no_sample_is_an_error():
    with pytest.raises(ValueError):
        spread([])


def test_a_pair_gives_what_the_second_costs_over_the_first():
    assert differences([(1.0, 3.0), (2.0, 2.0)]) == [2.0, 0.0]


@pytest.mark.parametrize("program", ["events.py", "by_hand.py", "with_hooks.py"])
def test_a_program_gives_pairs_for_each_case(program, tmp_path):
    line = answer(
        [sys.executable, str(tools.PROGRAMS / program), "200", "3"], tmp_path
    ).splitlines()[-1]
    cases = json.loads(line)
    assert {"observe", "count", "override", "loop", "unprobed"} <= set(cases)
    assert all(len(pair) == 2 for pairs in cases.values() for pair in pairs)
    assert all(len(pairs) == 3 for pairs in cases.values())


def test_a_hook_costs_less_than_a_peer_s():
    """Goals are the table's business; that the order of magnitude is right is every run's."""
    line = answer([sys.executable, str(tools.PROGRAMS / "with_hooks.py"), "2000", "5"], tools.HOME)
    cases = json.loads(line.splitlines()[-1])
    for case in ("observe", "override", "loop"):
        assert median(differences(cases[case])) < 1500, f"{case}: ns an event"


@pytest.mark.parametrize("voirfile", ["fast.py", "streams.py"])
def test_probes_of_the_events_all_fire(voirfile, tmp_path):
    tool = tools.ours(tmp_path, "ours", voirfile)
    answer(tools.program(tool, "events.py", (50, 1)), tmp_path)
    (file,) = (tmp_path / "runs").glob("*/run.json")
    probes = json.loads(file.read_text())["probes"]
    assert len(probes) == 7
    # Once in the warm-up of 50 turns, once when it is measured.
    assert {probe["selector"]: probe["fired"] for probe in probes} == {
        probe["selector"]: 100 for probe in probes
    }


def test_a_program_that_fails_is_reported_and_left_out(capsys):
    def run(tool):
        if tool.name == "bad":
            raise ProgramFailed("bad: exit code 1")
        return 1.0

    good, bad = (tools.Tool(name, (), tools.HOME) for name in ("good", "bad"))
    assert measures.in_turns([good, bad], 3, run) == {"good": [1.0, 1.0, 1.0]}
    assert "bad is left out" in capsys.readouterr().err


def test_planning_a_suite_of_many_jobs_takes_time(tmp_path):
    line = answer([sys.executable, str(tools.PROGRAMS / "plan_many.py"), "400"], tmp_path)
    assert 0 < float(line) < 60


def test_rounds_begin_with_another_tool_each():
    seen = []
    pair = [tools.Tool(name, (), tools.HOME) for name in ("a", "b")]
    measures.in_turns(pair, 2, lambda tool: seen.append(tool.name))
    assert seen == ["a", "b", "b", "a"]


def test_the_cost_of_a_process_is_its_time(tmp_path):
    slept = cost([sys.executable, "-c", "import time; time.sleep(0.2)"], tmp_path)
    assert slept.wall >= 0.2
    assert slept.cpu < slept.wall
    with pytest.raises(ProgramFailed, match="exit code 3"):
        cost([sys.executable, "-c", "raise SystemExit(3)"], tmp_path)


def test_generated_modules_import(tmp_path):
    folder = modules.write(tmp_path / "modules")
    assert len(list(folder.glob("*.py"))) == modules.COUNT
    program = str(tools.PROGRAMS / "imports_many.py")
    done = subprocess.run(
        [sys.executable, program, str(folder)], capture_output=True, text=True, check=True
    )
    wall, cpu = map(int, done.stdout.split())
    assert 0 < cpu <= wall * 1.5


def measured(low, high):
    return {"observe": {"hook": Spread((low + high) / 2, low, high, 9)}}


def test_a_goal_is_missed_only_beyond_the_measurement_s_own_spread():
    assert table.missed(measured(0.08, 0.09)) == []
    assert table.missed(measured(0.09, 0.12)) == []
    (miss,) = table.missed(measured(0.11, 0.13))
    assert "observe a variable" in miss
    assert "goal 0.1" in miss


def test_what_was_not_measured_is_reported():
    assert "observe a variable" not in " ".join(table.unmeasured(measured(0.1, 0.1)))
    assert "start-up, empty script" in table.unmeasured(measured(0.1, 0.1))


def test_the_table_names_goal_and_columns():
    text = "\n".join(table.lines(measured(0.05, 0.06)))
    assert "goal" in text
    assert "hook" in text
    assert "0.055" in text


def test_the_machine_is_described():
    about = machine.describe(None)
    assert about["cores"]
    assert str(about["python"]).startswith("CPython")


@pytest.mark.release
def test_the_command_writes_what_it_measured(tmp_path, capsys):
    file = tmp_path / "out.json"
    command.main(["--no-peers", "--only", "events", "--rounds", "1", "--json", str(file)])
    kept = json.loads(file.read_text())
    assert kept["machine"]["python"]
    assert kept["measured"]["observe"]["hook"]["median"] > 0
    assert "observe a variable" in capsys.readouterr().out
