"""The command line of ``inject run``: which words are ours, a voirfile's, the program's.

    inject run [OPTIONS] SCRIPT|-m MODULE|- [OPTIONS] [ARGUMENTS…]
    inject run [OPTIONS] COMMAND [ARGUMENTS…]

The first word after the program that is none of ours starts the program's arguments; ``--`` does so
anyway. Directly after a script, an option of ours that the script's own text spells stays with the
program: ``inject run train.py --workers 4`` must do what ``python train.py --workers 4`` does.
There ``--help`` is always the program's.
"""

from __future__ import annotations

import os
import sys

from injector.errors import UserError
from injector.launch.environment import find_command
from injector.launch.limits import limit

TYPE_CHECKING = False  # importing typing would cost 5 ms
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    Declared = Callable[["Command"], Mapping[str, object]]

LIMITS = ("--skip", "--stop", "--max-duration", "--timeout", "--grace", "--interval")
VALUED = ("--voirfile", "--config", "--runs", "--into", "--name", *LIMITS)
FLAGS = ("--workers", "--strict", "--quiet", "--no-auto", "--live", "--no-live", "--help")
SHORT = {"-h": "--help", "-q": "--quiet"}

DEFAULT = "voirfile.py"
AUTO = "auto"
"""As a voirfile: the shipped ones, each when the program imports its library."""
LONGEST = 1 << 22
"""Bytes of a script that are searched for an option."""


class Command:
    """A command line of ``inject run``, taken apart."""

    def __init__(self) -> None:
        self.voirfiles: list[str] = []
        self.configs: list[str] = []
        self.options: list[str] = []
        """Words for the options that the voirfiles declare."""
        self.runs: str | None = None
        self.into: str | None = None
        """The run folder itself, where one was named."""
        self.given_name: str | None = None
        self.limits: dict[str, float] = {}
        """Steps or seconds, by option: after how many to stop."""
        self.flags: set[str] = set()
        self.kind = ""
        """``script`` ``module`` ``stdin`` ``command``, or nothing if no program was named."""
        self.target = ""
        self.closed = False
        """Whether ``--`` said that nothing after the program is ours."""
        self.arguments: list[str] = []
        self.notes: list[str] = []
        """Sentences for the report, about words that could have been ours."""

    @property
    def automatic(self) -> bool:
        """Whether shipped voirfiles act in processes that import their libraries."""
        return AUTO in self.voirfiles or "--no-auto" not in self.flags

    @property
    def name(self) -> str:
        """What the run is called: the script's stem, the module's or the command's name."""
        if self.given_name:
            return self.given_name
        if self.kind == "module":
            return self.target
        if self.kind == "stdin":
            return "stdin"
        path = os.path.abspath(self.target)
        return os.path.splitext(os.path.basename(path))[0] or "run"

    def words(self) -> list[str]:
        """The program and its arguments, as given to python (or, for a command, to the system)."""
        before = {"module": ["-m", self.target], "stdin": ["-"]}
        return [*before.get(self.kind, [self.target]), *self.arguments]

    def all_voirfiles(self) -> list[str]:
        """The voirfiles, absolute: those asked for, else the one beside the script."""
        if self.voirfiles:
            return [os.path.abspath(path) for path in self.voirfiles if path != AUTO]
        folder = ""
        if self.kind == "script":
            folder = self.target if os.path.isdir(self.target) else os.path.dirname(self.target)
        path = os.path.abspath(os.path.join(folder, DEFAULT))
        return [path] if self.kind and os.path.isfile(path) else []


def split(words: list[str], declared: Declared) -> Command:
    """Take a command line apart.

    ``declared(command)`` says which options the voirfiles of a command declare, as a mapping from
    option to ``nargs``; it is only asked about a word that could be one.

    Raises UserError for an option nobody knows and for one without its value.
    """
    command = Command()
    rest = list(words)
    while rest and not command.kind:
        _before_program(command, rest, declared)
    while rest and not command.closed:
        _after_program(command, rest, declared)
    command.arguments = rest
    return command


def _before_program(command: Command, rest: list[str], declared: Declared) -> None:
    word = rest[0]
    option, _, _ = word.partition("=")
    if word == "--":
        rest.pop(0)
        if rest:
            _aim(command, rest)
        command.closed = True
    elif not _is_option(word) or _names_module(word):
        _aim(command, rest)
    elif SHORT.get(option, option) in (*VALUED, *FLAGS):
        _take_own(command, rest)
    else:
        known = declared(_ahead(command, rest))
        if option not in known:
            raise UserError(_unknown(option, [*VALUED, *FLAGS, *known]))
        command.options += _take(rest, known[option])


