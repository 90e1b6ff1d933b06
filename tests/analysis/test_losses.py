"""Losses of different things are told apart; a part of one is said to be one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from layouts import EPOCH, MS, Program, report

from injector.analysis.loss_lines import loss_source
from injector.analysis.profile import SourceLine
from injector.analysis.profiling import profile
from injector.analysis.recorded import recorded
from injector.store.folder import open_run


def losses(folder: Path, p: Program, moments: list[tuple[int, float]]) -> dict[str, int]:
    """By name, how many values of the loss that backward starts from there are."""
    report(folder, p)
    events = [
        {"event": "data", "data": {"task": "train", "loss": value, "time": EPOCH + t / 1e9}}
        for t, value in moments
    ]
    (folder / "x.data").write_text("".join(json.dumps(event) + "\n" for event in events))
    return {one.name: one.n for one in recorded(open_run(str(folder))).series}


@pytest.mark.parametrize("late", [0, 0.95])
@pytest.mark.parametrize("lines", [1, 2, 3, 9])
def test_the_losses_of_several_models(tmp_path: Path, lines: int, late: float) -> None:
    """Also where a busy machine lets most of a backward's time pass before its loss is recorded."""
    p, moments = Program(), []
    for step in range(12):
        for each in range(lines):
            p.forward()
            duration = 0.01 if each else 4
            moments.append((p.now + round(late * duration * MS), float(step)))
            p.backward(duration, line=40 + each)
            p.update(of=each, line=60 + each)
    apart = {f"loss at train.py:{40 + each}": 12 for each in range(lines)}
    assert losses(tmp_path / "r", p, moments) == (apart if 1 < lines <= 6 else {"loss": 12 * lines})


def test_the_loss_of_a_backward_that_did_not_end_is_of_no_line(tmp_path: Path) -> None:
    """As where the program was killed: it stood with the line of the last backward that did end."""
    p, moments = Program(), []
    for each in (0, 1):
        p.forward()
        moments.append((p.now, 1.0))
        p.backward(line=40 + each)
        p.update(of=each, line=60 + each)
    p.forward()
    moments.append((p.now, 2.0))
    once = {"loss at train.py:40": 1, "loss at train.py:41": 1}
    assert losses(tmp_path / "r", p, moments) == {**once, "loss": 1}


@pytest.mark.parametrize("late", [False, True])
def test_a_region_around_backward_is_no_second_loss(tmp_path: Path, late: bool) -> None:
    """Whichever is nearer: a loaded machine may let time pass between a loss and its backward."""
    p, moments = Program(), []
    for step in range(12):
        p.forward()
        with p.around("backward", line=39):
            moments.append((p.now, float(step)))
            p.wait(4)
            if not late:
                moments[-1] = (p.now, float(step))
            p.backward(4, line=40)
        p.update()
    assert losses(tmp_path / "r", p, moments) == {"loss": 12}


@pytest.mark.parametrize(("trials", "names"), [(3, 3), (20, 1)])
def test_the_losses_of_the_trials_of_a_study(tmp_path: Path, trials: int, names: int) -> None:
    p, moments = Program(), []
    for _ in range(trials):
        with p.around("trial", line=3):
            for step in range(5):
                p.forward()
                moments.append((p.now, float(step)))
                p.backward()
                p.update()
    found = losses(tmp_path / "r", p, moments)
    assert len(found) == names and "loss" not in found and sum(found.values()) == 5 * trials
    assert names > 1 or list(found) == ["loss of 20 trials"]


