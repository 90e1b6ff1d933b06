"""Which words of ``inject run`` are ours, a voirfile's, the program's."""

from __future__ import annotations

import os
import re
from itertools import chain

import pytest
from hypothesis import given
from hypothesis import strategies as st

from injector.errors import UserError
from injector.launch.command import SHORT, UNSHARED, VALUED, split
from injector.limits import FLAGS


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


@pytest.fixture
def tool(here):
    """A command on the PATH."""
    (here / "bin").mkdir()
    (here / "bin" / "tool").write_text("#!/bin/sh\n")
    (here / "bin" / "tool").chmod(0o755)


DECLARED = {"--lr": None, "-l": None, "--flag": 0, "--pair": 2, "--many": "*", "--maybe": "?"}


def declaring(command):
    return DECLARED if command.all_voirfiles() else {}


EVERY_OPTION = [option for option in (*VALUED, *FLAGS) if option != "--voirfile"]


@pytest.mark.parametrize("option", [*EVERY_OPTION, "-q", "-h", "--lr", "--unknown"])
@pytest.mark.parametrize("program", [["main.py"], ["-m", "sub.main"], ["-"], ["tool"], ["sub"]])
def test_what_stands_after_the_program_is_the_programs(here, tool, program, option):
    """Whatever the program's text says: its parser may stand in another file."""
    for value in ([], ["x.yaml"], ["--"]):
        arguments = [option, *value, f"{option}=3", "--voirfile=v.py", "last"]
        command = split(["--runs", "r", *program, *arguments], declaring)
        its = [option, *value, f"{option}=3", *(arguments[-2:] if "--" in value else ["last"])]
        assert command.arguments == its
        assert (command.runs, command.options) == ("r", [["--runs", "r"]])
        assert command.voirfiles == ([] if "--" in value else ["v.py"])
        assert not (command.configs or command.limits or command.flags or command.notes)


def test_repeated():
    words = ["--voirfile", "a", "--voirfile=b", "--config", "c", "--config=d", "main.py"]
    command = split(words, nothing)
    assert (command.voirfiles, command.configs) == (["a", "b"], ["c", "d"])


@pytest.mark.parametrize(
    ("words", "arguments"),
    [
        (["main.py", "--", "--voirfile", "x"], ["--", "--voirfile", "x"]),
        (["main.py", "a", "--voirfile", "x", "--", "b"], ["a", "--", "b"]),
        (["--", "main.py", "--voirfile", "x"], ["--voirfile", "x"]),
        (["main.py", "a", "--quiet"], ["a", "--quiet"]),
        (["main.py", "-", "--quiet"], ["-", "--quiet"]),
        (["main.py", "--help"], ["--help"]),
        (["main.py", "-h"], ["-h"]),
        (["main.py", ""], [""]),
        (["-", "--strict", "x", "--quiet"], ["--strict", "x", "--quiet"]),
        (["-m", "pkg.mod", "--strict", "-m", "x"], ["--strict", "-m", "x"]),
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
        (["--strict", "nothing.py"], "script", ["nothing.py"]),
        (["-m", "a.b", "c"], "module", ["-m", "a.b", "c"]),
        (["-"], "stdin", ["-"]),
        (["tool", "--quiet", "--voirfile", "x"], "command", ["tool", "--quiet"]),
        (["--quiet", "--", "tool", "--", "x"], "command", ["tool", "--", "x"]),
    ],
)
def test_what_is_run(here, tool, words, kind, argv):
    command = split(words, nothing)
    assert (command.kind, command.words()) == (kind, argv)


def test_a_function_of_a_module():
    command = split(["-m", "pkg.mod:main", "a"], nothing)
    assert (command.kind, command.name, command.arguments) == ("function", "pkg.mod:main", ["a"])
    assert command.words()[0] == "-c" and command.words()[-1] == "a"


def test_what_exists_is_a_script_even_if_the_path_has_it_too(here, tool):
    (here / "tool").write_text("#!/bin/sh\n")
    assert split(["tool"], nothing).kind == "script"


@pytest.mark.parametrize(
    ("start", "executable", "kind"),
    [
        (b"#!/bin/sh\n", True, "command"),
        (b"\x7fELF\0", True, "command"),
        (b"#!/bin/sh\n", False, "script"),
        (b"#!/usr/bin/env python3\n", True, "script"),
        (b"print()\n", True, "script"),
    ],
)
def test_a_path_is_a_command_where_the_file_is_none_of_pythons(here, start, executable, kind):
    (here / "other").write_bytes(start)
    (here / "other").chmod(0o755 if executable else 0o644)
    assert split(["./other", "x"], nothing).kind == kind


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--voirfil", "x", "main.py"], "unknown option --voirfil; did you mean --voirfile?"),
        (["--zzz"], "unknown option --zzz (see inject run --help)"),
        (["--runs"], "--runs needs a value"),
        (["--runs", "--quiet", "main.py"], "--runs needs a value"),
        (["--quiet=1", "main.py"], "--quiet takes no value"),
        (["-m"], "-m needs the name of a module"),
        (["-m", "a.b:c.d"], "-m a.b:c.d: write `-m package.module:function`"),
        (["--name", "", "main.py"], "--name needs a value, not ''"),
        (["--into= ", "main.py"], "--into needs a value, not ' '"),
        (["--no-voirfile", "main.py", "--voirfile", "x"], "--voirfile names a voirfile, --no-"),
    ],
)
def test_mistakes(words, message):
    with pytest.raises(UserError, match="^" + re.escape(message)):
        split(words, nothing)


