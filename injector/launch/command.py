"""The command line of ``inject run``: which words are ours, a voirfile's, or the program's.

    inject run [OPTIONS] SCRIPT|-m MODULE|- [ARGUMENTS…]
    inject run [OPTIONS] COMMAND [ARGUMENTS…]

Options of ours and of voirfiles stand before the program. Every word after it is the program's, since its
text does not tell which options its parser knows. The one exception is ``--voirfile FILE``, unless the
program's text spells it; after ``--``, before the program or among its arguments, there is no exception.

An option that a voirfile declares is the voirfile's, also where ours has the same name: then both act. So an
option can only be read where the voirfiles are known, which may be named further on: :func:`_guess_ahead`
looks for them there.
"""

from __future__ import annotations

import os
import sys

from injector.errors import UserError
from injector.launch.environment import MANY, find_command, interpreter_line, is_foreign
from injector.limits import (
    CONTAINER,
    ENGINE,
    FLAGS,
    LIMITS,
    READERS,
    TEXTS,
    limit,
    tag_of,
    track_of,
)

TYPE_CHECKING = False  # importing typing would cost 5 ms
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    Declared = Callable[["Command"], Mapping[str, object]]

REPEATED = {"--voirfile": "voirfiles", "--config": "configs"}
"""Options that may be given several times, with the attribute of a :class:`Command` that gathers them."""
PAIRS: dict[str, tuple[str, Callable[[str], tuple[str, str]]]] = {
    "--tag": ("tags", tag_of),
    "--track": ("tracks", track_of),
}
"""Options that give a mapping a key and a value, with its attribute and what reads both."""
SINGLE: dict[str, tuple[str, Callable[[str], object]]] = {
    "--runs": ("runs", str),
    "--into": ("into", str),
    "--name": ("given_name", str),
    "--price": ("price", READERS["--price"]),
    "--layers": ("layers", READERS["--layers"]),
    "--peak-flops": ("peak", READERS["--peak-flops"]),
    "--torch-profile": ("profiled", READERS["--torch-profile"]),
    "--phase": ("phase", READERS["--phase"]),
}
"""Options with one value, with its attribute and what reads it."""
VALUED = (*TEXTS, *READERS, *LIMITS)
SHORT = {"-h": "--help", "-q": "--quiet"}
UNSHARED = ("--voirfile", "--config", "--no-voirfile", "--help", *CONTAINER, *ENGINE)
"""Options by which voirfiles are found: no voirfile can declare these."""

DEFAULT = "voirfile.py"
VARIABLE = "VOIRFILE"
"""The variable that names voirfiles where the command line names none, as for voir."""
AUTO = "auto"
"""As a voirfile: the shipped ones, each when the program imports its library."""
LONGEST = 1 << 22
"""How many bytes of a file are searched for an option."""
LAUNCHERS = ("torch.distributed.", "accelerate.", "deepspeed.", "lightning.")
"""Beginnings of the names of modules that start the script among their arguments."""


