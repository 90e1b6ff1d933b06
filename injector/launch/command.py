"""Taking apart the command line of ``inject run``: which words are ours, a voirfile's, the program's.

    inject run [OPTIONS] SCRIPT|-m MODULE|- [ARGUMENTS…]
    inject run [OPTIONS] COMMAND [ARGUMENTS…]

Options of ours and of voirfiles stand before the program. Every word after it is the program's: which
options its parser knows, its own text does not tell. The one exception is ``--voirfile FILE``, unless
the program's text spells it; with ``--`` before the program, or among its arguments, there is none.

An option that a voirfile declares is the voirfile's, also where ours has the same name: then both act.
"""

from __future__ import annotations

import os
import sys

from injector.errors import UserError
from injector.launch.environment import MANY, find_command, interpreter_line, is_foreign
from injector.limits import (
    LIMITS,
    layers_of,
    limit,
    peak_of,
    phase_of,
    price_of,
    profile_of,
    tag_of,
    track_of,
)

TYPE_CHECKING = False  # importing typing would cost 5 ms
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    Declared = Callable[["Command"], Mapping[str, object]]

CONTAINER = ("--container", "--container-engine", "--container-mount", "--container-pull")
"""What says in which container the whole command runs: taken away before the rest is read."""
ENGINE = ("--engine", "--engine-option")
"""What says where the whole command runs: taken away likewise."""
REPEATED = {"--voirfile": "voirfiles", "--config": "configs"}
PAIRS: dict[str, tuple[str, Callable[[str], tuple[str, str]]]] = {
    "--tag": ("tags", tag_of),
    "--track": ("tracks", track_of),
}
SINGLE: dict[str, tuple[str, Callable[[str], object]]] = {
    "--runs": ("runs", str),
    "--into": ("into", str),
    "--name": ("given_name", str),
    "--price": ("price", price_of),
    "--layers": ("layers", layers_of),
    "--peak-flops": ("peak", peak_of),
    "--torch-profile": ("profiled", profile_of),
    "--phase": ("phase", phase_of),
}
"""By option the attribute of a :class:`Command`, and what reads its value."""
VALUED = (*REPEATED, *PAIRS, *SINGLE, *CONTAINER[:-1], *ENGINE, *LIMITS)
FLAGS = (
    *("--workers", "--strict", "--quiet", "--no-auto", "--no-monitor", "--no-voirfile", "--sample"),
    *("--live", "--no-live", "--flops", "--memory", "--verbose", "--help", "--sample-native"),
    "--container-pull",
)
SHORT = {"-h": "--help", "-q": "--quiet"}
UNSHARED = ("--voirfile", "--config", "--no-voirfile", "--help", *CONTAINER, *ENGINE)
"""What says which voirfiles there are and how they are set: no voirfile can declare these."""

DEFAULT = "voirfile.py"
VARIABLE = "VOIRFILE"
"""Names voirfiles where the command line names none, as it does for voir."""
AUTO = "auto"
"""As a voirfile: the shipped ones, each when the program imports its library."""
LONGEST = 1 << 22
"""Bytes of a file that are searched for an option."""
LAUNCHERS = ("torch.distributed.", "accelerate.", "deepspeed.", "lightning.")
"""Modules (by how their names begin) that start the script that they are given."""


