"""What ``--container`` and ``--engine`` share. Both run the same ``inject run`` elsewhere, without their own
options, into a run folder that is created here.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import NamedTuple

from injector.errors import UserError
from injector.launch.command import SHORT, VALUED, Command
from injector.limits import FLAGS
from injector.store.place import Place, new_place


class GivenOption(NamedTuple):
    """One option of ``inject run``."""

    name: str
    """Its long form."""
    value: str
    """Its value; "" for a flag."""
    words: list[str]
    """The words as they were written, one or two."""


@dataclass
class OuterCommand:
    """A command line of ``inject run``, divided into our leading options and the rest."""

    options: list[GivenOption]
    rest: list[str]

    def value(self, name: str) -> str | None:
        """The value that was given last for an option; None if it was not given."""
        return next((each.value for each in reversed(self.options) if each.name == name), None)

    def words(self, *without: str) -> list[str]:
        """The command line without the options named ``without``."""
        kept = [word for each in self.options if each.name not in without for word in each.words]
        return [*kept, *self.rest]


def leading_options(words: Sequence[str]) -> tuple[list[GivenOption], list[str]]:
    """Our options at the beginning of ``words``, and all words from the first that is none of ours.

    The options of voirfiles are not known here. Raises UserError for an option without its value.
    """
    options, rest = [], list(words)
    while rest:
        option, equals, value = rest[0].partition("=")
        name = SHORT.get(option, option)
        if name not in (*VALUED, *FLAGS):
            break
        count = 1 if equals or name in FLAGS else 2
        value = value if equals else "".join(rest[1:count])
        if name in VALUED and not value:
            raise UserError(f"{option} needs a value")
        options.append(GivenOption(name, value, rest[:count]))
        del rest[:count]
    return options, rest


def program_of(rest: Sequence[str]) -> Command:
    """The program in the words after our options, as far as its kind is known without running voirfiles."""
    command = Command()
    words = list(rest[1:] if rest[:1] == ["--"] else rest)
    if words[:1] == ["-m"] and words[1:]:
        command.kind, command.target, command.arguments = "module", words[1], words[2:]
    elif words and not words[0].startswith("-"):
        kind = "script" if os.path.exists(words[0]) else "command"
        command.kind, command.target, command.arguments = kind, words[0], words[1:]
    return command


def reserve(options: Sequence[GivenOption], program: Command) -> Place:
    """Create the run folder, so that it is the user's own. ``raw`` in it is left to the run that records.

    Raises UserError if it cannot be created.
    """
    given = {each.name: each.value for each in options}
    named = given.get("--name") or (program.name if program.kind else "run")
    place = new_place(named, given.get("--runs"), given.get("--into"))
    if place.path is None:
        raise UserError("; ".join(place.problems))
    os.rmdir(os.path.join(place.path, "raw"))
    return place


def discard_unused(place: Place) -> None:
    """Remove the folder that was created for a run, if it is empty."""
    if place.new and place.path is not None:
        with suppress(OSError):
            os.rmdir(place.path)
