"""The pack is in order: pinned, complete, and its voirfiles say something that can be parsed."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from benchmarks import pack
from injector.rewrite import selector

HERE = Path(pack.__file__).parent
NAMES = pack.names()
KEYS = {
    "description",
    "origin",
    "run",
    "argv",
    "folder",
    "env",
    "voir",
    "plan",
    "weight",
    "tags",
    "max_duration",
}
FILES = {"README.md", "benchmark.yaml", "prepare.py", "requirements.txt", "voirfile.py"}


def test_there_are_the_shapes_that_differ():
    runs = [pack.load(name).settings["run"] for name in NAMES]
    assert len(NAMES) >= 5
    assert any(run.startswith("-m ") for run in runs)
    assert any(run.endswith(".py") for run in runs)
    assert any(not run.startswith("-m ") and not run.endswith(".py") for run in runs)


@pytest.mark.parametrize("name", NAMES)
def test_a_benchmark_has_only_keys_that_are_read(name):
    settings = pack.load(name).settings
    assert set(settings) <= KEYS
    assert {"description", "origin", "run", "max_duration"} <= set(settings)
    assert set(settings["origin"]) <= {"package", "license", "archive"}


@pytest.mark.parametrize("name", NAMES)
def test_a_folder_holds_no_code_of_the_program(name):
    found = {path.name for path in (HERE / name).iterdir() if path.name != "__pycache__"}
    assert found <= FILES
    assert found >= FILES - {"prepare.py"}


@pytest.mark.parametrize("name", NAMES)
def test_everything_is_pinned_and_the_origin_is_installed(name):
    lines = (HERE / name / "requirements.txt").read_text().splitlines()
    pins = [line for line in lines if line and not line.startswith("#")]
    assert all(re.fullmatch(r"[A-Za-z0-9._-]+==[A-Za-z0-9.]+", pin) for pin in pins)
    assert pack.load(name).package in pins
    torch = [pin for pin in pins if pin.startswith("torch==")]
    assert pins[0] == torch[0], "torch is resolved first, or a range of another package chooses it"


@pytest.mark.parametrize("name", NAMES)
def test_selectors_of_a_voirfile_parse(name):
    wheres = list(selectors((HERE / name / "voirfile.py").read_text()))
    assert wheres
    for where in wheres:
        selector.parse(where)


def selectors(text):
    """The first argument of every ``ov.something("…")``, with f-strings' names filled in."""
    tree = ast.parse(text)
    names = {
        node.targets[0].id: node.value.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.targets[0], ast.Name)
    }
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and getattr(node.func.value, "id", "") == "ov"
            and node.args
        ):
            words = constant(node.args[0], names)
            # A step is a function, named without anything in it.
            event = " > #enter" if node.func.attr in ("step", "region") else ""
            if words is not None:
                yield words + event


def constant(node, names):
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        parts = [
            part.value if isinstance(part, ast.Constant) else names[part.value.id]
            for part in node.values
        ]
        return "".join(parts)
    return None


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"--a": 1, "--b": True, "--c": None}, ["--a", "1", "--b"]),
        ({"--d": [1, 2], "--e": "x y"}, ["--d", "1,2", "--e", "x y"]),
        ({"--f": False}, ["--f", "False"]),
    ],
)
def test_arguments_are_made_of_settings(settings, words):
    assert list(pack.flags(settings)) == words


def test_a_command_of_the_package_is_taken_from_its_environment(tmp_path):
    benchmark = pack.load("pykeen-nations")
    at = pack.place(benchmark, tmp_path / "base")
    plain = pack.command(benchmark, at, [], plain=True)
    ours = pack.command(benchmark, at, ["--strict"], plain=False)
    assert plain[:2] == [str(at.environment / "bin" / "pykeen"), "train"]
    assert ours[:2] == [str(at.environment / "bin" / "inject"), "run"]
    assert ours[ours.index("--strict") + 1 :] == plain


def test_a_module_is_run_by_the_environment_s_python(tmp_path):
    benchmark = pack.load("stanza-charlm")
    at = pack.place(benchmark, tmp_path / "base")
    plain = pack.command(benchmark, at, [], plain=True)
    assert plain[:3] == [str(at.environment / "bin" / "python"), "-m", "stanza.models.charlm"]
    assert str(at.data / "train.txt") in plain


def test_a_name_that_is_none_tells_those_that_are():
    with pytest.raises(SystemExit, match="stanza-charlm"):
        pack.load("stanza-charm")


@pytest.mark.parametrize("name", ["stanza-charlm", "chemprop-smiles"])
def test_data_is_made_the_same_every_time(name, tmp_path):
    made = []
    for number in range(2):
        folder = tmp_path / str(number)
        script = str(HERE / name / "prepare.py")
        subprocess.run([sys.executable, script, str(folder)], check=True)
        made.append({path.name: path.read_bytes() for path in folder.iterdir()})
    assert made[0] == made[1]
    assert all(made[0].values())


def test_the_settings_are_yaml_that_means_what_it_says():
    for name in NAMES:
        for key, value in (pack.load(name).settings.get("argv") or {}).items():
            assert value is not False, f"{name}: {key}: write the word the program expects"
    assert yaml.safe_load("a: no") == {"a": False}
