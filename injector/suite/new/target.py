"""How a program is started: what stands after ``inject run``, taken apart."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import Any

from ...errors import UserError


@dataclass(frozen=True)
class Target:
    """``-m pkg.train sub --lr 0.1``."""

    kind: str
    """``module``, ``script`` or ``command``."""
    name: str
    """``pkg.train``, ``train.py`` or ``trl``."""
    words: tuple[str, ...] = ()
    """What comes before the first option: a command of the program's own, say."""
    options: tuple[str, ...] = ()

    @property
    def run(self) -> str:
        """As ``run`` in a benchmark.yaml has it."""
        start = ["-m"] if self.kind == "module" else []
        return shlex.join([*start, self.name, *self.words])

    def command(self) -> list[str]:
        """As ``inject run`` and ``inject check`` take it."""
        start = ["-m"] if self.kind == "module" else []
        return [*start, self.name, *self.words, *self.options]

    def argv(self) -> dict[str, Any]:
        """The options as ``argv`` in a benchmark.yaml has them."""
        found: dict[str, Any] = {}
        name = ""
        for word in self.options:
            if word.startswith("-") and not _is_number(word):
                name, _, value = word.partition("=")
                found[name] = value or True
            elif name and found[name] is True:
                found[name] = word
            else:
                found.setdefault("--", []).append(word)
        return found


def _is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True


def parse(text: str) -> Target:
    """Take apart what ``--run`` was given.

    Raises:
        UserError: it names nothing.
    """
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise UserError(f"--run {text!r}: {error}") from None
    module = words[:1] == ["-m"]
    if module:
        words = words[1:]
    if not words or words[0].startswith("-"):
        raise UserError(f"--run {text!r}: write a script, `-m MODULE`, or a command of the package")
    first = next((n for n, word in enumerate(words) if word.startswith("-")), len(words))
    kind = "module" if module else "script" if words[0].endswith(".py") else "command"
    return Target(kind, words[0], tuple(words[1:first]), tuple(words[first:]))