@pytest.mark.parametrize(
    ("text", "its"),
    [
        ('parser.add_argument("--voirfile")', True),
        ("parser.add_argument('-v', '--voirfile', default=1)", True),
        ('flags.DEFINE_string("voirfile", None, "")', True),
        ("def main(voirfile=None): ...", True),
        ("class Args:\n    voirfile: str\n", True),
        ('"""Usage: prog [--voirfile FILE]"""', True),
        ("# a voirfile that is not an option", False),
        ("self.voirfile = 1", False),
        ("voirfile == 1", False),
        ('add("--voirfile-list")', False),
        ('add("--my-voirfile")', False),
        ("num_voirfile = 4", False),
    ],
)
def test_a_voirfile_is_the_programs_where_its_text_has_such_an_option(here, tool, text, its):
    (here / "main.py").write_text(text)
    (here / "sub" / "__main__.py").write_text(text)
    programs = ["main.py"], ["-m", "main"], ["sub"], ["-m", "sub"], ["tool", "run", "main.py"]
    for program in programs:
        command = split([*program, "--voirfile", "x", "--voirfile=y"], nothing)
        assert command.voirfiles == ([] if its else ["x", "y"])
        left = ["--voirfile", "x", "--voirfile=y"] if its else []
        assert command.words() == [*program, *left]
        assert bool(command.notes) == its
        before = split(["--voirfile", "x", *program], nothing)
        assert (before.voirfiles, before.notes) == (["x"], [])


def test_default_voirfile_is_the_one_beside_the_script(here):
    assert split(["sub/main.py"], nothing).all_voirfiles() == []
    (here / "sub" / "voirfile.py").write_text("")
    beside = [str(here / "sub" / "voirfile.py")]
    assert split(["sub/main.py"], nothing).all_voirfiles() == beside
    assert split(["sub"], nothing).all_voirfiles() == beside
    assert split(["main.py"], nothing).all_voirfiles() == []
    given = split(["--voirfile", "x.py", "sub/main.py"], nothing)
    assert given.all_voirfiles() == [str(here / "x.py")]


def test_the_variable_of_voir_names_voirfiles(here, monkeypatch):
    (here / "voirfile.py").write_text("")
    monkeypatch.setenv("VOIRFILE", "a.py sub/b.py")
    named = [str(here / "a.py"), str(here / "sub" / "b.py")]
    assert split(["main.py"], nothing).all_voirfiles() == named
    assert split(["main.py", "--voirfile", "x"], nothing).all_voirfiles() == [str(here / "x")]
    assert split(["--no-voirfile", "main.py"], nothing).all_voirfiles() == []
    monkeypatch.setenv("VOIRFILE", "")
    assert split(["main.py"], nothing).all_voirfiles() == []
    monkeypatch.delenv("VOIRFILE")
    assert split(["main.py"], nothing).all_voirfiles() == [str(here / "voirfile.py")]
    assert split(["--no-voirfile", "main.py"], nothing).all_voirfiles() == []


def test_the_program_is_what_a_launcher_starts(here, tool):
    (here / "sub" / "voirfile.py").write_text("")
    for words in (
        ["tool", "--nproc", "2", "sub/main.py", "x.py"],
        ["-m", "torch.distributed.run", "--nproc", "2", "sub/main.py"],
    ):
        command = split(words, nothing)
        assert command.name == "main"
        assert command.all_voirfiles() == [str(here / "sub" / "voirfile.py")]
    assert split(["tool", "-m", "sub.main"], nothing).name == "sub.main"
    assert split(["-m", "tools.train", "sub/main.py"], nothing).name == "tools.train"
    assert split(["tool", "x"], nothing).name == "tool"


def test_names():
    names = {"main.py": "main", "sub": "sub", "a/b.tar.gz": "b.tar", "-": "stdin"}
    for word, name in names.items():
        assert split([word], nothing).name == name
    assert split(["-m", "a.b"], nothing).name == "a.b"