def _after_program(command: Command, rest: list[str], declared: Declared) -> None:
    """Take the first word if it is ours; if it is not, the rest is the program's."""
    word = rest[0]
    option, _, _ = word.partition("=")
    own = option in (*VALUED, *FLAGS) and option != "--help"
    if word == "--":
        rest.pop(0)
    elif _is_option(word) and mentions(command, option):
        if own:
            command.notes.append(
                f"{option} was left to {command.target}, which names it; "
                f"written before {command.target} it is inject's"
            )
    elif own:
        _take_own(command, rest)
        return
    elif _is_option(word) and command.all_voirfiles():
        known = declared(command)
        if option in known:
            command.options += _take(rest, known[option])
            return
    command.closed = True


def _is_option(word: str) -> bool:
    return word.startswith("-") and word not in ("-", "--")


def _names_module(word: str) -> bool:
    return word.startswith("-m")


def _aim(command: Command, rest: list[str]) -> None:
    """The program stands at the front of ``rest``."""
    word = rest.pop(0)
    if word == "-m" and not rest:
        raise UserError("-m needs the name of a module")
    if _names_module(word):
        command.kind, command.target = "module", word[2:] or rest.pop(0)
    elif word == "-":
        command.kind, command.target = "stdin", word
    elif os.path.exists(word) or "/" in word or not find_command(word):
        command.kind, command.target = "script", word
    else:
        command.kind, command.target, command.closed = "command", word, True


def _take_own(command: Command, rest: list[str]) -> None:
    option, equals, value = rest.pop(0).partition("=")
    option = SHORT.get(option, option)
    if option in FLAGS:
        if equals:
            raise UserError(f"{option} takes no value")
        command.flags.add(option)
        return
    if not equals:
        if not rest or rest[0].startswith("--"):
            raise UserError(f"{option} needs a value")
        value = rest.pop(0)
    if option == "--voirfile":
        command.voirfiles.append(value)
    elif option == "--config":
        command.configs.append(value)
    elif option == "--runs":
        command.runs = value
    elif option == "--into":
        command.into = value
    elif option in LIMITS:
        command.limits[option] = limit(option, value)
    else:
        command.given_name = value


def _take(rest: list[str], nargs: object) -> list[str]:
    """The words of one option that a voirfile declares, ``nargs`` being argparse's."""
    word = rest.pop(0)
    taken = [word]
    if "=" in word or nargs == 0:
        return taken
    if nargs is None or isinstance(nargs, int):
        count = 1 if nargs is None else nargs
        if len(rest) < count:
            raise UserError(f"{word} needs {count} value{'s' * (count > 1)}")
        taken += rest[:count]
        del rest[:count]
        return taken
    while rest and not _is_option(rest[0]) and rest[0] != "--":
        taken.append(rest.pop(0))
        if nargs == "?":
            break
    return taken


def _ahead(command: Command, rest: list[str]) -> Command:
    """What the command will probably be, for finding the voirfiles that stand further on."""
    guess = Command()
    guess.voirfiles, guess.configs = list(command.voirfiles), list(command.configs)
    words = iter(rest)
    for word in words:
        option, equals, value = word.partition("=")
        if word == "--":
            break
        if option in VALUED:
            value = value if equals else next(words, "")
        if option == "--voirfile":
            guess.voirfiles.append(value)
        elif option == "--config":
            guess.configs.append(value)
        elif not guess.kind and not _is_option(word) and os.path.exists(word):
            guess.kind, guess.target = "script", word
    return guess


def _unknown(option: str, known: list[str]) -> str:
    from difflib import get_close_matches

    near = get_close_matches(option, known, 1, 0.6)
    hint = f"; did you mean {near[0]}?" if near else " (see inject run --help)"
    return f"unknown option {option}{hint}"


def mentions(command: Command, option: str) -> bool:
    """Whether the program's own text has an option: spelled, quoted, or as a parameter or field.

    ``"--workers"``, ``"workers"``, ``workers=4``, ``workers: int`` are what argparse, click, absl,
    fire and dataclass parsers make options of.
    """
    text = _text(command)
    if not text:
        return False
    import re

    forms = [rb"(?<![\w.-])%s(?![\w-])" % re.escape(option).encode()]
    if option.startswith("--"):
        name = re.escape(option[2:]).replace("\\-", "[-_]").encode()
        forms += [rb"(['\"])%s\1" % name, rb"(?<![\w.-])%s\s*[:=](?!=)" % name]
    return any(re.search(form, text) for form in forms)


def _text(command: Command) -> bytes:
    path = command.target
    if command.kind == "module":
        path = _module_file(command.target) or ""
    elif os.path.isdir(path):
        path = os.path.join(path, "__main__.py")
    try:
        if not os.path.isfile(path):
            return b""
        with open(path, "rb") as file:
            return file.read(LONGEST)
    except OSError:
        return b""


def _module_file(name: str) -> str | None:
    """The file that ``python -m name`` would run, found without importing anything."""
    parts = name.split(".")
    for folder in ("", *sys.path[1:]):
        stem = os.path.join(folder, *parts)
        for path in (os.path.join(stem, "__main__.py"), stem + ".py"):
            if os.path.isfile(path):
                return path
    return None
