"""What the verbs of ``inject suite`` have in common."""

from __future__ import annotations

from pathlib import Path

import pytest

from injector.cli import main
from injector.cli.suite import options
from injector.suite.config.problems import SuiteError

TEXT = """
variables: {batch: 8}
_base: {run: x.py, tags: [a]}
one: {inherits: _base, argv: ["{batch}"]}
two: {inherits: _base, tags: [b]}
off: {inherits: _base, enabled: false}
"""


def given(tmp_path, *words):
    (tmp_path / "s.yaml").write_text(TEXT)
    parser = options.parser("plan", "")
    return options.suite_of(parser.parse_args([str(tmp_path / "s.yaml"), *words]))


def names(suite):
    return [each.name for each in suite.benchmarks]


def test_the_command_line_reaches_the_suite(tmp_path):
    assert names(given(tmp_path)) == ["one", "two"]
    assert names(given(tmp_path, "--select", "b")) == ["two"]
    assert names(given(tmp_path, "--exclude", "two")) == ["one"]
    assert names(given(tmp_path, "--override", "off.enabled=true", "--select", "off")) == ["off"]
    assert names(given(tmp_path, "-V", "batch=[1, 2]")) == ["one-1", "one-2", "two"]
    assert names(given(tmp_path, "-Vbatch=[1, 2]", "--select", "one")) == ["one-1", "one-2"]
    (one,) = given(tmp_path, "-P", "batch=3", "--select", "one").benchmarks
    assert one.argv({}) == ["3"]
    with pytest.raises(SuiteError, match="did you mean batch"):
        given(tmp_path, "-P", "bacth=3")


def test_the_base_folder(tmp_path, monkeypatch):
    for name in ("INJECT_BASE", "MILABENCH_BASE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    assert options.base_of(None) == tmp_path / ".inject" / "suite"
    monkeypatch.setenv("MILABENCH_BASE", "/mila")
    assert options.base_of(None) == Path("/mila")
    monkeypatch.setenv("INJECT_BASE", "~/own")
    assert options.base_of(None) == Path.home() / "own"
    assert options.base_of("here") == tmp_path / "here"


def test_an_unknown_verb_says_which_there_are(capsys):
    assert main(["suite", "schem"]) == 2
    assert "did you mean schema?" in capsys.readouterr().err
    assert main(["suite", "--help"]) == 0
    assert "schema" in capsys.readouterr().out
