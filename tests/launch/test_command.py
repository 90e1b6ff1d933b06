"""Which words of ``inject run`` are ours, a voirfile's, the program's."""

from __future__ import annotations

import os
import re
from itertools import chain

import pytest
from hypothesis import given
from hypothesis import strategies as st

from injector.errors import UserError
from injector.launch.command import FLAGS, VALUED, split


def nothing(command):
    return {}


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", os.pathsep.join([str(tmp_path / "bin"), os.environ["PATH"]]))
    (tmp_path / "main.py").write_text("print(1)\n")
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "main.py").write_text("print(2)\n")
    return tmp_path


def test_before_and_after_the_script():
    command = split(
        ["--runs", "r", "main.py", "--voirfile", "x.py", "--name=n", "--epochs", "3", "--quiet"],
        nothing,
    )
    assert (command.kind, command.target) == ("script", "main.py")
    assert (command.runs, command.voirfiles, command.name) == ("r", ["x.py"], "n")
    assert command.arguments == ["--epochs", "3", "--quiet"]
    assert not command.flags


def test_repeated():
    words = ["--voirfile", "a", "--voirfile=b", "--config", "c", "--config=d", "main.py"]
    command = split(words, nothing)
    assert (command.voirfiles, command.configs) == (["a", "b"], ["c", "d"])


@pytest.mark.parametrize(
    ("words", "arguments"),
    [
        (["main.py", "--", "--quiet", "--voirfile", "x"], ["--quiet", "--voirfile", "x"]),
        (["main.py", "--quiet", "--", "--strict", "--", "a"], ["--strict", "--", "a"]),
        (["--", "main.py", "--quiet"], ["--quiet"]),
        (["main.py", "a", "--quiet"], ["a", "--quiet"]),
        (["main.py", "-", "--quiet"], ["-", "--quiet"]),
        (["main.py", "--help"], ["--help"]),
        (["main.py", "-h"], ["-h"]),
        (["main.py", ""], [""]),
        (["-", "--strict", "x", "--quiet"], ["x", "--quiet"]),
        (["-m", "pkg.mod", "--strict", "-m", "x"], ["-m", "x"]),
        (["-mpkg.mod", "x"], ["x"]),
    ],
)
def test_where_the_arguments_start(words, arguments):
    assert split(words, nothing).arguments == arguments


@pytest.mark.parametrize(
    ("words", "kind", "argv"),
    [
        (["main.py", "a"], "script", ["main.py", "a"]),
        (["./main.py"], "script", ["./main.py"]),
        (["sub"], "script", ["sub"]),
        (["nothing.py", "--strict"], "script", ["nothing.py"]),
        (["-m", "a.b", "c"], "module", ["-m", "a.b", "c"]),
        (["-"], "stdin", ["-"]),
        (["tool", "--quiet", "--voirfile", "x"], "command", ["tool", "--quiet", "--voirfile", "x"]),
        (["--quiet", "--", "tool", "--", "x"], "command", ["tool", "--", "x"]),
    ],
)
def test_what_is_run(here, words, kind, argv):
    (here / "bin").mkdir()
    (here / "bin" / "tool").write_text("#!/bin/sh\n")
    (here / "bin" / "tool").chmod(0o755)
    command = split(words, nothing)
    assert (command.kind, command.words()) == (kind, argv)


def test_what_exists_is_a_script_even_if_the_path_has_it_too(here):
    (here / "bin").mkdir()
    for name in ("bin/tool", "tool"):
        (here / name).write_text("#!/bin/sh\n")
        (here / name).chmod(0o755)
    assert split(["tool"], nothing).kind == "script"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--voirfil", "x", "main.py"], "unknown option --voirfil; did you mean --voirfile?"),
        (["--zzz"], "unknown option --zzz (see inject run --help)"),
        (["--runs"], "--runs needs a value"),
        (["--runs", "--quiet", "main.py"], "--runs needs a value"),
        (["--quiet=1", "main.py"], "--quiet takes no value"),
        (["-m"], "-m needs the name of a module"),
    ],
)
def test_mistakes(words, message):
    with pytest.raises(UserError, match="^" + re.escape(message)):
        split(words, nothing)


@pytest.mark.parametrize(
    ("text", "option", "its"),
    [
        ('parser.add_argument("--config")', "--config", True),
        ("parser.add_argument('-c', '--config', default=1)", "--config", True),
        ('flags.DEFINE_string("config", None, "")', "--config", True),
        ("def main(config=None): ...", "--config", True),
        ("class Args:\n    config: str\n", "--config", True),
        ('"""Usage: prog [--config FILE]"""', "--config", True),
        ("# a config that is not an option", "--config", False),
        ("self.config = 1", "--config", False),
        ("config == 1", "--config", False),
        ('add("--config-file")', "--config", False),
        ('add("--my-config")', "--config", False),
        ("workers = 4", "--workers", True),
        ("num_workers = 4", "--workers", False),
    ],
)
def test_an_option_that_the_script_names_is_the_scripts(here, text, option, its):
    (here / "main.py").write_text(text)
    command = split(["main.py", option, "x"], nothing)
    assert (command.arguments == [option, "x"]) == its
    assert bool(command.notes) == its
    assert not split([option, "x", "main.py"], nothing).notes