class Command:
    """A command line of ``inject run``, in its parts."""

    def __init__(self) -> None:
        self.voirfiles: list[str] = []
        self.configs: list[str] = []
        self.options: list[list[str]] = []
        """The options for voirfiles, each with its values. Those of a name that is ours are among them, for
        the voirfiles that may declare it as well."""
        self.runs: str | None = None
        self.into: str | None = None
        """The run folder itself, if one was named."""
        self.given_name: str | None = None
        self.tags: dict[str, str] = {}
        self.layers = 0
        """The depth down to which calls of modules are recorded; 0 for none."""
        self.peak: float | None = None
        """The most FLOP/s that one device can make."""
        self.price: tuple[float, str] | None = None
        """What an hour of the run costs, and the currency."""
        self.tracks: dict[str, str] = {}
        """The address of each tracker; empty for the tracker's own default."""
        self.profiled: tuple[int, int] | None = None
        """The steps that torch.profiler records: from the first number up to, and without, the second."""
        self.limits: dict[str, float] = {}
        """By option, the steps or seconds after which to stop, and the like."""
        self.phase: str | None = None
        """What the user has declared that the program does: ``training`` or ``inference``."""
        self.flags: set[str] = set()
        self.kind = ""
        """``script``, ``module``, ``function``, ``stdin`` or ``command``; empty if no program was named."""
        self.target = ""
        self.closed = False
        """Whether ``--`` stands before the program, so that no word after it is ours."""
        self.arguments: list[str] = []
        self.notes: list[str] = []
        """Sentences for the report about words that could have been ours."""

    @property
    def automatic(self) -> bool:
        """Whether shipped voirfiles run in processes that import their libraries."""
        return AUTO in self.voirfiles or "--no-auto" not in self.flags

    @property
    def name(self) -> str:
        """The name of the run: that given, else the script's stem, or the name of the module or command."""
        if self.given_name is not None:
            return self.given_name
        if self.kind == "stdin":
            return "stdin"
        kind, target = self.program()
        if kind in ("module", "function"):
            return target
        return os.path.splitext(os.path.basename(os.path.abspath(target)))[0] or "run"

    def program(self) -> tuple[str, str]:
        """Return kind and target of what is run, also of what a launcher such as ``torchrun`` starts."""
        if self.kind == "command" or (self.kind == "module" and self.target.startswith(LAUNCHERS)):
            for before, word in zip(["", *self.arguments], self.arguments[:MANY], strict=False):
                if before in ("-m", "--module"):
                    return "module", word
                if word.endswith(".py") and os.path.isfile(word):
                    return "script", word
        return self.kind, self.target

    def again(self, more: Sequence[str]) -> list[str]:
        """Return the arguments of ``inject run`` that run the program again, with its voirfiles and options.

        Our options about how a run is measured are left out; ``more`` are those to have instead.
        """
        words = ["--quiet", "--no-monitor", *more]
        for path in self.all_voirfiles():
            words += ["--voirfile", path]
        for path in self.configs:
            words += ["--config", path]
        words += [] if self.automatic else ["--no-auto"]
        words += ["--workers"] if "--workers" in self.flags else []
        for option in self.options:
            name = option[0].partition("=")[0]
            if SHORT.get(name, name) not in (*VALUED, *FLAGS):
                words += option
        before = ["-m"] if self.kind in ("module", "function") else []
        return [*words, "--", *before, self.target, *self.arguments]

    def words(self) -> list[str]:
        """Return the program and its arguments as python takes them (for a command, as the system does)."""
        if self.kind == "function":
            return ["-c", _CALL.format(self.target, *self.target.split(":")), *self.arguments]
        before = {"module": ["-m"]}.get(self.kind, [])
        return [*before, self.target, *self.arguments]

    def all_voirfiles(self) -> list[str]:
        """Return the absolute paths of the voirfiles: of those named, else of the one beside the script."""
        named = self.named()
        if named is not None:
            return [os.path.abspath(path) for path in named]
        kind, target = self.program()
        folder = ""
        if kind == "script":
            folder = target if os.path.isdir(target) else os.path.dirname(target)
        path = os.path.abspath(os.path.join(folder, DEFAULT))
        return [path] if kind and os.path.isfile(path) else []

    def named(self) -> list[str] | None:
        """Return the voirfiles that were named; None where the one beside the script is to be used."""
        if self.voirfiles:
            return [path for path in self.voirfiles if path != AUTO]
        if "--no-voirfile" in self.flags:
            return []
        named = os.environ.get(VARIABLE)
        return None if named is None else named.split()


_CALL = """\
import sys
from importlib import import_module
sys.argv[0] = "{0}"
getattr(import_module("{1}"), "{2}")()
"""
"""What ``-m package.module:function`` runs. As with voir, what the function returns is dropped."""


def split(words: list[str], declared: Declared) -> Command:
    """Take a command line apart, from which the options of containers have been removed.

    ``declared(command)`` returns the options that the voirfiles of a command declare, as a mapping from
    option to ``nargs``. It runs these voirfiles, so it is only called for a word that could be one.

    Raises UserError for an unknown option, and for one without its value.
    """
    command = Command()
    rest = list(words)
    while rest and not command.kind:
        _before_program(command, rest, declared)
    command.arguments = rest
    if not command.closed:
        _take_voirfiles(command)
    # milabench's name for it. Its own `--interval` is something else than the time between samples.
    if "--gpu-poll" in command.limits:
        command.limits["--interval"] = command.limits.pop("--gpu-poll")
    if "--sample-native" in command.flags:
        command.flags.add("--sample")
    if "--no-voirfile" in command.flags and command.voirfiles:
        raise UserError("--voirfile names a voirfile, --no-voirfile wants none: not both")
    return command


def _before_program(command: Command, rest: list[str], declared: Declared) -> None:
    """Take one option, or the program, off the front of ``rest``."""
    word = rest[0]
    if word == "--":
        rest.pop(0)
        if rest:
            _take_program(command, rest)
        command.closed = True
    elif not _is_option(word) or word.startswith("-m"):
        _take_program(command, rest)
    else:
        _take_option(command, rest, declared)


