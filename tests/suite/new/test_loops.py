"""Training loops found by reading: in every program that the loops' own tests run."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from injector.suite.new import modules
from injector.suite.new.loops import Finder
from injector.suite.new.proposals import Seen, propose

PROGRAMS = Path(__file__).parents[2] / "programs" / "loops"
SHIPPED = {"torch": "torch"}


def proposal(file, seen=()):
    program = modules.read(file, file.stem, [file.parent])
    return propose(program, Finder(program.modules), SHIPPED, seen)


def loaders(found):
    return [line.selector for line in found.lines if line.call == "loader"]


def written(tmp_path, text, **others):
    for name, more in others.items():
        (tmp_path / f"{name}.py").write_text(more)
    (tmp_path / "train.py").write_text(text)
    return tmp_path / "train.py"


NAMED = {
    "by_hand": ["// > loader"],
    "checkpoints": ["//main > loader"],
    "eval_epoch": ["//train_one_epoch > loader"],
    "eval_first": ["// > train"],
    "eval_steps": ["//main > train"],
    "graphs": ["// > graphs"],
    "loader_enumerate": ["// > loader"],
    "loader_for": ["//train > loader"],
    "loader_progress": ["//Experiment/__init__ > self.loader"],
    "loader_support": ["//main > queries"],
    "loader_tqdm": ["// > loader"],
    "loader_workers": ["//main > loader"],
    "pretrain_finetune": ["//pretrain > loader", "//finetune > loader"],
}
"""Loops each of whose turns is a step, and that a variable of their own drives."""


@pytest.mark.parametrize("name", NAMED)
def test_what_drives_a_loop_is_named(name):
    assert loaders(proposal(PROGRAMS / f"{name}.py")) == NAMED[name]


@pytest.mark.parametrize(
    ("name", "begins"),
    [
        ("accumulate", "Not every turn"),
        ("skip_batches", "Not every turn"),
        ("break_epoch", "It is left in the middle"),
        ("eval_train_set", "No variable"),
        ("no_loader", "No variable"),
        ("loader_next", "Not every turn"),
        ("two_optimizers", "No variable"),
        ("gan_loader", "No variable"),
    ],
)
def test_what_is_not_a_step_each_turn_is_not_named(name, begins):
    """Named, its turns would count as steps; so it is only said where it is."""
    found = proposal(PROGRAMS / f"{name}.py")
    assert loaders(found) == []
    assert found.remarks[0].text.startswith(begins)
    assert found.remarks[0].place.startswith(f"{name}.py:")
    assert "shipped for torch" in found.remarks[0].text


def test_each_loop_that_is_found_is_where_the_program_s_own_marks_say():
    """`#: … pace` marks the line that paces the steps; a loop found begins there or goes around it.

    A generator that the loop draws from may stand between them: its lines are left out.
    """
    looked_at = 0
    for file in sorted(PROGRAMS.glob("*.py")):
        lines = file.read_text().splitlines()
        paced = [number for number, line in enumerate(lines, 1) if "#:" in line and "pace" in line]
        program = modules.read(file, file.stem, [file.parent])
        within = generators(program.main.tree)
        paced = [line for line in paced if line not in within]
        loops = [loop for loop in Finder(program.modules).loops() if loop.scope.module.file == file]
        for line in paced if loops else ():
            looked_at += 1
            around = [loop for loop in loops if loop.line <= line <= (loop.node.end_lineno or 0)]
            assert around, f"{file.name}:{line}"
    assert looked_at > 30


def generators(tree):
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and any(
            isinstance(n, ast.Yield) for n in ast.walk(node)
        ):
            found |= set(range(node.lineno, node.end_lineno + 1))
    return found


def test_a_loop_in_another_module_is_named_by_it():
    found = proposal(PROGRAMS / "trainer_fit.py")
    assert [line.selector for line in found.lines] == ["/little_trainer/Trainer/fit > loss"]
    assert found.found[0].startswith("little_trainer.py:19")


STEP = """\
def update(model, optimizer, batch):
    loss = model(batch).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


def test_a_step_in_a_function_of_another_module(tmp_path):
    text = "from steps import update\n\ndef main(batches):\n    for batch in batches:\n"
    text += "        update(model, optimizer, batch)\n\nmain(read())\n"
    found = proposal(written(tmp_path, text, steps=STEP))
    assert [line.selector for line in found.lines] == ["//main > batches", "/steps/update > loss"]


def test_a_step_that_a_method_of_an_object_makes(tmp_path):
    trainer = "class Trainer:\n    def update(self, batch):\n        loss = self.model(batch)\n"
    trainer += "        loss.backward()\n        for o in self.optimizers:\n            o.step()\n"
    trainer += "class Other:\n    def update(self, batch): pass\n"
    text = "from trainer import Trainer\n\ndef run(data):\n    t = Trainer()\n"
    text += "    for batch in data:\n        t.update(batch)\n\nrun(read())\n"
    found = proposal(written(tmp_path, text, trainer=trainer))
    assert loaders(found) == ["//run > data"]


def test_a_loop_that_nothing_leads_to_is_said_and_not_named(tmp_path):
    loop = (
        "import torch\n"
        + STEP
        + "def fit(batches):\n    for b in batches:\n        update(m, o, b)\n"
    )
    found = proposal(written(tmp_path, "import loop\nloop.REGISTRY['fit']()\n", loop=loop))
    assert found.lines == ()
    assert "inject new --try" in found.remarks[0].text
    assert found.remarks[0].place.startswith("loop.py:")


def test_a_run_that_went_through_it_names_it(tmp_path):
    loop = STEP + "def fit(batches):\n    for b in batches:\n        update(m, o, b)\n"
    file = written(tmp_path, "import loop\nloop.REGISTRY['fit']()\n", loop=loop)
    line = loop.splitlines().index("    for b in batches:") + 1
    seen = Seen(str(tmp_path / "loop.py"), line, "fit", "for b in batches:", 1.0)
    assert loaders(proposal(file, [seen])) == ["/loop/fit > batches"]
    gathered = Seen(seen.file, seen.line, seen.function, seen.text, 4.0)
    assert loaders(proposal(file, [gathered])) == []


def test_a_run_in_code_that_is_not_the_program_s_is_remarked(tmp_path):
    seen = Seen("/else/where.py", 7, "fit", "for x in y:", 1.0)
    found = proposal(written(tmp_path, "import torch\n"), [seen])
    assert found.lines == ()
    assert found.remarks[0].place == "where.py:7  for x in y:"


def test_no_loop_and_nothing_shipped(tmp_path):
    (remark,) = proposal(written(tmp_path, "print('hello')\n")).remarks
    assert "No training loop was seen" in remark.text and "ov.step(" in remark.text


def test_imports_in_a_circle_and_files_that_do_not_parse(tmp_path):
    file = written(tmp_path, "import a, broken\n", a="import b\n", b="import a\n", broken="def (\n")
    program = modules.read(file, "train", [tmp_path])
    assert [module.name for module in program.modules] == ["__main__", "a", "b"]
    file.write_text("def (\n")
    with pytest.raises(modules.Unreadable, match=r"train\.py:1: does not parse"):
        modules.read(file, "train", [tmp_path])