def test_losses_of_trials_have_the_numbers_that_their_framework_recorded(tmp_path: Path) -> None:
    p, moments, records = Program(), [], []
    for number in (0, 3, None):  # a worker runs some of a study's trials; the last left no record
        with p.around("trial", line=3):
            p.forward()
            moments.append((p.now, 1.0))
            p.backward()
            p.update()
            if number is not None:
                data = {"framework": "optuna", "thread": 0, "number": number, "state": "complete"}
                records.append({"event": "study", "data": data, "t": p.origin + p.now})
        p.wait(1)
    losses(tmp_path / "r", p, moments)
    with open(tmp_path / "r/raw/h.1.log", "a") as log:
        log.writelines(json.dumps(record) + "\n" for record in records)
    names = [one.name for one in recorded(open_run(str(tmp_path / "r"))).series]
    assert names == ["loss of trial 0", "loss of trial 3", "loss of trial 2"]


@pytest.mark.parametrize("parts", [1, 4])
def test_a_loss_that_may_be_divided_is_said_to_be(tmp_path: Path, parts: int) -> None:
    p = Program()
    for batch in range(40):
        p.io()
        p.forward()
        p.backward()
        if batch % parts == parts - 1:
            p.update()
    found = report(tmp_path / "r", p)
    message = [text for text in found.unmeasured if "loss" in text]
    assert len(message) == (parts > 1) and all("calls backward 4 times" in text for text in message)
    # No loss was recorded: none is shown.
    without = profile(open_run(str(tmp_path / "r")), losses=())
    assert without and not [text for text in without.unmeasured if "loss" in text]
    assert p.now > 40 * MS


SOURCE = """\
import torch

class Model:
    def train(self, x, y):
        loss = 0
        def other():
            loss = 3
        loss = self.criterion(self(x), y)
        loss += self.penalty()
        loss = loss / 4
        {call}

    def one(self):
        self.loss_G = 1
        errD, errG = self.both()
        {attribute}
"""


@pytest.mark.parametrize(
    ("call", "name", "made"),
    [
        ("loss.backward()", "loss", 8),
        ("loss.backward(retain_graph=True)", "loss", 8),
        ("loss.backward(gradient)", "loss", 8),
        ("self.scaler.scale(loss).backward()", "loss", 8),
        ("self.manual_backward(loss)", "loss", 8),
        ("accelerator.backward(loss)", "loss", 8),
        ("torch.autograd.backward(loss)", "loss", 8),
        ("with ctx: loss.backward()", "loss", 8),
        ("(loss + self.penalty()).backward()", "loss + self.penalty()", None),
        ("trainer.fit(model)", "", None),
        ("loss.backward(", "", None),
    ],
)
def test_the_line_that_made_a_loss(tmp_path: Path, call: str, name: str, made: int | None) -> None:
    file = tmp_path / "m.py"
    file.write_text(SOURCE.format(call=call, attribute="pass"))
    found = loss_source(SourceLine(str(file), 11, "train", call))
    assert (found.name, found.made and found.made.line) == (name, made)
    assert made is None or found.made.text == "loss = self.criterion(self(x), y)"  # type: ignore


@pytest.mark.parametrize(
    ("name", "made"), [("self.loss_G", 14), ("errD", 15), ("errG", 15), ("x", None)]
)
def test_attributes_and_pairs(tmp_path: Path, name: str, made: int | None) -> None:
    file = tmp_path / "m.py"
    file.write_text(SOURCE.format(call="pass", attribute=f"{name}.backward()"))
    found = loss_source(SourceLine(str(file), 16, "one", f"{name}.backward()"))
    assert (found.name, found.made and found.made.line) == (name, made)


@pytest.mark.parametrize(
    ("lines", "made"),
    [
        (["loss = 0", "loss += criterion(x)", "loss = loss / 3"], 2),
        (["loss = 0.0", "loss = loss + criterion(x)", "loss /= 3"], 2),
        (["loss, seen = [], []", "loss.append(x)", "loss = torch.cat(loss).sum()"], 3),
        (["loss: list = []", "loss = sum(loss)", "loss = 2 * loss"], 2),
        (["loss = {}", "loss = total(loss)", "pass"], 2),
        (["loss, n = criterion(x), 0", "loss += penalty", "loss *= 2"], 1),
        (["loss, n = criterion(x)", "loss += penalty", "pass"], 1),
        (["loss = 0", "loss /= 2", "pass"], 2),
    ],
)
def test_a_loss_that_is_a_sum_is_made_where_something_is_added(
    tmp_path: Path, lines: list[str], made: int
) -> None:
    file = tmp_path / "m.py"
    file.write_text("\n".join([*lines, "loss.backward()\n"]))
    found = loss_source(SourceLine(str(file), 4, "", "loss.backward()")).made
    assert found is not None and (found.line, found.text) == (made, lines[made - 1])


