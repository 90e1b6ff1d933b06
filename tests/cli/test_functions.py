"""`inject functions`: what can be named, ready to paste."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from injector.cli import functions
from injector.rewrite.selector_reader import parse

ROOT = Path(functions.__file__).parents[2]

TRAIN = """\
import os

class Trainer:
    def step(self, batch):
        self.loss = batch
        return self.loss

def train(data):
    for batch in data:
        loss = batch
    return loss

if __name__ == "__main__":
    total = train([1])
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "train.py").write_text(TRAIN)
    for name, text in {
        "pkg/__init__.py": "version = 1\n",
        "pkg/__main__.py": "def go(): x = 1\n",
        "pkg/net.py": "def forward(x):\n    y = x\n",
        "space/leaf.py": "def f(): z = 1\n",
    }.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def lines(capsys: pytest.CaptureFixture[str], *argv: str) -> list[str]:
    assert functions.main(argv) == 0
    return capsys.readouterr().out.splitlines()


def test_script(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert lines(capsys, "train.py") == [
        "module level   train.py:1",
        "    // > total                   train.py:14",
        "",
        "Trainer.step(self, batch)   train.py:4",
        "    //Trainer/step > self        train.py:4",
        "    //Trainer/step > batch       train.py:4",
        "    //Trainer/step > self.loss   train.py:5",
        "",
        "train(data)   train.py:8",
        "    //train > data               train.py:8",
        "    //train > batch              train.py:9",
        "    //train > loss               train.py:10",
        "    //train > #loop_batch        train.py:9",
        "    //train > #endloop_batch     train.py:9",
        "",
        "Every function also has #enter, #exit, #error and #value: //Trainer/step > #enter; "
        "what it returns: //Trainer/step() as result",
    ]


def test_every_line_can_be_pasted(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for target in ("train.py", "pkg", "json", "dataclasses"):
        shown = [line for line in lines(capsys, target) if line.startswith("    ")]
        assert shown
        for line in shown:
            selector, _, _ = line.strip().rpartition("   ")
            assert parse(selector).captures[0].focus
        # The note names a function of the list.
        note = lines(capsys, target)[-1]
        entry, result = re.findall(r": (//?\S+(?: > #enter| as result))", note)
        assert parse(entry) and parse(result)
        listed = json.loads("\n".join(lines(capsys, target, "--json")))
        assert entry.partition(" > ")[0] in {each["selector"] for each in listed}


def test_grep(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert lines(capsys, "train.py", "--grep", "train > l|import|Trainer > ")[:5] == [
        "class Trainer   train.py:3",
        "    //Trainer > step   train.py:4",
        "",
        "train(data)   train.py:8",
        "    //train > loss     train.py:10",
    ]
    assert "    // > os   train.py:1" in lines(capsys, "train.py", "--grep", "// > os")
    assert functions.main(["train.py", "--grep", "nothing like it"]) == 1
    assert "nothing to name that matches" in capsys.readouterr().err


def test_functions_without_variables_are_listed(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (project / "empty.py").write_text("def nothing(): pass\n")
    assert lines(capsys, "empty.py")[0] == "nothing()   empty.py:1"
    assert lines(capsys, "empty.py", "--grep", "//nothing$")[0] == "nothing()   empty.py:1"


def test_module(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert lines(capsys, "pkg.net")[:3] == [
        "forward(x)   pkg/net.py:1",
        "    /pkg.net/forward > x   net.py:1",
        "    /pkg.net/forward > y   net.py:2",
    ]


def test_package_lists_its_modules(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / "pkg" / "__main__.py").unlink()
    for target in ("pkg", "./pkg", str(project / "pkg")):
        shown = lines(capsys, target)
        assert "pkg, its own level   pkg/__init__.py:1" in shown
        assert "    /pkg/ > version        __init__.py:1" in shown
        assert "    /pkg.net/forward > y   net.py:2" in shown
    assert "    /space.leaf/f > z   leaf.py:1" in lines(capsys, "space")


def test_folder_with_main_is_a_program(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "    //go > x   __main__.py:1" in lines(capsys, "pkg")


def test_zip_is_a_program(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with zipfile.ZipFile("app.zip", "w") as file:
        file.writestr("__main__.py", "def go(): x = 1\n")
    assert "    //go > x   __main__.py:1" in lines(capsys, "app.zip")


def test_run_as_module(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "    //go > x   __main__.py:1" in lines(capsys, "-m", "pkg")
    assert "    //forward > y   net.py:2" in lines(capsys, "-m", "pkg.net")


def test_json(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert functions.main(["train.py", "--json"]) == 0
    level, cls, step, train = json.loads(capsys.readouterr().out)
    assert (level["kind"], cls["kind"], step["kind"]) == ("module", "class", "method")
    assert train["selector"] == "//train"
    assert (train["file"], train["line"], train["arguments"]) == ("train.py", 8, ["data"])
    assert {
        "name": "loss",
        "selector": "//train > loss",
        "line": 10,
        "kind": "assignment",
        "tags": None,
    } in train["variables"]
    assert {
        "name": "os",
        "selector": "// > os",
        "line": 1,
        "kind": "import",
        "tags": None,
    } in level["variables"]
    assert "#value" in [variable["name"] for variable in train["variables"]]
    assert functions.main(["train.py", "--json", "--grep", "loss"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [v["selector"] for f in found for v in f["variables"]] == [
        "//Trainer/step > self.loss",
        "//train > loss",
    ]


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        ([], "name one script"),
        (["train.py", "-m", "pkg"], "name one script"),
        (["nothing"], "no file and no module nothing"),
        (["nothing.py"], "no file and no module nothing.py"),
        (["../no-such"], "there is no file ../no-such"),
        (["-m", "nothing"], "no module named nothing"),
        (["sys"], "sys has no Python source"),
        (["train.py", "--grep", "("], "no regular expression"),
        (["broken.py"], "broken.py does not parse"),
        (["odd-folder"], "there is no __main__.py in odd-folder"),
    ],
)
def test_bad_input(
    project: Path, capsys: pytest.CaptureFixture[str], argv: list[str], message: str
) -> None:
    (project / "broken.py").write_text("def (")
    (project / "odd-folder").mkdir()
    assert functions.main(argv) == 2
    sentence = capsys.readouterr()
    assert sentence.out == ""
    assert sentence.err.startswith("inject: ") and message in sentence.err


def test_nothing_is_run(project: Path) -> None:
    (project / "pkg" / "__init__.py").write_text("raise SystemExit('was run')")
    done = subprocess.run(
        [sys.executable, "-m", "injector", "functions", "pkg.net"],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert done.returncode == 0, done.stderr
    assert "/pkg.net/forward > y" in done.stdout