def _take_option(command: Command, rest: list[str], declared: Declared) -> None:
    """Take an option with its values off the front of ``rest``."""
    option = rest[0].partition("=")[0]
    own = SHORT.get(option, option)
    ours = own in VALUED or own in FLAGS
    known: Mapping[str, object] = {}
    ahead = _guess_ahead(command, rest)
    if not ours:
        known = declared(ahead)
    elif own not in UNSHARED:
        # If a voirfile declares it too, that decides whether it takes a value. Voirfiles are run to find
        # out only if the text of one of them spells the option.
        texts = map(_contents, ahead.all_voirfiles())
        known = declared(ahead) if any(_spells(text, option) for text in texts) else {}
    if option in known:
        taken = _take_declared(rest, known[option])
        command.options.append(taken)
        if ours:
            _set_own_too(command, own, taken)
    elif ours:
        value = _take_own(own, rest)
        if own not in UNSHARED:
            command.options.append([option] if value is None else [option, value])
        _set(command, own, value)
    else:
        raise UserError(_unknown(option, [*VALUED, *FLAGS, *known]))


def _set_own_too(command: Command, own: str, taken: list[str]) -> None:
    """Set our option as well, as far as the words for a voirfile's option of that name can be read so."""
    _, equals, value = taken[0].partition("=")
    values = [value] if equals else taken[1:]
    if own in VALUED and not values:
        return
    if own in FLAGS:
        if not values or values[0].lower() not in ("0", "no", "off", "false"):
            _set(command, own, None)
        return
    try:
        _set(command, own, values[0])
    except UserError as error:
        text = f"{' '.join(taken)} was left to the voirfile that declares {own}; of inject's own, {error}"
        command.notes.append(text)


def _take_own(option: str, rest: list[str]) -> str | None:
    """Take an option of ours off the front of ``rest``, and return its value; None for a flag."""
    _, equals, value = rest.pop(0).partition("=")
    if option in FLAGS:
        if equals:
            raise UserError(f"{option} takes no value")
        return None
    if not equals:
        if not rest or rest[0].startswith("--"):
            raise UserError(f"{option} needs a value")
        value = rest.pop(0)
    if not value.strip():
        raise UserError(f"{option} needs a value, not {value!r}")
    return value


def _set(command: Command, option: str, value: str | None) -> None:
    """Set an option of ours. Raises UserError for a value that is not right."""
    if option in (*CONTAINER, *ENGINE):
        raise UserError(f"{option} is to stand before the options of voirfiles")
    if value is None:
        command.flags.add(option)
    elif option in REPEATED:
        getattr(command, REPEATED[option]).append(value)
    elif option in PAIRS:
        attribute, pair_of = PAIRS[option]
        getattr(command, attribute).update([pair_of(value)])
    elif option in LIMITS:
        command.limits[option] = limit(option, value)
    else:
        attribute, read = SINGLE[option]
        setattr(command, attribute, read(value))


def _is_option(word: str) -> bool:
    return word.startswith("-") and word not in ("-", "--")


def _take_program(command: Command, rest: list[str]) -> None:
    """Take the program off the front of ``rest``, and find out what kind it is of."""
    word = rest.pop(0)
    if word == "-m" and not rest:
        raise UserError("-m needs the name of a module")
    if word.startswith("-m"):
        command.target = word[2:] or rest.pop(0)
        module, colon, function = command.target.partition(":")
        command.kind = "function" if colon else "module"
        if colon and not (function.isidentifier() and module.replace(".", "_").isidentifier()):
            raise UserError(f"-m {command.target}: write `-m package.module:function`")
    elif word == "-":
        command.kind, command.target = "stdin", word
    elif is_foreign(word) if "/" in word else not os.path.exists(word) and find_command(word):
        command.kind, command.target = "command", word
    else:
        command.kind, command.target = "script", word


def _take_voirfiles(command: Command) -> None:
    """Take each ``--voirfile FILE`` out of the program's arguments, unless the program knows that option."""
    kept: list[str] = []
    rest = list(command.arguments)
    option = "--voirfile"
    program_knows = None
    # The program's text is only read if such a word is there, and then once.
    while rest and rest[0] != "--":
        if rest[0].partition("=")[0] != option:
            kept.append(rest.pop(0))
            continue
        if program_knows is None:
            program_knows = _program_spells(command, option)
        if program_knows:
            kept.append(rest.pop(0))
        else:
            command.voirfiles.append(str(_take_own(option, rest)))
    if program_knows:
        text = (
            f"{option} was left to {command.target}, which names it; written before, it is inject's"
        )
        command.notes.append(text)
    command.arguments = [*kept, *rest]


