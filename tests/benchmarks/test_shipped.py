"""What ships is in order: pinned, complete, planned on CPUs and GPUs, and its voirfiles parse."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys

import pytest
import yaml

from injector.rewrite.selector_reader import parse
from injector.suite import config
from injector.suite.config import definitions
from injector.suite.config.model import Benchmark
from injector.suite.config.problems import Where
from injector.suite.environments import requirements

DEFINITIONS = definitions.shipped_benchmarks()
SUITES = definitions.shipped_suites()
NAMES = sorted(DEFINITIONS)
WITH_VOIRFILE = [name for name in NAMES if (DEFINITIONS[name] / "voirfile.py").is_file()]
OURS = {
    *("collectives", "flops", "hpo-digits", "memory"),
    *("keras-vision", "onnx-vision", "transformers-vision"),
}
"""Programs of this project: nothing of anybody else is in any folder."""
OWN_PROGRAMS = {
    "lightgbm-benchmark": {
        *("frameworks.py", "logged.py", "machines.py", "main.py", "mpi.py", "predict.c"),
        *("ray_train.py", "requirements.ray.txt", "requirements.mpi.txt"),
    },
}
"""Programs of this project beside a third party's: what those leave out."""
FILES = {
    "README.md",
    "benchmark.yaml",
    "prepare.py",
    "requirements.txt",
    "requirements.cuda.txt",
    "train.yaml",
    "voirfile.py",
}
FIELDS = {"language", "vision", "graph", "reinforcement-learning", "boosting", "recommendation"}
PROCESSORS_ONLY = {"lightgbm"}
"""Suites of a library whose package computes on processors, whatever the machine has."""
CUDA = {"arch": "cuda", "gpu_count": 2, "cpu_count": 16}


def settings(name):
    return yaml.safe_load((DEFINITIONS[name] / "benchmark.yaml").read_text())


def planned(suite, *words):
    command = [sys.executable, "-m", "injector", "suite", "plan", suite, "--json", *words]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("name", sorted(SUITES))
def test_a_suite_is_planned_on_processors(name, tmp_path):
    plan = planned(name, "--devices", "cpu:2", "--base", str(tmp_path))
    assert plan["jobs"]
    for job in plan["jobs"]:
        for process in job["processes"]:
            assert not re.search(r"\{[\w.]+\}", " ".join(process["command"]))
    assert all("needs" in each["reason"] for each in plan["left_out"])
    assert not list(tmp_path.iterdir()), "planning leaves nothing"


@pytest.mark.parametrize("name", sorted(SUITES.keys() - PROCESSORS_ONLY))
def test_a_suite_says_what_is_different_on_gpus(name):
    suite = config.load(SUITES[name], CUDA)
    assert suite.benchmarks
    for benchmark in suite.benchmarks:
        words = benchmark.argv(
            {**CUDA, "base": "b", "data": "d", "out": "o", "source": "s", "device_count": 2}
        )
        assert not {"--cpu", "--use_cpu", "cpu"} & set(words), benchmark.name


def test_the_standard_suite_covers_six_fields():
    suite = config.load(SUITES["standard"], CUDA)
    enabled = [benchmark for benchmark in suite.benchmarks if benchmark.enabled]
    assert len(enabled) >= 12
    assert {tag for benchmark in enabled for tag in benchmark.tags} >= FIELDS


def test_scaling_doubles_devices_and_keeps_the_work_of_each_or_of_all():
    batches = {}
    for benchmark in config.load(SUITES["scaling"], CUDA).benchmarks:
        words = benchmark.argv({**CUDA, "base": "b", "data": "d", "out": "o", "source": "s"})
        batch = int(words[words.index("--per_device_train_batch_size") + 1])
        (kind,) = {"weak", "strong"} & set(benchmark.tags)
        batches.setdefault(kind, {})[benchmark.plan["devices"]] = batch
    assert batches == {
        "weak": {1: 8, 2: 8, 4: 8, 8: 8},
        "strong": {1: 8, 2: 4, 4: 2, 8: 1},
    }


