"""Definitions: where they are found, and milabench's ``benchfile.py`` read as data."""

from __future__ import annotations

import pytest

from injector.suite import benchfile, definitions, shipped
from injector.suite.model import Benchmark, SuiteError, Where

CLONED = """\
from milabench.pack import Package

SOURCE_DIR = "src"
REPO_URL = "https://example.org/some/repo.git"
BRANCH = "a3130b3251d3a909d2a7c59efa948a34e52cbbbb"


class Bench(Package):
    base_requirements = "requirements.in"
    prepare_script = "prepare.py"
    main_script = f"{SOURCE_DIR}/train.py"

    def make_env(self):
        env = super().make_env()
        env["ONE"] = "1"
        env.update({"TWO": 2, "THREE": compute()})
        return env

    async def install(self):
        await super().install()
        destination = self.dirs.code / SOURCE_DIR
        if not destination.exists():
            destination.clone_subtree(REPO_URL, BRANCH)

    def build_run_plan(self):
        return TorchrunAllNodes(super().build_run_plan()).use_stdout()

    @property
    def argv(self):
        return [*super().argv, "--more"]


__pack__ = Bench
raise SystemExit("it is never run")
"""


def folder(tmp_path, text, *files):
    for name in files:
        (tmp_path / name).write_text("")
    (tmp_path / "benchfile.py").write_text(text)
    return tmp_path


def test_a_benchfile_is_read_and_not_run(tmp_path):
    files = ("prepare.py", "voirfile.py", "requirements.in", "requirements.cuda.txt")
    found = definitions.read(folder(tmp_path, CLONED, *files))
    assert dict(found.settings) == {
        "voirfile": "voirfile.py",
        "origin": {
            "git": "https://example.org/some/repo.git",
            "commit": "a3130b3251d3a909d2a7c59efa948a34e52cbbbb",
            "into": "src",
        },
        "run": "{milabench_code}/src/train.py",
        "folder": "{milabench_code}/src",
        "requirements": {"cuda": ["requirements.cuda.txt"], "default": ["requirements.in"]},
        "prepare": {"script": "prepare.py", "data": ".", "argv": [], "with_argv": True},
        "env": {"ONE": "1", "TWO": "2"},
        "plan": {"launcher": "torchrun"},
    }
    assert found.lines["origin"] == 23
    assert len(found.notes) == 2
    assert any("benchfile.py:16: the variable is computed" in note for note in found.notes)
    assert any("argv is computed" in note for note in found.notes)


def test_what_a_benchfile_does_not_say_is_milabench_s_default(tmp_path):
    text = "class Bench(Package):\n    pass\n\n__pack__ = Bench\n"
    found = definitions.read(folder(tmp_path, text, "main.py", "prepare.py")).settings
    assert found["run"] == "{milabench_code}/main.py"
    assert found["prepare"]["script"] == "prepare.py"
    assert "origin" not in found


def test_a_class_inherits_and_a_package_is_run_with_m(tmp_path):
    text = (
        "class Base(Package):\n    main_script = 'bench'\n    prepare_script = None\n\n"
        "class Bench(Base):\n    base_requirements = ['first.in', 'requirements.in']\n\n"
        "__pack__ = Bench\n"
    )
    found = definitions.read(folder(tmp_path, text, "first.in", "requirements.in")).settings
    assert found["run"] == "-m bench"
    assert found["prepare"] is None
    assert found["requirements"] == {"default": ["first.in", "requirements.in"]}


def test_a_branch_is_no_commit(tmp_path):
    text = CLONED.replace("a3130b3251d3a909d2a7c59efa948a34e52cbbbb", "main")
    assert definitions.read(folder(tmp_path, text)).settings["origin"]["branch"] == "main"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("class Bench(\n", "benchfile.py:1: does not parse"),
        ("class Bench: pass\n", "has no line `__pack__"),
        ("__pack__ = Bench\n", "names Bench, which is no class"),
    ],
)
def test_a_benchfile_that_makes_no_sense(tmp_path, text, says):
    with pytest.raises(SuiteError) as error:
        benchfile.read(folder(tmp_path, text) / "benchfile.py")
    assert says in str(error.value)


def test_a_definition_is_found_by_path_or_by_the_name_of_a_shipped_one(tmp_path):
    there = tmp_path / "mine"
    there.mkdir()
    (there / "benchmark.yaml").write_text("run: x.py\n")
    (tmp_path / "suites").mkdir()
    assert definitions.find("mine", tmp_path) == there
    assert definitions.find("../mine", tmp_path / "suites") == there
    assert definitions.find("trl-sft", tmp_path).name == "trl-sft"
    with pytest.raises(LookupError, match=r"did you mean trl-sft\?"):
        definitions.find("trl-sfd", tmp_path)
    (tmp_path / "empty").mkdir()
    with pytest.raises(LookupError, match=r"holds neither benchmark\.yaml nor benchfile\.py"):
        definitions.find("empty", tmp_path)


def test_what_is_named_lies_beside_the_file_that_names_it(tmp_path):
    for name in ("suite", "bench"):
        (tmp_path / name).mkdir()
    (tmp_path / "bench" / "prepare.py").write_text("")
    suite, bench = tmp_path / "suite" / "s.yaml", tmp_path / "bench"
    places = {("prepare",): Where(str(bench / "benchmark.yaml"), 4, "prepare")}
    asked = Benchmark("b", Where(str(suite), 1), {"definition": str(bench)}, "b", {}, places)
    assert definitions.path_of(asked, "prepare.py", "prepare") == bench / "prepare.py"
    # Inherited by a suite elsewhere: the definition has it all the same.
    assert definitions.path_of(asked, "prepare.py", "origin") == bench / "prepare.py"
    assert definitions.path_of(asked, "/abs/x.py", "prepare").as_posix() == "/abs/x.py"


def test_every_shipped_definition_is_one():
    found = shipped.benchmarks()
    assert len(found) >= 5
    assert "overhead" not in found
    for place in found.values():
        assert definitions.read(place).file.is_file()
