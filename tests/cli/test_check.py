"""`inject check`: where probes land, without running the program."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from injector.cli import check

ROOT = Path(check.__file__).parents[2]

TRAIN = """\
from engine import Trainer

def criterion(out, y):
    return out - y

def train(data):
    for out, y in data:
        loss = criterion(out, y)
    return loss

if __name__ == "__main__":
    raise SystemExit("was run")
"""

ENGINE = """\
class Trainer:
    def fit(self, batch):
        self.loss = batch

def train_step(batch):
    out = batch
"""

VOIRFILE = """\
import math

def instrument_it(ov):
    yield ov.phases.load_script
{body}
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "train.py").write_text(TRAIN)
    (tmp_path / "engine.py").write_text(ENGINE)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def voirfile(project: Path, *lines: str) -> str:
    body = textwrap.indent("\n".join(lines), "    ")
    (project / "x.py").write_text(VOIRFILE.format(body=body))
    return "--voirfile=x.py"


def checked(
    capsys: pytest.CaptureFixture[str], project: Path, *probes: str
) -> tuple[int, list[str]]:
    code = check.main([voirfile(project, *probes), "train.py"])
    sentence = capsys.readouterr()
    assert sentence.err == ""
    return code, sentence.out.splitlines()


def test_a_region_is_one_line_whether_it_lands_or_not(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, lines = checked(
        capsys,
        project,
        'ov.region("/engine/train_step", "a")',
        'ov.region("/engine/train_stop", "b")',
    )
    assert code == 1
    assert lines == [
        "x.py:5   /engine/train_step",
        "    engine.py:5   def train_step(batch):   on entry and exit",
        "",
        "x.py:6   /engine/train_stop",
        "    not found: there is no function train_stop in engine.py",
        "    nearest:   /engine/train_step (engine.py:5)",
        "",
        "2 probes: 1 cannot be placed",
    ]


def test_the_turns_of_a_loop_are_one_line(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    loop = "    train.py:7   for out, y in data:   "
    _, lines = checked(
        capsys,
        project,
        'ov.step("//train > #loop_out")',
        'ov.value("//train > #endloop_out")',
    )
    assert lines[1:5] == [
        f"{loop}begin and end of each turn",
        "",
        "x.py:6   //train > #endloop_out",
        f"{loop}end of each turn",
    ]


def test_where_and_how(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert checked(
        capsys,
        project,
        'ov.value("//train > loss")',
        'ov.override("//train > loss", lambda x: x)',
        'ov.value("//criterion() as result")',
        'ov.value("//train > #loop_out")',
    ) == (
        0,
        [
            "x.py:5   //train > loss",
            "    train.py:8   loss = criterion(out, y)   observed",
            "",
            "x.py:6   //train > loss",
            "    train.py:8   loss = criterion(out, y)   overridden",
            "",
            "x.py:7   //criterion() as result",
            "    train.py:4   return out - y   return value",
            "",
            "x.py:8   //train > #loop_out",
            "    train.py:7   for out, y in data:   begin of each turn",
            "",
            "4 probes: all land",
        ],
    )


def test_names_are_followed(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out = checked(capsys, project, 'ov.value("//Trainer/fit > self.loss")')
    assert code == 0
    assert out[1] == "    engine.py:3   self.loss = batch   observed"


def test_columns_stand_below_each_other(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / "train.py").write_text("def f(x):\n    x = 1\n" + "\n" * 9 + "    x = x + 1\n")
    _, out = checked(capsys, project, 'ov.value("//f > x")')
    assert out[1:4] == [
        "    train.py:1    def f(x):   argument",
        "    train.py:2    x = 1       observed",
        "    train.py:12   x = x + 1   observed",
    ]


def test_misses(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert checked(
        capsys,
        project,
        'ov.value("//train > los")',
        'ov.value("//train_step > out")',
        'ov.value("/nothing.here/f > xyzzy")',
        'ov.value("//train > y")',
    ) == (
        1,
        [
            "x.py:5   //train > los",
            "    not found: los is never set in train (train.py:6)",
            "    nearest:   //train > loss (train.py:8)",
            "",
            "x.py:6   //train_step > out",
            "    not found: there is no function train_step in train.py",
            "    nearest:   /engine/train_step > out (engine.py:6)",
            "               //train > out (train.py:7)",
            "               //criterion > out (train.py:3)",
            "",
            "x.py:7   /nothing.here/f > xyzzy",
            "    not found: there is no module nothing.here",
            "",
            "x.py:8   //train > y",
            "    train.py:7   for out, y in data:   observed",
            "",
            "4 probes: 3 cannot be placed",
        ],
    )


def test_objects(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out = checked(
        capsys,
        project,
        "import json",
        'ov.value("json.JSONEncoder.encode > chunks")',
        'ov.value("math.sqrt() as root")',
        'ov.value("math.sqrt > x")',
        'ov.value("json.dumps > nothing")',
    )
    assert code == 1
    text = "\n".join(out)
    assert "    json/encoder.py:" in text and "chunks = list(chunks)" in text
    assert "x.py:7   math.sqrt() as root\n    math.sqrt   wrapped" in text
    assert "not found: math.sqrt has no Python source, so only #enter" in text
    assert "not found: nothing is never set in dumps (__init__.py:" in text


def test_names_made_on_demand(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / "lazy.py").write_text(
        "def attach(): ...\nclass Bound: ...\n__getattr__, __dir__ = attach()\n"
    )
    code, out = checked(
        capsys, project, 'ov.value("/lazy/found > x")', 'ov.value("/lazy/Bound/found > x")'
    )
    assert code == 1
    line = "    lazy.py:3   __getattr__, __dir__ = attach()   attached when the name is bound"
    assert out[1] == line
    assert out[4].startswith("    not found: ")


def test_a_method_made_in_c(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out = checked(capsys, project, 'ov.value("str.upper() as result")')
    assert (code, out[1]) == (
        1,
        "    not found: builtins.str.upper is a method of a class made in C",
    )


def test_nested(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out = checked(capsys, project, 'ov.probe("//train > //criterion() as r")')
    assert code == 0
    assert out[1:3] == [
        "    train.py:4   return out - y     return value",
        "    train.py:6   def train(data):   outer function",
    ]


def test_off_the_path(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / "src").mkdir()
    (project / "src" / "helper.py").write_text("def f():\n    x = 1\n")
    code, out = checked(capsys, project, 'ov.value("/helper/f > x")')
    assert code == 0
    assert out[1].endswith("x = 1   observed (if the program puts src on sys.path)")


def test_json(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = [voirfile(project, 'ov.value("//train > loss")', 'ov.value("//train > los")')]
    assert check.main([*options, "--json", "train.py"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert found["missing"] == 1
    good, bad = found["probes"]
    assert (good["selector"], good["line"], good["misses"]) == ("//train > loss", 5, [])
    assert good["file"] == str(project / "x.py")
    assert good["landings"] == [
        {
            "variable": "loss",
            "override": False,
            "module": "__main__",
            "function": "train",
            "file": "train.py",
            "line": 8,
            "source": "loss = criterion(out, y)",
            "kind": "assignment",
        }
    ]
    assert bad["landings"] == []
    assert bad["misses"][0]["nearest"][0] == "//train > loss (train.py:8)"


def test_run_as_module(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    option = voirfile(project, 'ov.value("//train > loss")')
    assert check.main([option, "-m", "train"]) == 0
    assert "train.py:8   loss = criterion(out, y)   observed" in capsys.readouterr().out


def test_command_that_starts_a_script(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    option = voirfile(project, 'ov.value("//train > loss")')
    assert check.main([option, "env", "-u", "X", "train.py", "--lr", "3"]) == 0
    assert "train.py:8" in capsys.readouterr().out


@pytest.mark.parametrize(
    "words",
    [
        ["pip", "--dist", "2", "-m", "train", "--lr", "3"],
        ["pip", "launch", "train.py"],
        ["-m", "pdb", "train.py"],
        ["-m", "torch_like.run", "--nproc", "2", "-m", "train"],
    ],
)
def test_launcher(project: Path, capsys: pytest.CaptureFixture[str], words: list[str]) -> None:
    """What a launcher is given is a program too, and so is the launcher."""
    (project / "torch_like").mkdir()
    (project / "torch_like" / "run.py").write_text("def launch(job):\n    started = job\n")
    option = voirfile(project, 'ov.value("//train > loss")')
    assert check.main([option, *words]) == 0
    assert "train.py:8" in capsys.readouterr().out


def test_launcher_itself(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / "launcher.py").write_text("def launch(job):\n    started = job\n")
    option = voirfile(project, 'ov.value("//launch > started")', 'ov.value("//launch > x")')
    assert check.main([option, "-m", "launcher", "train.py"]) == 1
    sentence = capsys.readouterr().out
    assert "launcher.py:2   started = job   observed" in sentence
    assert "not found: there is no function launch in train.py" in sentence


def test_voirfile_beside_the_script(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    voirfile(project, 'ov.value("//train > loss")')
    (project / "x.py").rename(project / "voirfile.py")
    assert check.main(["train.py", "--epochs", "3"]) == 0
    assert capsys.readouterr().out.startswith("voirfile.py:5   //train > loss")


def test_no_probe(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert checked(capsys, project, "pass") == (
        0,
        ["the voirfile sets no probe before the program runs"],
    )


def test_what_a_voirfile_prints_is_no_answer(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    option = voirfile(project, 'print("hello")', 'ov.value("//train > loss")')
    assert check.main([option, "--json", "train.py"]) == 0
    sentence = capsys.readouterr()
    assert json.loads(sentence.out)["missing"] == 0
    assert sentence.err == "hello\n"


def test_options_of_a_voirfile(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / "x.py").write_text(
        textwrap.dedent(
            """\
            from dataclasses import dataclass
            from voir import configurable

            @dataclass
            class Options:
                where: str = "//train > loss"

            @configurable
            def instrument_it(ov, options: Options):
                yield ov.phases.load_script
                ov.value(options.where)
            """
        )
    )
    for argv in (
        ["--voirfile", "x.py", "--where", "//train > y", "train.py"],
        ["--where", "//train > y", "train.py", "--voirfile", "x.py", "--lr", "1"],
    ):
        assert check.main(argv) == 0
        assert capsys.readouterr().out.startswith("x.py:11   //train > y\n")
    (project / "options.yaml").write_text("where: //train > out\n")
    config = ["--config", "options.yaml"]
    code = check.main(["--voirfile", "x.py", *config, "train.py"])
    sentence = capsys.readouterr()
    assert code in (0, 2), sentence
    assert check.main(["--voirfile", "x.py", "--nothing", "3", "train.py"]) == 2
    assert "unknown option --nothing" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["--voirfile", "x.py"], "name a script"),
        (["train.py"], "no voirfile to check"),
        (["nothing.py", "--voirfile", "x.py"], "no such file: nothing.py"),
        (["-m", "nothing", "--voirfile", "x.py"], "no module named nothing"),
        (["train.py", "--voirfile", "nothing.py"], "nothing.py"),
        (["broken.py", "--voirfile", "x.py"], "does not parse"),
        (["train.py", "--voirfile", "broken.py"], "broken.py"),
        (["train.py", "--voirfile", "empty.py"], "no instrument"),
        (["train.py", "--voirfile", "raises.py"], "ZeroDivisionError"),
        (["train.py", "--voirfile", "selector.py"], "f > \n"),
        (["-", "--voirfile", "x.py"], "nothing else to read"),
    ],
)
def test_bad_input(
    project: Path, capsys: pytest.CaptureFixture[str], argv: list[str], message: str
) -> None:
    voirfile(project, "pass")
    (project / "broken.py").write_text("def (")
    (project / "empty.py").write_text("")
    (project / "raises.py").write_text("1 / 0")
    (project / "selector.py").write_text("def instrument_it(ov):\n    ov.value('f > ')\n")
    assert check.main(argv) == 2
    sentence = capsys.readouterr()
    assert sentence.out == ""
    assert sentence.err.startswith("inject: ") and message in sentence.err


def test_nothing_of_the_program_is_run(project: Path) -> None:
    (project / "engine.py").write_text("raise SystemExit('was run')\n" + ENGINE)
    option = voirfile(
        project, 'ov.value("/engine/train_step > out")', 'ov.value("//Trainer/fit > self.loss")'
    )
    done = subprocess.run(
        [sys.executable, "-m", "injector", "check", option, "train.py"],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "engine.py:7   out = batch   observed" in done.stdout
    assert "engine.py:4   self.loss = batch   observed" in done.stdout
    assert not (project / ".inject").exists()