@pytest.mark.parametrize("name", NAMES)
def test_a_benchmark_says_where_it_is_from_and_how_it_runs(name):
    found = settings(name)
    origin = found.get("origin") or {}
    if name not in OURS:
        pinned = re.fullmatch(r"[A-Za-z0-9._-]+==[0-9][A-Za-z0-9.]*", origin.get("package", ""))
        assert pinned or re.fullmatch(r"[0-9a-f]{40}", origin["commit"])
        assert origin["license"] in {"Apache-2.0", "MIT", "BSD-3-Clause"}
    assert found["run"].strip() and found["tags"]
    assert 0 < found["max_duration"] <= 300
    assert "\n" not in found["description"] and len(found["description"]) < 120


@pytest.mark.parametrize("name", NAMES)
def test_a_folder_holds_no_code_of_the_program(name):
    found = {path.name for path in DEFINITIONS[name].iterdir() if path.name != "__pycache__"}
    own = {each for each in found if each.endswith(".py")} | {
        each for each in found if each.startswith("requirements.")
    }
    assert found <= FILES | (own if name in OURS else OWN_PROGRAMS.get(name, set()))
    assert {"benchmark.yaml", "requirements.txt"} <= found


@pytest.mark.parametrize("name", NAMES)
def test_everything_is_pinned_and_the_origin_is_installed(name):
    marker = r'(; python_version (<|>=) "3\.\d+")?'
    for file in DEFINITIONS[name].glob("requirements*.txt"):
        lines = file.read_text().splitlines()
        pins = [line for line in lines if line and line[0] not in "#-"]
        assert all(re.fullmatch(rf"[A-Za-z0-9._-]+==[A-Za-z0-9.+]+{marker}", pin) for pin in pins)
        torch = [pin for pin in pins if pin.startswith("torch==")]
        assert not torch or pins[0] == torch[0], "resolved first, or another's range chooses it"
    package = (settings(name).get("origin") or {}).get("package")
    assert package is None or package in (DEFINITIONS[name] / "requirements.txt").read_text().split(
        "\n"
    )


@pytest.mark.parametrize("arch", ["cuda", "rocm", "xpu"])
def test_every_definition_gets_the_vendor_s_build_of_what_it_requires(arch, tmp_path):
    place = Where("suite.yaml", 1, "x")
    shown = re.escape(f"+{arch}")
    for name, folder in DEFINITIONS.items():
        required = requirements.requirements_of(
            Benchmark(name, place, {"definition": str(folder), **settings(name)}, name),
            arch,
            tmp_path,
        )
        assert [file.name for file in required.constraints] == [f"{arch}.txt"], name
        lines = required.constraints[0].read_text().splitlines()
        pins = [line for line in lines if line and line[0] not in "#-"]
        assert all(re.fullmatch(r"[a-z0-9-]+==[\w.+]+(; python_version .*)?", pin) for pin in pins)
        if "torch" in {line.project for line in required.packages()}:
            (torch,) = (pin for pin in pins if pin.startswith("torch=="))
            assert arch == "cuda" or re.search(shown, torch)
            index = [line for line in required.options() if "download.pytorch.org" in line]
            assert len(index) == (arch != "cuda")
        versions = {}
        for line in required.packages():
            versions.setdefault(line.project, set()).add(line.specifier)
        for pin in pins:
            project, wanted = pin.split(";")[0].split("==")
            # A constraint never contradicts a requirement.
            assert {f"=={wanted.split('+')[0]}"} >= versions.get(project, set()), (name, pin)


@pytest.mark.parametrize("name", WITH_VOIRFILE)
def test_selectors_of_a_voirfile_parse(name):
    wheres = list(selectors((DEFINITIONS[name] / "voirfile.py").read_text()))
    assert wheres
    for where in wheres:
        parse(where)


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
            if words is not None:
                # A step or a value of a call is a function, named without anything in it.
                yield words if " > " in words else f"{words} > #enter"


def constant(node, names):
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.Name):
        return names.get(node.id)
    if isinstance(node, ast.JoinedStr):
        parts = [
            part.value if isinstance(part, ast.Constant) else names[part.value.id]
            for part in node.values
        ]
        return "".join(parts)
    return None


@pytest.mark.parametrize("name", ["stanza-charlm", "chemprop-smiles", "monai-classification"])
def test_data_is_made_the_same_every_time(name, tmp_path):
    made = []
    for number in range(2):
        folder = tmp_path / str(number)
        script = str(DEFINITIONS[name] / "prepare.py")
        subprocess.run([sys.executable, script, str(folder)], check=True)
        made.append({path.name: path.read_bytes() for path in folder.iterdir()})
    assert made[0] == made[1]
    assert all(made[0].values())