@pytest.mark.parametrize(
    ("words", "options"),
    [
        (["--lr", "-1", "--flag"], [["--lr", "-1"], ["--flag"]]),
        (["--lr=3"], [["--lr=3"]]),
        (["-l", "3"], [["-l", "3"]]),
        (["--pair", "1", "2"], [["--pair", "1", "2"]]),
        (["--maybe", "1"], [["--maybe", "1"]]),
        (["--flag", "--flag"], [["--flag"], ["--flag"]]),
        (["--many", "1", "2", "--"], [["--many", "1", "2"]]),
    ],
)
def test_options_of_voirfiles(here, words, options):
    command = split(["--voirfile", "v.py", *words, "main.py", "x", "--flag"], declaring)
    assert (command.options, command.arguments) == (options, ["x", "--flag"])


NARGS = {"one": None, "flag": 0, "some": "+", "none": "absent"}


@pytest.mark.parametrize("spelled", ["in its text", "in an import"])
@pytest.mark.parametrize("how", NARGS)
@pytest.mark.parametrize("option", [*EVERY_OPTION, "-q"])
def test_an_option_that_ours_and_a_voirfile_have_in_common(here, option, how, spelled):
    """The voirfile gets what was given, and ours acts as far as it understands."""
    if option in UNSHARED:
        return
    (here / "v.py").write_text(f"add('{option}')" if spelled == "in its text" else "")
    own = SHORT.get(option, option)
    ours_takes = own in VALUED
    takes = {"one": True, "flag": False, "some": True, "none": ours_takes}[how]
    if spelled == "in an import" and takes != ours_takes:
        return  # nobody could know
    value = (
        [
            {
                "--tag": "k=3",
                "--track": "wandb=3",
                "--torch-profile": "3:4",
                "--phase": "training",
            }.get(own, "3")
        ]
        if takes
        else []
    )

    def declares(command):
        return {} if how == "none" else {option: NARGS[how]}

    command = split(["--voirfile", "v.py", option, *value, "--", "main.py", option, "4"], declares)
    assert command.options == [[option, *value]]
    assert command.arguments == [option, "4"]
    acts = own in command.flags or own in command.limits or "--interval" in command.limits
    acts = acts or "3" in (command.runs, command.into, command.given_name, *command.tags.values())
    acts = acts or command.price == (3.0, "") or command.tracks == {"wandb": "3"}
    acts = acts or command.layers == 3 or command.peak == 3
    acts = acts or command.profiled == (3, 4) or command.phase == "training"
    assert acts == (not ours_takes or takes)


def test_what_ours_cannot_read_is_left_to_the_voirfile(here):
    (here / "v.py").write_text("stop: str")
    words = ["--voirfile", "v.py", "--stop", "never", "main.py"]
    command = split(words, lambda _: {"--stop": None})
    assert (command.options, command.limits) == ([["--stop", "never"]], {})
    assert "--stop never was left to the voirfile" in command.notes[0]
    with pytest.raises(UserError, match="a number of steps"):
        split(words, nothing)


def test_milabenchs_word_for_samples_is_not_its_word_for_rates():
    for words in (["--interval", "5", "--gpu-poll", "3"], ["--gpu-poll", "3", "--interval", "5"]):
        command = split([*words, "main.py"], nothing)
        assert command.limits == {"--interval": 3}
        assert sorted(command.options) == [["--gpu-poll", "3"], ["--interval", "5"]]


def test_a_voirfile_named_later_is_known_before(here):
    words = ["--lr", "1", "main.py", "--config", "none.yaml", "--voirfile", "v.py"]
    assert split(words, declaring).options == [["--lr", "1"]]
    (here / "voirfile.py").write_text("")
    assert split(["--lr", "1", "main.py"], declaring).options == [["--lr", "1"]]
    assert split(["--lr", "tool", "-m", "main"], declaring).options == [["--lr", "tool"]]


def test_voirfiles_see_only_what_could_be_theirs(here):
    (here / "voirfile.py").write_text("")

    def never(command):
        raise AssertionError

    for words in (["main.py"], ["main.py", "a", "--x"], ["main.py", "--epochs", "3"]):
        assert split(["--stop", "3", *words], never).words() == words
    with pytest.raises(AssertionError):
        split(["--unknown", "main.py"], never)


OWN = [["--strict"], ["--quiet"], ["--runs", "r"], ["--name=n"], ["--voirfile", "v"]]


@given(st.lists(st.sampled_from(OWN)), st.lists(st.text(max_size=8), max_size=6))
def test_whatever_follows_is_the_programs(before, arguments):
    words = list(chain(*before))
    command = split([*words, "--", "/none/x.py", *arguments], nothing)
    assert command.words() == ["/none/x.py", *arguments]
    assert command.flags == {"--strict", "--quiet"}.intersection(words)
    assert len(command.voirfiles) == words.count("--voirfile")
    if not any(word.startswith("--voirfile") for word in arguments):
        assert split([*words, "/none/x.py", *arguments], nothing).words() == command.words()
