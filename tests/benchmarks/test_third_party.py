"""The measurement of third-party programs: what is run, what it costs, what is said of it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.overhead import __main__ as command
from benchmarks.overhead import third_party
from benchmarks.overhead.processes import Cost, ProgramFailed
from benchmarks.overhead.third_party import OUT, Program

PYTHON = Path(sys.executable)
SPENDS = "import time; end = time.process_time() + 0.1\nwhile time.process_time() < end: pass\n"


@pytest.fixture(scope="module")
def plan(tmp_path_factory):
    base = tmp_path_factory.mktemp("base")
    words = ["suite", "plan", str(third_party.SUITE), "--base", str(base)]
    words = [sys.executable, "-m", "injector", *words, "--devices", "cpu:1", "--json"]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def program(*words, folder=OUT, **environ):
    return Program("named", sys.executable, words, folder, environ)


def test_there_are_at_least_twenty_programs_and_each_can_run_without_a_voirfile(plan):
    found = third_party.programs(plan)
    assert len(found) >= 20
    assert len({each.name for each in found}) == len(found)
    only_probed = [
        each["family"] for each in plan["benchmarks"].values() if "only_probed" in each["settings"]
    ]
    assert only_probed == []


def test_nothing_of_the_suite_is_left_in_a_command_and_its_folder_is_a_run_s_own(plan):
    for each in third_party.programs(plan):
        assert "--voirfile" not in each.words
        assert not any(name.startswith(("INJECT", "MILABENCH")) for name in each.environ)
        everything = [*each.words, each.folder, *each.environ.values()]
        assert not any(".TIME" in word for word in everything), each
    cartpole = next(each for each in third_party.programs(plan) if each.name == "ppo-cartpole")
    assert cartpole.folder.startswith(OUT)
    assert cartpole.words[:2] == ("-m", "rl_zoo3.train")


def test_a_script_a_module_and_a_command_run_as_they_would_by_hand():
    runs = Path("runs")
    script, module = program("train.py", "--fast"), program("-m", "package")
    installed = program("/env/bin/train")
    assert script.command("python", runs) == [sys.executable, "train.py", "--fast"]
    assert module.command("python", runs) == [sys.executable, "-m", "package"]
    assert installed.command("python", runs) == ["/env/bin/train"]
    inject = str(PYTHON.with_name("inject"))
    words = [inject, "run", "--quiet", "--runs", "runs", "--", "-m", "package"]
    assert module.command("inject run -q", runs) == words


def test_a_run_costs_what_it_and_all_that_it_started_needs(tmp_path):
    (tmp_path / "spends.py").write_text(SPENDS)
    starts = f"import subprocess, sys; subprocess.Popen([sys.executable, {str(tmp_path / 'spends.py')!r}])"
    (tmp_path / "leaves.py").write_text(starts)
    assert third_party.run(program(str(tmp_path / "spends.py")), "python").cpu >= 0.1
    # It has ended before its child has, for which it does not wait.
    assert third_party.run(program(str(tmp_path / "leaves.py")), "python").cpu >= 0.1


def test_a_program_that_fails_says_why(tmp_path):
    (tmp_path / "fails.py").write_text("raise SystemExit('no data')")
    with pytest.raises(ProgramFailed, match="exit code 1: no data"):
        third_party.run(program(str(tmp_path / "fails.py")), "python")
    with pytest.raises(ProgramFailed, match="No such file"):
        third_party.run(program("/no/such/command"), "python")


def test_the_first_run_of_each_way_counts_for_nothing_and_rounds_begin_with_another():
    seen = []

    def way(name):
        return lambda _: seen.append(name) or Cost(float(len(seen)), 1.0)

    found = third_party.costs_by_way(program("x.py"), {name: way(name) for name in "ab"}, 2)
    assert seen == ["a", "b", "a", "b", "b", "a"]
    assert [cost.wall for cost in found["a"]] == [3.0, 6.0]


def test_a_failure_says_under_what():
    def fails(_):
        raise ProgramFailed("exit code 1: no")

    with pytest.raises(ProgramFailed, match="under inject run, exit code 1: no"):
        third_party.costs_by_way(program("x.py"), {"inject run": fails}, 2)


def costs(*added):
    return {
        f"program {number}": {
            "python": [Cost(1.0, 2.0)] * 3,
            "inject run": [Cost(1.0 + each, 2.0 + each)] * 3,
        }
        for number, each in enumerate(added)
    }


def test_the_summary_has_the_median_and_the_worst_and_names_what_was_not_run():
    found = {name: third_party.added_costs(each) for name, each in costs(0.1, 0.4, 0.2).items()}
    text = "\n".join(third_party.summary(found, {"other": "exit code 1: no data"}))
    assert "CPU median +10.00 (+5.00 … +20.00) %, +0.20 (+0.10 … +0.40) s" in text
    assert "CPU worst  +20.00 (+20.00 … +20.00) %, program 1" in text
    assert "wall worst  +40.00" in text
    assert "not run: other: exit code 1: no data" in text


def test_the_goal_is_missed_only_beyond_what_programs_differ_by():
    assert third_party.missed(costs(0.001, 0.5, 0.002)) == []
    (miss,) = third_party.missed(costs(0.1, 0.1, 0.1))
    assert "+5.0 % of CPU" in miss
    assert third_party.missed({}) == ["third-party programs: none could be run"]


def test_it_is_measured_only_where_it_is_named():
    assert "programs" in command.PARTS
    assert "programs" not in command.DEFAULT