def _take_declared(rest: list[str], nargs: object) -> list[str]:
    """Take an option that a voirfile declares, with its values, off the front of ``rest``.

    ``nargs`` is as for ``argparse``.
    """
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
    # `?`, `*`, `+` and argparse.REMAINDER: up to the next option.
    while rest and not _is_option(rest[0]) and rest[0] != "--":
        taken.append(rest.pop(0))
        if nargs == "?":
            break
    return taken


def _guess_ahead(command: Command, rest: list[str]) -> Command:
    """Guess the command from the words to come, to find the voirfiles that stand among them.

    Whether an unknown option takes a value is not known here: a word counts as the program only if there is
    such a file or command.
    """
    guess = Command()
    guess.voirfiles, guess.configs = list(command.voirfiles), list(command.configs)
    guess.flags = set(command.flags)
    left = list(rest)
    while left and not guess.kind:
        word = left[0]
        option, equals, value = word.partition("=")
        if word == "--":
            guess.closed = True
        elif not _is_option(word) and (os.path.exists(word) or find_command(word)):
            _take_program(guess, left)
            continue
        # Of our own options it is known whether they take a value; the word is no program then.
        elif option in VALUED and not equals:
            value = left[1] if left[1:] else ""
            del left[:1]
        elif option == "--no-voirfile":
            guess.flags.add(option)
        elif word == "-m" and left[1:]:
            _take_program(guess, left)
            continue
        del left[:1]
        if option in REPEATED:
            getattr(guess, REPEATED[option]).append(value)
    guess.arguments = left
    if not guess.closed:
        _take_voirfiles(guess)
    return guess


def _unknown(option: str, known: list[str]) -> str:
    """Return the message for an unknown option, with the nearest one of ``known``."""
    from difflib import get_close_matches

    near = get_close_matches(option, known, 1, 0.6)
    hint = f"; did you mean {near[0]}?" if near else " (see inject run --help)"
    return f"unknown option {option}{hint}"


def _program_spells(command: Command, option: str) -> bool:
    """Whether the text of the program spells an option, or that of a program which a launcher starts."""
    files = [command.target]
    if command.kind == "command":
        files = [find_command(command.target) or ""]
    elif command.kind in ("module", "function"):
        files = [_module_file(command.target.partition(":")[0]) or ""]
    for before, word in zip(["", *command.arguments], command.arguments[:MANY], strict=False):
        if before in ("-m", "--module"):
            files.append(_module_file(word) or "")
        elif word.endswith((".py", ".sh")) or interpreter_line(word):
            files.append(word)
    return any(_spells(_contents(path), option) for path in files)


def _spells(text: bytes, option: str) -> bool:
    """Whether a text seems to declare an option: spelled, quoted, or as a parameter or field.

    ``"--workers"``, ``"workers"``, ``workers=4`` and ``workers: int`` are what argparse, click, absl, fire
    and parsers of dataclasses make options of.
    """
    if not text:
        return False
    import re

    forms = [rb"(?<![\w.-])%s(?![\w-])" % re.escape(option).encode()]
    if option.startswith("--"):
        name = re.escape(option[2:]).replace("\\-", "[-_]").encode()
        forms += [rb"(['\"])%s\1" % name, rb"(?<![\w.-])%s\s*[:=](?!=)" % name]
    return any(re.search(form, text) for form in forms)


def _contents(path: str) -> bytes:
    """Return the beginning of a file, or of the ``__main__.py`` of a folder; nothing where there is none."""
    if os.path.isdir(path):
        path = os.path.join(path, "__main__.py")
    try:
        if not os.path.isfile(path):
            return b""
        with open(path, "rb") as file:
            return file.read(LONGEST)
    except OSError:
        return b""


def _module_file(name: str) -> str | None:
    """Return the file that ``python -m name`` would run, found without importing anything; None for none."""
    parts = name.split(".")
    for folder in ("", *sys.path[1:]):
        stem = os.path.join(folder, *parts)
        for path in (os.path.join(stem, "__main__.py"), stem + ".py"):
            if os.path.isfile(path):
                return path
    return None