BRANCHES = {
    "if a:|    ONE|else:|    TWO": False,
    "if a:|    ONE|elif b:|    TWO": False,
    "ONE|if a:|    TWO": False,
    "if a:|    ONE|    TWO|else:|    pass": False,
    "if a:|    pass|TWO": True,
    "if a:|    ONE|TWO": True,
    "ONE|with a:|    TWO": True,
    "ONE|for a in b:|    TWO": True,
    "try:|    ONE|except E:|    TWO": False,
    "try:|    pass|except E:|    ONE|finally:|    TWO": True,
    "match a:|    case 1:|        ONE|    case _:|        TWO": False,
    "if a:|    TWO|else:|    raise E": True,
    "if a:|    loss = 0|else:|    TWO": True,
    "def f():|    loss = x|if a:|    TWO|else:|    pass": True,
}
"""The text before a call of backward, and whether a loss is surely of the line TWO."""


@pytest.mark.parametrize("inside", [False, True])
@pytest.mark.parametrize("text", BRANCHES)
def test_a_loss_of_several_branches_is_of_none_of_them(
    tmp_path: Path, text: str, inside: bool
) -> None:
    lines = text.replace("ONE", "loss = f(x)").replace("TWO", "loss = g(x)").split("|")
    lines += ["if a:", "    loss = loss / 2", "loss.backward()"]
    if inside:  # a branch around all of it changes nothing
        lines = ["if outer:", *(f"    {line}" for line in lines), "else:", "    loss = h(x)"]
    file = tmp_path / "m.py"
    file.write_text("\n".join(lines))
    call = next(number for number, line in enumerate(lines, 1) if "backward" in line)
    found = loss_source(SourceLine(str(file), call, "", "loss.backward()"))
    made = max(number for number, line in enumerate(lines, 1) if "g(x)" in line)
    assert found.name == "loss"
    assert (found.made and found.made.line) == (made if BRANCHES[text] else None)


def test_a_file_that_has_changed_says_nothing(tmp_path: Path) -> None:
    file = tmp_path / "m.py"
    file.write_text("loss = 1\n\nloss.backward()\n")
    assert loss_source(SourceLine(str(file), 2, "", "loss.backward()")).made is None
    assert loss_source(SourceLine(str(file), 9, "", "loss.backward()")).made is None
    file.unlink()
    assert loss_source(SourceLine(str(file), 3, "", "loss.backward()")).made is None


def test_a_backward_that_an_update_starts_counts_with_those_before_it(tmp_path: Path) -> None:
    """The last batch of an update, where the optimizer is given a function that computes its loss."""
    p = Program()
    for _ in range(10):
        for last in (False, False, False, True):
            p.io()
            if last:
                with p.around("optimizer", of=1):
                    p.forward()
                    p.backward()
            else:
                p.forward()
                p.backward()
    message = [text for text in report(tmp_path / "r", p).unmeasured if "loss" in text]
    assert len(message) == 1 and "calls backward 4 times" in message[0]


def test_which_of_several_lines_calls_backward_so_often_is_named(tmp_path: Path) -> None:
    """An attack takes gradients of its input three times, before the model learns from what it made."""
    p = Program()
    for _ in range(10):
        p.io()
        for _ in range(3):
            p.forward(line=20)
            p.backward(line=21)
        p.train()
    message = [text for text in report(tmp_path / "r", p).unmeasured if "loss" in text]
    assert len(message) == 1 and "calls backward 3 times at train.py:21;" in message[0]
