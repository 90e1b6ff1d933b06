"""What a voirfile names of loops that a run has shown: in the programs that the loops' own tests run."""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path
from types import SimpleNamespace

import pytest

from injector.analysis.profile import SourceLine
from injector.errors import UserError
from injector.suite.new import proposals, reading
from injector.suite.new.fetching import Fetched, Target
from injector.suite.new.observing import ObservedRun

PROGRAMS = Path(__file__).parents[2] / "programs" / "loops"


def fetched(file):
    target = Target("script", file.name)
    return Fetched({}, target, file, file.parent, (file.parent,), "{source}")


def region(name, place, *children):
    return SimpleNamespace(name=name, place=place, children=children)


def loop(place, backward=(), optimizer=(), fetches=1.0, updates=1.0):
    """A training loop, with what a proposal reads of it."""
    parts = [region("backward", at) for at in backward]
    parts += [region("optimizer", at) for at in optimizer]
    return SimpleNamespace(
        place=place,
        tree=region("step", place, *parts),
        fetches_per_step=fetches,
        updates_per_step=updates,
    )


def at(file, number):
    """A line of a file, with the function that it is in."""
    source = reading.read(file, [file.parent], file)
    text = file.read_text().splitlines()[number - 1].strip()
    return SourceLine(str(file), number, source.scope(number)[1], text)


def marked(file, **others):
    """The loops that the ``#:`` marks of a program say a run of it goes through."""
    found = defaultdict(lambda: defaultdict(list))
    for number, line in enumerate(file.read_text().splitlines(), 1):
        for word in re.findall(r"\S+", line.partition("#:")[2]):
            name, _, which = word.partition("/")
            found[which][name].append(at(file, number))
    return [
        loop(places["pace"][0], places["backward"], places["optimizer"], **others)
        for places in found.values()
        if places["pace"]
    ]


def proposal(name, **others):
    file = PROGRAMS / f"{name}.py"
    seen = ObservedRun(tuple(marked(file, **others)), ("torch",))
    return proposals.propose(fetched(file), seen)


def selectors(found, call="loader"):
    return [line.selector for line in found.lines if line.call == call]


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
    "pretrain_finetune": ["//finetune > loader", "//pretrain > loader"],
}
"""Loops each of whose iterations is a step, and that a variable of their own drives."""


@pytest.mark.parametrize("name", NAMED)
def test_what_drives_a_loop_is_named(name):
    assert sorted(selectors(proposal(name))) == NAMED[name]


@pytest.mark.parametrize(
    ("name", "fetches", "begins"),
    [
        ("accumulate", 4.0, "Not every iteration"),
        ("skip_batches", 1.5, "Not every iteration"),
        ("break_epoch", 1.0, "A `break` may leave it"),
        ("eval_train_set", 1.0, "No variable"),
        ("no_loader", 0.0, "No variable"),
        ("loader_next", 1.0, "No variable"),
        ("two_optimizers", 1.0, "No variable"),
        ("gan_loader", 1.0, "No variable"),
    ],
)
def test_a_loop_that_a_name_would_count_wrongly_is_only_shown(name, fetches, begins):
    found = proposal(name, fetches=fetches)
    assert selectors(found) == []
    assert found.remarks[0].text.startswith(begins)
    assert found.remarks[0].place.startswith(f"{name}.py:")
    assert "shipped for torch" in found.remarks[0].text


def test_the_losses_of_several_loops_are_kept_apart():
    found = [line for line in proposal("pretrain_finetune").lines if line.call == "value"]
    assert {(line.selector, line.name) for line in found} == {
        ("//pretrain > loss", "pretrain_loss"),
        ("//finetune > loss", "finetune_loss"),
    }


def written(tmp_path, text, **others):
    for name, more in others.items():
        (tmp_path / f"{name}.py").write_text(more)
    (tmp_path / "train.py").write_text(text)
    return tmp_path / "train.py"


def find(file, text):
    """The line of a file that begins with ``text``."""
    lines = [line.strip() for line in file.read_text().splitlines()]
    return at(file, next(n for n, line in enumerate(lines, 1) if line.startswith(text)))


UPDATE = """\
def update(model, optimizers, batch):
    loss = model(batch).mean()
    loss.backward()
    for optimizer in optimizers:
        optimizer.step()
"""


def test_a_step_in_a_function_of_another_module(tmp_path):
    text = "from steps import update\n\ndef main(batches):\n    for batch in batches:\n"
    file = written(tmp_path, text + "        update(model, optimizers, batch)\n", steps=UPDATE)
    steps = tmp_path / "steps.py"
    made = find(steps, "loss.backward"), find(steps, "optimizer.step")
    paced = loop(find(file, "for batch"), [made[0]], [made[1]])
    found = proposals.propose(fetched(file), ObservedRun((paced,), ("torch",)))
    assert [line.selector for line in found.lines] == ["//main > batches", "/steps/update > loss"]