class Command:
    """A command line of ``inject run``, taken apart."""

    def __init__(self) -> None:
        self.voirfiles: list[str] = []
        self.configs: list[str] = []
        self.options: list[list[str]] = []
        """Options for the voirfiles, each with its values. Those of a name that is ours go to the
        voirfiles that declare it, if any does."""
        self.runs: str | None = None
        self.into: str | None = None
        """The run folder itself, where one was named."""
        self.given_name: str | None = None
        self.tags: dict[str, str] = {}
        self.layers = 0
        """Down to which depth calls of modules are recorded."""
        self.peak: float | None = None
        """FLOP/s of one device at best."""
        self.price: tuple[float, str] | None = None
        """What an hour of the run costs, and the currency."""
        self.tracks: dict[str, str] = {}
        """By tracker, where it is; nothing for its own default."""
        self.profiled: tuple[int, int] | None = None
        """The steps that torch.profiler records: the first, and the first one not."""
        self.limits: dict[str, float] = {}
        """Steps or seconds, by option: after how many to stop."""
        self.phase: str | None = None
        """What the program was declared to do: ``training`` or ``inference``."""
        self.flags: set[str] = set()
        self.kind = ""
        """``script`` ``module`` ``function`` ``stdin`` ``command``; nothing if no program was named."""
        self.target = ""
        self.closed = False
        """Whether ``--`` stood before the program, so that no word after it is ours."""
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
        if self.given_name is not None:
            return self.given_name
        if self.kind == "stdin":
            return "stdin"
        kind, target = self.program()
        if kind in ("module", "function"):
            return target
        return os.path.splitext(os.path.basename(os.path.abspath(target)))[0] or "run"

    def program(self) -> tuple[str, str]:
        """Kind and target of what is run, be it through a launcher such as ``torchrun``."""
        if self.kind == "command" or (self.kind == "module" and self.target.startswith(LAUNCHERS)):
            for before, word in zip(["", *self.arguments], self.arguments[:MANY], strict=False):
                if before in ("-m", "--module"):
                    return "module", word
                if word.endswith(".py") and os.path.isfile(word):
                    return "script", word
        return self.kind, self.target

    def again(self, more: Sequence[str]) -> list[str]:
        """Words of ``inject run`` that run the program once more, with its voirfiles and their options.

        Of what is about a measured run only ``more`` is in it.
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
        """The program and its arguments, as given to python (or, for a command, to the system)."""
        if self.kind == "function":
            return ["-c", _CALL.format(self.target, *self.target.split(":")), *self.arguments]
        before = {"module": ["-m"]}.get(self.kind, [])
        return [*before, self.target, *self.arguments]

    def all_voirfiles(self) -> list[str]:
        """The voirfiles, absolute: those that were named, else the one beside the script."""
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
        """The voirfiles that were named; None: the one beside the script."""
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
"""What ``-m package.module:function`` runs, as voir does: whatever the function returns is dropped."""


def split(words: list[str], declared: Declared) -> Command:
    """Take a command line apart, of which what is about a container has been taken away.

    ``declared(command)`` says which options the voirfiles of a command declare, as a mapping from
    option to ``nargs``; it is only called for a word that could be one.

    Raises UserError for an unknown option and for one without its value.
    """
    command = Command()
    rest = list(words)
    while rest and not command.kind:
        _before_program(command, rest, declared)
    command.arguments = rest
    if not command.closed:
        _take_voirfiles(command)
    if "--gpu-poll" in command.limits:  # milabench's word; its interval is not one between samples
        command.limits["--interval"] = command.limits.pop("--gpu-poll")
    if "--sample-native" in command.flags:
        command.flags.add("--sample")
    if "--no-voirfile" in command.flags and command.voirfiles:
        raise UserError("--voirfile names a voirfile, --no-voirfile wants none: not both")
    return command


def _before_program(command: Command, rest: list[str], declared: Declared) -> None:
    word = rest[0]
    if word == "--":
        rest.pop(0)
        if rest:
            _aim(command, rest)
        command.closed = True
    elif not _is_option(word) or word.startswith("-m"):
        _aim(command, rest)
    else:
        _take_option(command, rest, declared)


def _take_option(command: Command, rest: list[str], declared: Declared) -> None:
    option = rest[0].partition("=")[0]
    own = SHORT.get(option, option)
    ours = own in VALUED or own in FLAGS
    known: Mapping[str, object] = {}
    ahead = _ahead(command, rest)
    if not ours:
        known = declared(ahead)
    elif own not in UNSHARED:
        # Whether it takes a value is the voirfile's to say; running that is only for where it may.
        texts = map(_contents, ahead.all_voirfiles())
        known = declared(ahead) if any(_spells(text, option) for text in texts) else {}
    if option in known:
        taken = _take(rest, known[option])
        command.options.append(taken)
        if ours:
            _act_too(command, own, taken)
    elif ours:
        value = _own_value(own, rest)
        if own not in UNSHARED:
            command.options.append([option] if value is None else [option, value])
        _set(command, own, value)
    else:
        raise UserError(_unknown(option, [*VALUED, *FLAGS, *known]))


def _act_too(command: Command, own: str, taken: list[str]) -> None:
    """Ours, as far as it can be read in what was given to a voirfile's option of that name."""
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


def _own_value(option: str, rest: list[str]) -> str | None:
    """The value of an option of ours, which is the first word; None of a flag."""
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


def _aim(command: Command, rest: list[str]) -> None:
    """The program stands at the front of ``rest``."""
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
    """Each ``--voirfile FILE`` among the program's arguments, if the program does not know it."""
    kept: list[str] = []
    rest = list(command.arguments)
    marked = "--voirfile"
    its = None
    while rest and rest[0] != "--":
        if rest[0].partition("=")[0] != marked:
            kept.append(rest.pop(0))
            continue
        if its is None:
            its = _program_spells(command, marked)
        if its:
            kept.append(rest.pop(0))
        else:
            command.voirfiles.append(str(_own_value(marked, rest)))
    if its:
        text = (
            f"{marked} was left to {command.target}, which names it; written before, it is inject's"
        )
        command.notes.append(text)
    command.arguments = [*kept, *rest]


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
    guess.flags = set(command.flags)
    left = list(rest)
    while left and not guess.kind:
        word = left[0]
        option, equals, value = word.partition("=")
        if word == "--":
            guess.closed = True
        elif not _is_option(word) and (os.path.exists(word) or find_command(word)):
            _aim(guess, left)
            continue
        elif option in VALUED and not equals:
            value = left[1] if left[1:] else ""
            del left[:1]
        elif option == "--no-voirfile":
            guess.flags.add(option)
        elif word == "-m" and left[1:]:
            _aim(guess, left)
            continue
        del left[:1]
        if option in REPEATED:
            getattr(guess, REPEATED[option]).append(value)
    guess.arguments = left
    if not guess.closed:
        _take_voirfiles(guess)
    return guess


def _unknown(option: str, known: list[str]) -> str:
    from difflib import get_close_matches

    near = get_close_matches(option, known, 1, 0.6)
    hint = f"; did you mean {near[0]}?" if near else " (see inject run --help)"
    return f"unknown option {option}{hint}"


def _program_spells(command: Command, option: str) -> bool:
    """Whether the text of the program has an option; be it one that a launcher is given."""
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
    """Whether a text has an option: spelled, quoted, or as a parameter or field.

    ``"--workers"``, ``"workers"``, ``workers=4``, ``workers: int`` are what argparse, click, absl,
    fire and dataclass parsers make options of.
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
    """The beginning of a file, or of the ``__main__`` of a folder; nothing where there is none."""
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
    """The file that ``python -m name`` would run, found without importing anything."""
    parts = name.split(".")
    for folder in ("", *sys.path[1:]):
        stem = os.path.join(folder, *parts)
        for path in (os.path.join(stem, "__main__.py"), stem + ".py"):
            if os.path.isfile(path):
                return path
    return None
