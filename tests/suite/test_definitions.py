"""Definitions: where they are found, and milabench's ``benchfile.py`` read as data."""

from __future__ import annotations

import pytest

from injector.suite.config import benchfile, definitions
from injector.suite.config.model import Benchmark
from injector.suite.config.problems import SuiteError, Where

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


def test_classes_override_each_other_as_in_python(tmp_path):
    text = (
        "class Root(Package):\n    main_script = 'root'\n    prepare_script = 'root.py'\n\n"
        "class Left(Root):\n    main_script = 'left'\n\n"
        "class Right(Root):\n    main_script = 'right'\n    prepare_script = 'right.py'\n\n"
        "class Bench(Left, Right):\n    pass\n\n__pack__ = Bench\n"
    )
    found = definitions.read(folder(tmp_path, text, "root.py", "right.py")).settings
    assert (found["run"], found["prepare"]["script"]) == ("-m left", "right.py")


def test_a_class_that_is_named_after_an_imported_one(tmp_path):
    text = (
        "from x import Bench\nclass Bench(Bench):\n    main_script = 'bench'\n\n__pack__ = Bench\n"
    )
    assert definitions.read(folder(tmp_path, text)).settings["run"] == "-m bench"


HEAD = "from milabench.commands import *\n\nclass Bench(Package):\n    main_script = 'main.py'\n"
VOIRLESS = {
    "if False": """
        plan = PackCommand(self, *self.argv, lazy=True)
        if False:
            plan = VoirCommand(plan, cwd=main.parent)
        return AccelerateAllNodes(plan).use_stdout()""",
    "a flag": """
        pack = cmd.PackCommand(self, *self.argv, lazy=True)
        use_stdout = True
        if use_stdout:
            return pack.use_stdout()
        else:
            return cmd.VoirCommand(pack, cwd=main.parent)""",
    "another program": """
        return cmd.ActivatorCommand(cmd.PackCommand(self, *self.argv, lazy=True)).use_stdout()""",
    "more arguments": """
        return CmdCommand(self, "python", str(self.dirs.code / "main.py"), *self.argv,
                          "--cache", str(self.dirs.cache), use_stdout=True)""",
}
UNDER_VOIR = {
    "its base's": "\n        return TorchrunAllNodes(super().build_run_plan()).use_stdout()",
    "its own": "\n        return VoirCommand(PackCommand(self, *self.argv), module=True)",
    "not the default": """
        flag = False
        if flag:
            return PackCommand(self)
        return VoirCommand(PackCommand(self, *self.argv))""",
    "as it comes": """
        if self.config.get("plain"):
            return PackCommand(self)
        return VoirCommand(PackCommand(self, *self.argv))""",
}


@pytest.mark.parametrize("how", [*VOIRLESS, *UNDER_VOIR])
def test_what_milabench_runs_without_voir_has_no_voirfile(tmp_path, how):
    body = {**VOIRLESS, **UNDER_VOIR}[how]
    text = f"{HEAD}\n    def build_run_plan(self):{body}\n\n__pack__ = Bench\n"
    found = definitions.read(folder(tmp_path, text, "main.py", "voirfile.py"))
    # "auto" are the shipped ones: `inject run` then looks for no voirfile beside the script.
    assert found.settings["voirfile"] == ("voirfile.py" if how in UNDER_VOIR else "auto")
    launcher = found.settings.get("plan", {}).get("launcher")
    assert launcher == {"if False": "accelerate", "its base's": "torchrun"}.get(how)
    added = {"--cache": "{milabench_cache}"} if how == "more arguments" else None
    assert found.settings.get("argv") == added and not found.notes


def test_a_class_that_gives_its_arguments_to_tune_run(tmp_path):
    text = """
class Torchtune(TorchrunAllGPU):
    def __init__(self, pack, *torchrun_args, **kwargs):
        super().__init__(pack, "-m", "torchtune._cli.tune", "run", *torchrun_args, module=False)

class TorchtuneAllNodes(TorchrunAllNodes):
    def __init__(self, executor, *args, **kwargs):
        ForeachNode.__init__(self, TorchrunAllNodes.make_base_executor(Torchtune, executor))

class Llm(Package):
    def build_run_plan(self):
        return TorchtuneAllNodes(SimpleCommand(self)).use_stdout()

__pack__ = Llm
"""
    found = definitions.read(folder(tmp_path, text, "voirfile.py")).settings
    assert found["run"] == "-m torchtune._cli.tune run"
    assert found["plan"] == {"launcher": "tune"} and found["voirfile"] == "auto"


def test_a_main_script_that_is_neither_named_nor_there_is_not_run(tmp_path):
    text = (
        "class Bench(Package):\n    def build_run_plan(self):\n        return SimpleCommand(self)\n"
    )
    found = definitions.read(folder(tmp_path, text + "\n__pack__ = Bench\n"))
    assert "run" not in found.settings
    assert any("say `run:`" in note for note in found.notes)


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
    assert asked.path("prepare.py", "prepare") == bench / "prepare.py"
    # Inherited by a suite elsewhere: the definition has it all the same.
    assert asked.path("prepare.py", "origin") == bench / "prepare.py"
    assert asked.path("/abs/x.py", "prepare").as_posix() == "/abs/x.py"


def test_every_shipped_definition_is_one():
    found = definitions.shipped_benchmarks()
    assert len(found) >= 5
    assert "overhead" not in found
    for place in found.values():
        assert definitions.read(place).file.is_file()