def test_a_loop_over_optimizers_is_a_part_of_a_step(tmp_path):
    text = (
        "def train(batches, optimizers):\n    for batch in batches:\n        loss = batch.sum()\n"
    )
    text += "        loss.backward()\n        for each in optimizers:\n            each.step()\n"
    file = written(tmp_path, text)
    step = find(file, "each.step")
    paced = loop(step, [find(file, "loss.backward")], [step], fetches=0.0)
    found = proposals.propose(fetched(file), ObservedRun((paced,), ("torch",)))
    assert selectors(found) == ["//train > batches"]


def test_a_loader_that_a_function_is_given_is_not_named(tmp_path):
    text = "def train(loader):\n    loader = prepare(loader)\n    for x in loader:\n"
    file = written(tmp_path, text + "        x.backward()\n")
    paced = loop(find(file, "for x"))
    assert selectors(proposals.propose(fetched(file), ObservedRun((paced,)))) == [
        "//train > loader"
    ]
    file.write_text(file.read_text() + "    evaluate(loader)\n")
    assert selectors(proposals.propose(fetched(file), ObservedRun((paced,)))) == []


def test_a_loop_of_a_library_is_only_shown(tmp_path):
    paced = loop(SourceLine("/else/where.py", 7, "fit", "for x in y:"))
    file = written(tmp_path, "import torch\n")
    found = proposals.propose(fetched(file), ObservedRun((paced,), ("torch",)))
    assert found.lines == () and found.places == ("where.py:7  for x in y:",)
    assert found.remarks[0].place == "where.py:7  for x in y:"
    assert found.remarks[0].text.startswith("No loop of the program's own")


def test_no_loop_and_nothing_shipped(tmp_path):
    file = written(tmp_path, "print('hello')\n")
    (remark,) = proposals.propose(fetched(file), ObservedRun()).remarks
    assert "No training loop was found" in remark.text and "ov.step(" in remark.text


def test_a_second_run_confirms_the_lines():
    first = proposal("by_hand")
    (seen,) = marked(PROGRAMS / "by_hand.py")
    both = frozenset({"// > loader", "// > loss"})
    assert proposals.confirmed(first, ObservedRun((seen,), (), both)) == first
    silent = proposals.confirmed(first, ObservedRun((seen,), (), frozenset({"// > loader"})))
    assert [line.call for line in silent.lines] == ["loader"]
    seen.updates_per_step = 0.75  # some iterations update nothing
    skipping = proposals.confirmed(first, ObservedRun((seen,), (), both))
    assert [line.call for line in skipping.lines] == ["value"]
    assert skipping.remarks[0].text.startswith("Not every iteration")


def test_a_program_that_was_not_run_has_its_loops_in_comments():
    main = PROGRAMS / "trainer_fit.py"
    files, imported = reading.own_files(main, [PROGRAMS])
    found = proposals.unobserved(files, ("torch",))
    assert found.lines == () and "torch" in imported
    assert found.remarks[0].place.startswith("little_trainer.py:19  for batch in")
    assert "not seen in a run" in found.remarks[0].text


def test_imports_in_a_circle_and_files_that_do_not_parse(tmp_path):
    file = written(tmp_path, "import a, broken\n", a="import b\n", b="import a\n", broken="def (\n")
    files, imported = reading.own_files(file, [tmp_path])
    assert [source.name for source in files] == ["", "a", "b"] and imported == set()
    file.write_text("def (\n")
    with pytest.raises(UserError, match=r"train\.py:1: does not parse"):
        reading.check(file, "train.py")


def test_relative_imports_are_followed(tmp_path):
    (tmp_path / "pkg" / "sub").mkdir(parents=True)
    (tmp_path / "pkg" / "__init__.py").write_text("from .sub import thing\n")
    (tmp_path / "pkg" / "sub" / "__init__.py").write_text("from .thing import x\nimport six\n")
    (tmp_path / "pkg" / "sub" / "thing.py").write_text("from .. import other\nx = 1\n")
    (tmp_path / "pkg" / "other.py").write_text("")
    files, imported = reading.own_files(written(tmp_path, "import pkg\n"), [tmp_path])
    names = {source.name for source in files}
    assert names == {"", "pkg", "pkg.sub", "pkg.sub.thing", "pkg.other"} and imported == {"six"}
