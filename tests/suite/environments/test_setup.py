"""A whole suite got ready: each thing once, a failure is its own benchmarks' alone, and what is said."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from suite_ground import OWN_MAIN, Repository, definition, own

from injector.cli.suite import main
from injector.suite.environments import install_groups, own_package

ROOT = Path(__file__).parents[3]
COUNT = """\
import os, sys
open(os.environ["COUNTED"], "a").write("run\\n")
os.makedirs(sys.argv[1], exist_ok=True)
"""


@pytest.fixture
def workplace(tmp_path, monkeypatch, house):
    """The current folder, a base below it, and a stand-in for this package."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("INJECT_BASE", str(tmp_path / "base"))
    stand_in = own(tmp_path / "own", OWN_MAIN)
    monkeypatch.setattr(own_package, "find_own_package", lambda base: stand_in)
    return tmp_path


def suite(workplace, text):
    (workplace / "suite.yaml").write_text(text)
    return "suite.yaml"


def done(capsys, *words):
    """Exit code, and what was printed on both streams."""
    code = main([str(word) for word in words])
    messages = capsys.readouterr()
    return code, messages.out, messages.err


TWO_GROUPS = """\
one: {run: a.py, install_group: g, requirements: {packages: [wall]}}
two: {run: a.py, install_group: g, requirements: {packages: [stone==1.0]}}
other: {run: a.py, requirements: {packages: [roof]}}
"""


def test_each_group_is_installed_once(workplace, capsys):
    file = suite(workplace, TWO_GROUPS)
    code, out, err = done(capsys, "install", file, "--dry-run")
    assert code == 0
    assert [line.split()[:4] for line in out.splitlines()] == [
        ["environment", "g", "to", "do"],
        ["environment", "other", "to", "do"],
    ]
    assert not (workplace / "base").exists() and not err
    code, out, err = done(capsys, "install", file)
    assert code == 0, out + err
    assert [line.split()[2] for line in out.splitlines()] == ["made", "made"]
    assert "environment g: installing with" in err
    code, out, err = done(capsys, "install", file)
    assert [line.split()[2] for line in out.splitlines()] == ["there", "there"]
    assert (code, err) == (0, "")


def test_what_variables_rule_out_is_left_out_and_named(workplace, capsys):
    definition(workplace / "d", prepare_py=COUNT)
    text = "variables: {big: false}\none: {definition: d, prepare: prepare.py"
    text += ", requirements: {packages: [wall]}"
    for verb in ("install", "prepare"):
        file = suite(workplace, f"{text}, requires_capabilities: [big]}}\n")
        code, out, err = done(capsys, verb, file)
        assert (code, out) == (0, "nothing to do\n"), err
        assert "one: left out, it needs big" in err
        assert "one" in done(capsys, verb, file, "-P", "big=true", "--dry-run")[1]
        # What a machine has not, the one that it runs on may have.
        file = suite(workplace, f"{text}, requires_capabilities: [gpu_count > 1000]}}\n")
        assert "one" in done(capsys, verb, file, "--dry-run")[1]


def test_a_group_holds_what_all_its_benchmarks_want_whichever_are_chosen(workplace, capsys):
    file = suite(workplace, TWO_GROUPS)
    code, out, _ = done(capsys, "install", file, "--select", "one")
    assert (code, len(out.splitlines())) == (0, 1)
    record = json.loads((workplace / "base/venv/g" / install_groups.RECORD).read_text())
    assert record["packages"]["stone"] == "1.0"
    code, out, _ = done(capsys, "install", file, "--select", "two")
    assert out.split() == ["environment", "g", "there"]


def test_a_failure_is_its_own_group_s_alone(workplace, capsys):
    text = TWO_GROUPS + "bad: {run: a.py, requirements: {packages: [nonsuch==1]}}\n"
    text += (
        f"lost: {{run: a.py, install_group: g, origin: {{git: ./nowhere, commit: {'a' * 40}}}}}\n"
    )
    code, out, _ = done(capsys, "install", suite(workplace, text))
    assert code == 1
    lines = {line.split("  ")[0]: line for line in out.splitlines() if line[:1].strip()}
    assert "made" in lines["environment g"] and "made" in lines["environment other"]
    assert "failed" in lines["environment bad"] and "failed" in lines["source nowhere"]
    assert "nonsuch" in out and "needed by bad" in out
    assert out.splitlines()[-1] == "2 of 4 failed"


def test_an_environment_that_installs_a_source_fails_with_it(workplace, capsys):
    commit = "a" * 40
    text = f"lost: {{run: a.py, origin: {{git: ./nowhere, commit: {commit}, install: true}}}}\n"
    code, out, _ = done(capsys, "install", suite(workplace, text))
    assert code == 1
    assert "lost installs its source nowhere, which failed" in out
    assert not (workplace / "base/venv/lost").exists()


def test_every_mistake_is_reported_before_anything_is_done(workplace, capsys):
    text = "one: {run: a.py, requirements: no.txt}\n"
    text += "two: {run: a.py, origin: {package: 'x>=1'}}\n"
    text += "three: {run: a.py, requirements: {packages: [wall]}}\n"
    text += "four: {run: a.py, origin: {git: ./nowhere, commit: abc}}\n"
    code, out, err = done(capsys, "install", suite(workplace, text))
    assert (code, out) == (2, "")
    assert "there is no file" in err and "suite.yaml:1" in err
    assert "'x>=1' is no pin" in err and "suite.yaml:2" in err
    assert "suite.yaml:4: four.origin.commit: " in err and "'abc' is no whole commit" in err
    assert not (workplace / "base/venv").exists()