def test_the_same_for_modules_and_folders(here):
    (here / "sub" / "__main__.py").write_text('add("--strict")')
    assert split(["sub", "--strict"], nothing).arguments == ["--strict"]
    assert split(["-m", "sub", "--strict"], nothing).arguments == ["--strict"]
    assert split(["-m", "sub.main", "--strict"], nothing).flags == {"--strict"}


def test_default_voirfile_is_the_one_beside_the_script(here):
    assert split(["sub/main.py"], nothing).all_voirfiles() == []
    (here / "sub" / "voirfile.py").write_text("")
    beside = [str(here / "sub" / "voirfile.py")]
    assert split(["sub/main.py"], nothing).all_voirfiles() == beside
    assert split(["sub"], nothing).all_voirfiles() == beside
    assert split(["main.py"], nothing).all_voirfiles() == []
    given = split(["--voirfile", "x.py", "sub/main.py"], nothing)
    assert given.all_voirfiles() == [str(here / "x.py")]


def test_names():
    names = {"main.py": "main", "sub": "sub", "a/b.tar.gz": "b.tar", "-": "stdin"}
    for word, name in names.items():
        assert split([word], nothing).name == name
    assert split(["-m", "a.b"], nothing).name == "a.b"


DECLARED = {"--lr": None, "-l": None, "--flag": 0, "--pair": 2, "--many": "*", "--maybe": "?"}


def declaring(command):
    return DECLARED if command.all_voirfiles() else {}


@pytest.mark.parametrize(
    ("words", "options", "arguments"),
    [
        (["main.py", "--lr", "-1", "--epochs", "3"], ["--lr", "-1"], ["--epochs", "3"]),
        (["main.py", "--lr=3", "a"], ["--lr=3"], ["a"]),
        (["main.py", "-l", "3", "a"], ["-l", "3"], ["a"]),
        (["--lr", "2", "main.py", "--flag", "a"], ["--lr", "2", "--flag"], ["a"]),
        (["--pair", "1", "2", "main.py", "x"], ["--pair", "1", "2"], ["x"]),
        (["main.py", "--many", "1", "2", "--", "x"], ["--many", "1", "2"], ["x"]),
        (["main.py", "--maybe", "1", "x"], ["--maybe", "1"], ["x"]),
        (["main.py", "--flag", "--quiet", "--flag"], ["--flag", "--flag"], []),
        (["main.py", "x", "--flag"], [], ["x", "--flag"]),
    ],
)
def test_options_of_voirfiles(here, words, options, arguments):
    command = split([*words[:0], "--voirfile", "v.py", *words], declaring)
    assert (command.options, command.arguments) == (options, arguments)


def test_a_voirfile_named_later_is_known_before(here):
    assert split(["--lr", "1", "main.py", "--voirfile", "v.py"], declaring).options == ["--lr", "1"]
    (here / "voirfile.py").write_text("")
    assert split(["--lr", "1", "main.py"], declaring).options == ["--lr", "1"]


def test_voirfiles_are_asked_only_about_what_could_be_theirs(here):
    (here / "voirfile.py").write_text("")
    (here / "main.py").write_text('add("--epochs")')

    def never(command):
        raise AssertionError

    for words in (["main.py"], ["main.py", "a", "--x"], ["main.py", "--epochs", "3"]):
        assert split(words, never).words() == words
    with pytest.raises(AssertionError):
        split(["main.py", "--unknown"], never)


OWN = [["--strict"], ["--quiet"], ["--runs", "r"], ["--name=n"], ["--voirfile", "v"]]


@given(
    st.lists(st.sampled_from(OWN)),
    st.lists(st.sampled_from(OWN)),
    st.lists(st.text(max_size=8), max_size=6),
)
def test_whatever_follows_is_the_programs(before, after, arguments):
    words = [*chain(*before), "/none/x.py", *chain(*after)]
    command = split([*words, "--", *arguments], nothing)
    assert command.words() == ["/none/x.py", *arguments]
    own = [word for pair in (*before, *after) for word in pair]
    assert command.flags == {"--strict", "--quiet"}.intersection(own)
    assert len(command.voirfiles) == own.count("--voirfile")
    first = arguments[0].partition("=")[0] if arguments else ""
    if first not in (*VALUED, *FLAGS, "--"):
        assert split([*words, *arguments], nothing).words() == ["/none/x.py", *arguments]
