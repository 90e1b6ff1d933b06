"""Benchmarks that run in containers: of which image, and a whole suite with doubles of the engines."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from engine_doubles import ENGINES, IMAGE, calls, make_doubles
from suite_runs import last, plan

from injector.suite.config import load
from injector.suite.environments import images
from injector.suite.environments.images import ContainerImage

PROGRAM = """\
import os, sys
print(sys.argv[1:], os.environ["HOME"], os.environ.get("OWN"), open(sys.argv[1] + "/made").read())
"""
PREPARE = """\
import os, sys
os.makedirs(sys.argv[1], exist_ok=True)
open(sys.argv[1] + "/made", "w").write(os.environ["HOME"])
"""
SUITE = """\
system: {{docker_image: "{image}", container_engine: {engine}}}
here:
  run: program.py
  argv: ["{{data}}"]
  env: {{OWN: "a b"}}
  prepare: prepare.py
  validation: {{rate: false}}
  requirements: {{packages: [no-such-package]}}
"""


def images_of(folder, text, *parameters):
    (folder / "suite.yaml").write_text(text)
    suite = load(folder / "suite.yaml", {"arch": "rocm"}, [], parameters, [])
    return {each.name: images.image_of(each, {"arch": "rocm"}, folder) for each in suite.benchmarks}


def test_the_image_is_the_benchmarks_else_the_systems(tmp_path):
    (tmp_path / "own.Dockerfile").write_text("FROM scratch")
    text = """
system: {docker_image: "image:${system.arch}-nightly"}
a: {run: x}
b: {run: x, docker_image: "mine:{arch}", container_engine: podman}
c: {run: x, container_engine: none}
d: {run: x, docker_image: own.Dockerfile}
"""
    assert images_of(tmp_path, text) == {
        "a": ContainerImage("image:rocm-nightly", None),
        "b": ContainerImage("mine:rocm", "podman"),
        "c": None,
        "d": ContainerImage(str(tmp_path / "own.Dockerfile"), None),
    }
    found = images_of(tmp_path, text, "system.container_engine=apptainer")
    assert found["a"] == ContainerImage("image:rocm-nightly", "apptainer")
    found = images_of(tmp_path, text, "system.container_engine=none")
    assert [name for name, image in found.items() if image] == ["b"]
    assert images_of(tmp_path, "a: {run: x}") == {"a": None}


@pytest.fixture
def contained(suites):
    """A suite's folder with doubles of engines, which are all of the PATH."""
    make_doubles(suites.folder / "bin")
    suites.environ["PATH"] = str(suites.folder / "bin")
    suites.program("program.py", PROGRAM)
    suites.program("prepare.py", PREPARE)
    return suites


@pytest.mark.parametrize("engine", ENGINES)
def test_a_suite_in_containers(contained, engine):
    file = contained.folder / "suite.yaml"
    file.write_text(SUITE.format(image=IMAGE, engine=engine))
    elsewhere = contained.folder / "elsewhere"
    elsewhere.mkdir()
    (contained.base / "data").mkdir(parents=True)
    (contained.base / "data" / "linked").symlink_to(elsewhere)
    for verb in ("install", "prepare", "run"):
        done = contained.call(verb, file, devices="cpu:1" if verb == "run" else None)
        assert done.returncode == 0, (verb, done.stdout, done.stderr)
    run = contained.run()
    words = plan(run)["jobs"][0]["processes"][0]["command"]
    assert words[3:6] == ["run", "--container", IMAGE]
    assert words[words.index("--") + 1 :] == [
        str(contained.folder / "program.py"),
        str(contained.base / "data" / "here"),
    ]
    [folder] = (run / "jobs").iterdir()
    data = contained.base / "data" / "here"
    assert (folder / "stdout").read_text() == f"{[str(data)]} /tmp a b /tmp\n"
    info = json.loads((folder / "run.json").read_text())
    assert info["exit"]["code"] == 0 and info["tags"]["container"] == IMAGE
    made = calls(contained.folder / "bin", engine)
    ran = [each for each in made if each[0] in ("run", "exec") and each[-1] != "true"]
    prepared, program = ran
    assert prepared[-3:] == ["python3", str(contained.folder / "prepare.py"), f"{data}.making"]
    assert f"{contained.folder}:{contained.folder}" in prepared  # the base folder lies in it
    assert f"{contained.base}:{contained.base}" in program
    assert f"{elsewhere}:{elsewhere}" in program
    assert ["pull", IMAGE] in made or engine == "apptainer"


def test_an_image_that_is_not_there_yet(contained):
    file = contained.folder / "suite.yaml"
    file.write_text(SUITE.format(image=IMAGE, engine="podman"))
    done = contained.call("run", file)
    [job] = last(contained.run()).values()
    assert done.returncode == 1
    assert job["reason"] == (
        f"the image {IMAGE} is not on this machine: inject suite install comes first"
    )


def test_a_machine_without_an_engine(contained):
    file = contained.folder / "suite.yaml"
    file.write_text(SUITE.format(image=IMAGE, engine="podman"))
    os.unlink(contained.folder / "bin" / "podman")
    done = contained.call("install", file, devices=None)
    assert done.returncode == 1 and "there is no podman on the PATH" in done.stdout
    assert "-P system.container_engine=none" in done.stdout
    # And what that suggests: the environment of inject itself, here.
    file.write_text(SUITE.format(image=IMAGE, engine="podman").replace("requirements", "#"))
    none = ["-P", "system.container_engine=none"]
    for verb in ("prepare", "run"):
        done = contained.call(verb, file, *none, devices=None)
        assert done.returncode == 0, done.stdout + done.stderr
    assert not list(Path(contained.folder).glob("bin/*.jsonl"))


def test_a_command_of_the_image_needs_not_be_here(contained):
    file = contained.folder / "suite.yaml"
    text = "a: {run: some-command of-the-image, docker_image: i}\nb: {run: /opt/x.py, docker_image: i}\n"
    file.write_text(text)
    done = contained.call("plan", file)
    assert done.returncode == 0 and "-- some-command of-the-image\n" in done.stdout, done.stderr


def test_an_engine_that_no_one_knows(contained):
    file = contained.folder / "suite.yaml"
    file.write_text("a: {run: program.py, docker_image: i, container_engine: dockre}\n")
    done = contained.call("plan", file)
    assert done.returncode == 2 and "container_engine" in done.stderr and "dockre" in done.stderr