def test_the_current_environment_is_looked_at_and_left_alone(workplace, capsys):
    text = "one: {run: a.py, requirements: {packages: [pytest, nonsuch==1]}}\n"
    code, out, _ = done(capsys, "install", suite(workplace, text), "--use-current-env")
    assert code == 1
    assert "nonsuch==1 is not installed (for one)" in out
    assert not (workplace / "base/venv").exists()
    text = "one: {run: a.py, requirements: {packages: [pytest]}}\n"
    assert done(capsys, "install", suite(workplace, text), "--use-current-env")[0] == 0


def test_steps_are_run_once_each_and_a_failure_stops_no_other(workplace, capsys, monkeypatch):
    counted = workplace / "counted"
    monkeypatch.setenv("COUNTED", str(counted))
    definition(workplace / "good", prepare_py=COUNT)
    definition(workplace / "bad", prepare_py=COUNT + "sys.exit('it is broken')\n")
    text = (
        "a: {definition: good}\nb: {definition: good}\nc: {definition: bad}\nd: {definition: bad}\n"
    )
    file = suite(workplace, text)
    code, out, err = done(capsys, "prepare", file, "--use-current-env")
    assert code == 1
    assert counted.read_text().count("run") == 2
    assert "it is broken" in out and "needed by c, d" in out and "1 of 2 failed" in out
    assert "prepare a: " in err
    assert done(capsys, "prepare", file, "--use-current-env", "--select", "b")[:2] == (
        0,
        "data of b  there\n",
    )
    assert counted.read_text().count("run") == 2


def test_preparing_wants_an_environment(workplace, capsys):
    definition(workplace / "good", prepare_py=COUNT)
    code, out, _ = done(capsys, "prepare", suite(workplace, "a: {definition: good}\n"))
    assert code == 1
    assert (
        "the environment a is not installed, and --use-current-env is not given: inject suite"
        in out
    )


def test_two_steps_do_not_fill_one_folder_in_two_ways(workplace, capsys):
    definition(workplace / "good", prepare_py=COUNT)
    text = "a: {definition: good, prepare: {script: prepare.py, data: x}}\n"
    text += "b: {definition: good, prepare: {script: prepare.py, data: x, argv: [1]}}\n"
    code, _, err = done(capsys, "prepare", suite(workplace, text), "--use-current-env")
    assert code == 2
    assert "as a does in another way" in err and "prepare.data" in err


def test_what_a_benchfile_computes_is_reported(workplace, capsys):
    place = workplace / "theirs"
    place.mkdir()
    text = "class B(Package):\n    @property\n    def argv(self): return []\n\n__pack__ = B\n"
    (place / "benchfile.py").write_text(text)
    _, _, err = done(capsys, "install", suite(workplace, "a: {definition: theirs}\n"), "--dry-run")
    assert "benchfile.py:3: argv is computed" in err


def test_a_base_that_cannot_be_made(workplace, capsys, monkeypatch):
    (workplace / "file").write_text("")
    file = suite(workplace, TWO_GROUPS)
    code, _, err = done(capsys, "install", file, "--base", workplace / "file" / "base")
    assert code == 2
    assert "name another folder: --base" in err


@pytest.mark.slow
def test_a_group_from_the_registry_with_this_very_package(tmp_path):
    """The whole way, nothing standing in for anything: a commit, an environment, its data."""
    repository = Repository(tmp_path / "repo")
    commit = repository.commit(train_py="import six\n")
    definition(
        tmp_path / "bench",
        benchmark_yaml=f"run: train.py\norigin: {{git: '{repository.folder}', commit: {commit}}}\n",
        requirements_txt="six==1.17.0\n",
        prepare_py="import six, sys, pathlib\n"
        "pathlib.Path(sys.argv[1], 'six.txt').write_text(six.__version__)\n",
    )
    (tmp_path / "suite.yaml").write_text("bench: {definition: bench}\n")
    environ = {**os.environ, "PYTHONPATH": str(ROOT)}

    def inject(*words):
        messages = subprocess.run(
            [sys.executable, "-m", "injector", "suite", *words, "suite.yaml", "--base", "base"],
            cwd=tmp_path,
            env=environ,
            capture_output=True,
            text=True,
        )
        assert messages.returncode == 0, messages.stdout + messages.stderr
        return messages.stdout

    assert inject("install").count("made") == 2
    assert inject("install").count("there") == 2
    assert "made" in inject("prepare")
    assert (tmp_path / "base/data/bench/six.txt").read_text() == "1.17.0"
    python = tmp_path / "base/venv/bench/bin/python"
    where = subprocess.check_output(
        [python, "-I", "-c", "import injector; print(injector.__file__)"], text=True
    )
    assert Path(where.strip()).parents[1] == ROOT
    lock = (tmp_path / "base/venv/bench.lock.txt").read_text()
    assert "six==1.17.0 --hash=sha256:" in lock and "overlay-injector" not in lock
