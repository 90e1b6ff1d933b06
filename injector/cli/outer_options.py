"""What ``--container`` and ``--engine`` share: the options of ours that stand first, and the run folder.

Both run the same command again, elsewhere, and take their own options away before.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import NamedTuple

from injector.errors import UserError
from injector.launch.command import FLAGS, SHORT, VALUED, Command
from injector.store.place import Place, create


class GivenOption(NamedTuple):
    """One option of ``inject run``."""

    name: str
    """In its long form."""
    value: str
    """Nothing of a flag."""
    words: list[str]
    """As it was written."""


@dataclass
class OuterCommand:
    """A command line of ``inject run``, taken apart as far as where it runs is concerned."""

    options: list[GivenOption]
    """All of ours."""
    rest: list[str]
    """The words after them."""

    def value(self, name: str) -> str | None:
        """Of an option, the last that was given."""
        return next((each.value for each in reversed(self.options) if each.name == name), None)

    def words(self, *without: str) -> list[str]:
        """The whole command line, without some options."""
        kept = [word for each in self.options if each.name not in without for word in each.words]
        return [*kept, *self.rest]


def leading_options(words: Sequence[str]) -> tuple[list[GivenOption], list[str]]:
    """Our options that come first, and all words after them. Those of voirfiles are not known here.

    Raises UserError for one without its value.
    """
    found, rest = [], list(words)
    while rest:
        option, equals, value = rest[0].partition("=")
        name = SHORT.get(option, option)
        if name not in (*VALUED, *FLAGS):
            break
        count = 1 if equals or name in FLAGS else 2
        value = value if equals else "".join(rest[1:count])
        if name in VALUED and not value:
            raise UserError(f"{option} needs a value")
        found.append(GivenOption(name, value, rest[:count]))
        del rest[:count]
    return found, rest


def program_of(rest: Sequence[str]) -> Command:
    """The program behind our options, where its kind is known without the files that it will find."""
    command = Command()
    words = list(rest[1:] if rest[:1] == ["--"] else rest)
    if words[:1] == ["-m"] and words[1:]:
        command.kind, command.target, command.arguments = "module", words[1], words[2:]
    elif words and not words[0].startswith("-"):
        kind = "script" if os.path.exists(words[0]) else "command"
        command.kind, command.target, command.arguments = kind, words[0], words[1:]
    return command


def reserved(options: Sequence[GivenOption], program: Command) -> Place:
    """The run folder, which is made here, so that it is the user's; ``raw`` in it is for who records.

    Raises UserError where none can be made.
    """
    given = {each.name: each.value for each in options}
    into, runs = given.get("--into"), given.get("--runs")
    if into is not None:
        if runs is not None:
            raise UserError("--into names the run folder, --runs the folder that it is made in")
        new = not os.path.exists(into)
        try:
            os.makedirs(into, exist_ok=True)
        except OSError as error:
            raise UserError(f"--into {into}: {error.strerror}") from None
        return Place(os.path.abspath(into), (), new)
    named = given.get("--name") or (program.name if program.kind else "run")
    place = create(named, runs)
    if place.path is None:
        raise UserError("; ".join(place.problems))
    os.rmdir(os.path.join(place.path, "raw"))
    return place


def discard_unused(place: Place) -> None:
    """Nothing was recorded: what was made for it goes, unless something lies in it."""
    if place.new and place.path is not None:
        with suppress(OSError):
            os.rmdir(place.path)
