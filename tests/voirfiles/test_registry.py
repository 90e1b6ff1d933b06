"""What is known of the shipped voirfiles without running them."""

from __future__ import annotations

import json
import runpy
from pathlib import Path

import pytest

from injector import voirfiles
from injector.cli import main
from injector.launch.command import split
from injector.run import supervised
from injector.store.place import Place


@pytest.mark.parametrize("one", voirfiles.shipped(), ids=lambda one: one.name)
def test_what_is_read_is_what_it_says(one):
    text = Path(one.path).read_text(encoding="utf-8")
    assert one.libraries and all(name.isidentifier() for name in one.libraries)
    assert all(part.isdecimal() for version in one.tested for part in version.split("."))
    assert one.about and one.about.endswith((".", "!")), "the first paragraph says what it records"
    assert "instrument_" in text or "\n__instruments__" in text


def test_a_checkout_has_them_at_its_top():
    """As an editable install finds them; tests/suite/test_shipped_wheel.py has an installed wheel's."""
    folder = Path(__file__).parents[2] / "voirfiles"
    assert str(folder) == voirfiles.FOLDER
    assert [one.path for one in voirfiles.shipped()] == [
        str(each) for each in sorted(folder.glob("*.py"))
    ]


def test_torch_is_among_them():
    shipped = voirfiles.shipped()
    by_library = voirfiles.automatic(shipped)
    [path] = [each for each in by_library["torch"] if each.endswith("/torch.py")]
    pytest.importorskip("torch")
    found = runpy.run_path(path)
    assert found["LIBRARY"] == "torch"
    reported = {one.name: one for one in shipped}["torch"]
    assert found["TESTED"] == reported.tested
    assert (found["DEVICE_METHODS"], found["RANK_METHODS"]) == (
        reported.device_methods,
        reported.rank_methods,
    )
    assert voirfiles.methods(shipped) == (["cuda", "to", "xpu"], ["wait"], ["reset", "step"])


def test_constants_are_read_in_any_form(tmp_path):
    (tmp_path / "one.py").write_text(
        '"""Says\nthis.\n\nAnd more."""\nLIBRARY = ("a", \'b\')\nTESTED = "1.5"\n'
        'RANK_METHODS = ("wait",)\n'
    )
    (tmp_path / "_not.py").write_text("")
    (tmp_path / "notes.txt").write_text("")
    [one] = voirfiles.shipped(str(tmp_path))
    path = str(tmp_path / "one.py")
    assert one == voirfiles.Shipped(
        "one", path, ("a", "b"), ("1.5", ""), "Says this.", (), ("wait",), ()
    )
    assert voirfiles.methods([one]) == ([], ["wait"], [])
    assert voirfiles.automatic([one]) == {"a": [one.path], "b": [one.path]}


def test_an_installation_without_voirfiles_is_a_problem_of_the_run(monkeypatch, tmp_path):
    monkeypatch.setattr(supervised, "shipped", lambda: voirfiles.shipped(str(tmp_path / "none")))
    command = split(["--no-monitor", "main.py"], lambda _: {})
    run = supervised.SupervisedRun(command, [], Place(str(tmp_path), ()), [])
    assert run.acting_voirfiles() == []
    [problem] = run.problems
    assert problem.startswith("no shipped voirfile acts: ") and "No such file" in problem
    command.flags.add("--no-auto")
    run = supervised.SupervisedRun(command, [], Place(str(tmp_path), ()), [])
    assert (run.acting_voirfiles(), run.problems) == ([], [])


def test_the_verb_lists_them(capsys):
    assert main(["voirfiles"]) == 0
    header, *lines = capsys.readouterr().out.splitlines()
    assert header.split() == ["name", "library", "tested", "records"]
    assert [line.split()[0] for line in lines] == [one.name for one in voirfiles.shipped()]
    assert main(["voirfiles", "--json"]) == 0
    assert [one["name"] for one in json.loads(capsys.readouterr().out)] == [
        one.name for one in voirfiles.shipped()
    ]
