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
    "only_probed",
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
def test_a_benchmark_says_where_it_is_from_and_how_it_runs(name):
    benchmark = pack.load(name)
    settings = benchmark.settings
    assert re.fullmatch(r"[A-Za-z0-9._-]+==[0-9][A-Za-z0-9.]*", benchmark.package)
    assert settings["origin"]["license"] in {"Apache-2.0", "MIT", "BSD-3-Clause"}
    assert isinstance(settings["run"], str) and settings["run"].strip()
    assert isinstance(settings["max_duration"], int) and 0 < settings["max_duration"] <= 300
    assert settings["plan"]["method"] in {"per_gpu", "njobs"}
    assert isinstance(settings["weight"], float) and settings["weight"] > 0
    assert settings["tags"] and all(isinstance(tag, str) for tag in settings["tags"])
    assert "\n" not in settings["description"] and len(settings["description"]) < 120


@pytest.mark.parametrize("name", NAMES)
def test_only_known_places_are_filled_in(name, tmp_path):
    benchmark = pack.load(name)
    at = pack.place(benchmark, tmp_path / "base")
    settings = benchmark.settings
    texts = [*(settings.get("argv") or {}).values(), *(settings.get("env") or {}).values()]
    for text in (settings["run"], settings.get("folder", "{out}"), *texts):
        assert "{" not in at.fill(text)


@pytest.mark.parametrize("name", NAMES)
def test_a_folder_holds_no_code_of_the_program(name):
    found = {path.name for path in (HERE / name).iterdir() if path.name != "__pycache__"}
    assert found <= FILES
    assert found >= FILES - {"prepare.py"}


@pytest.mark.parametrize("name", NAMES)
def test_everything_is_pinned_and_the_origin_is_installed(name):
    lines = (HERE / name / "requirements.txt").read_text().splitlines()
    pins = [line for line in lines if line and not line.startswith("#")]
    marker = r'(; python_version (<|>=) "3\.\d+")?'
    assert all(re.fullmatch(rf"[A-Za-z0-9._-]+==[A-Za-z0-9.]+{marker}", pin) for pin in pins)
    assert pack.load(name).package in pins
    torch = [pin for pin in pins if pin.startswith("torch==")]
    assert pins[0] == torch[0], "torch is resolved first, or a range of another package chooses it"


@pytest.mark.parametrize("name", NAMES)
def test_options_given_to_a_voirfile_are_declared_by_it(name):
    options = pack.load(name).settings.get("voir", {}).get("options") or {}
    declared = {
        field.target.id
        for node in ast.walk(ast.parse((HERE / name / "voirfile.py").read_text()))
        if isinstance(node, ast.ClassDef)
        for field in node.body
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)
    }
    assert set(options) <= declared


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


def ran(*words, **more):
    return subprocess.run(
        [sys.executable, "-m", "benchmarks.pack", *map(str, words)],
        cwd=HERE.parent,
        capture_output=True,
        text=True,
        timeout=60,
        **more,
    )


def test_list_shows_each_benchmark_in_a_line():
    done = ran("list")
    assert done.returncode == 0
    assert [line.split()[0] for line in done.stdout.splitlines()] == NAMES


@pytest.mark.parametrize("verb", ["install", "run"])
@pytest.mark.parametrize("name", ["stanza-charm", "overhead", "../benchmarks/trl-sft", ".", ""])
def test_a_name_that_is_none_tells_those_that_are(verb, name, tmp_path):
    done = ran(verb, "--base", tmp_path / "base", name)
    assert done.returncode == 2
    assert f"no benchmark {name!r}" in done.stderr
    assert ", ".join(NAMES) in done.stderr
    assert not (tmp_path / "base").exists()


def test_a_name_that_was_nearly_meant_is_told():
    with pytest.raises(LookupError, match="did you mean stanza-charlm\\?"):
        pack.load("stanza-charm")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "required: verb"),
        (("start", "trl-sft"), "invalid choice: 'start'"),
        (("run",), "required: NAME"),
        (("run", "--plain", "mingru-enwik8"), "mingru-enwik8 has no --plain: the script asks"),
        (("run", "--plain", "trl-sft", "--", "--strict"), "'--strict'"),
        (("run", "--environment", "nowhere", "trl-sft"), "nowhere: no virtual environment"),
    ],
)
def test_a_command_line_that_makes_no_sense_is_refused(words, said):
    done = ran(*words)
    assert done.returncode == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr


@pytest.fixture
def small(tmp_path, monkeypatch):
    """A benchmark of one script, whose environment is the one that runs the tests."""

    def make(script, **settings):
        folder = tmp_path / "pack" / "small"
        folder.mkdir(parents=True)
        (folder / "requirements.txt").write_text("")
        (folder / "voirfile.py").write_text(
            'def instrument_values(ov):\n    ov.value("// > loss")\n'
        )
        program = tmp_path / "train.py"
        program.write_text(script)
        own = {
            "origin": {"package": "small==1"},
            "run": str(program),
            "env": {"WHERE": "{out}"},
            **settings,
        }
        environment = tmp_path / "env"
        (environment / "bin").mkdir(parents=True)
        for name, module in (("python", ""), ("inject", "-m injector")):
            command = environment / "bin" / name
            command.write_text(f'#!/bin/sh\nexec "{sys.executable}" {module} "$@"\n')
            command.chmod(0o755)
        (environment / "pyvenv.cfg").touch()
        (environment / "installed-small.txt").touch()
        monkeypatch.setenv("PYTHONPATH", str(HERE.parent))
        monkeypatch.delenv("INJECT_RUNS", raising=False)
        benchmark = pack.Benchmark("small", folder, own)
        base = tmp_path / ".inject" / "benchmarks"
        return lambda plain=False: pack.run(benchmark, base, [], plain, environment)

    return make


@pytest.mark.parametrize("plain", [False, True])
def test_a_run_ends_as_its_program_does(small, plain, capfd, tmp_path):
    run = small("import os, sys\nloss = 1.5\nprint(os.environ['WHERE'])\nsys.exit(3)\n")
    assert run(plain) == 3
    out, err = capfd.readouterr()
    assert out.strip() == str(tmp_path / ".inject" / "benchmarks" / "small" / "out")
    assert ("// > loss  fired 1" in err) is not plain
    runs = tmp_path / ".inject" / "runs"
    assert runs.exists() is not plain


def test_a_program_that_is_killed_is_no_success(small):
    run = small("import os, signal\nloss = 1\nos.kill(os.getpid(), signal.SIGKILL)\n")
    assert run() == 128 + 9


def test_a_program_that_takes_too_long_is_stopped(small, capfd):
    run = small("import time\nloss = 1\ntime.sleep(60)\n", max_duration=2)
    assert run() not in (0, None)
    err = capfd.readouterr().err
    assert "small: stopped after 2 s" in err
    assert "// > loss  fired at least 1" in err  # its last count is not known


def test_what_a_program_wrote_earlier_is_gone(small, tmp_path):
    run = small("import os\nloss = 1\nopen('new', 'x').close()\n")
    assert run() == 0
    assert run() == 0


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


def test_a_gitignore_that_is_there_is_kept(tmp_path: Path) -> None:
    (tmp_path / ".gitignore").write_text("mine\n")
    pack.place(pack.load("stanza-charlm"), tmp_path)
    assert (tmp_path / ".gitignore").read_text() == "mine\n"
    pack.place(pack.load("stanza-charlm"), tmp_path / "new")
    assert (tmp_path / "new" / ".gitignore").read_text() == "*\n"
