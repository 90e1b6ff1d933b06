"""The voirfiles of ``inject run`` before the program starts: whether they can be used, and their options."""

from __future__ import annotations

import os

from injector.errors import UserError

TYPE_CHECKING = False  # importing typing would cost 5 ms
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from injector.launch.command import Command
    from injector.overseer.options import Options


def usable(command: Command) -> tuple[list[str], list[str]]:
    """The voirfiles of a command, and what is wrong with one that was found and cannot be used.

    Raises UserError for a file that was named and is not there, cannot be read, or does not parse.
    """
    for path in command.configs:
        _read(path, "configuration")
    voirfiles = command.all_voirfiles()
    try:
        for path in voirfiles:
            _compile(path)
    except UserError as error:
        if command.named() is not None or command.configs:
            raise
        path = os.path.relpath(voirfiles[0])
        return [], [f"the program ran without {path}, which was found and cannot be used: {error}"]
    return voirfiles, []


def _compile(path: str) -> None:
    source = _read(path, "voirfile")
    try:
        compile(source, path, "exec", dont_inherit=True)
    except SyntaxError as error:
        raise UserError(_where(error, path)) from None
    except ValueError as error:
        raise UserError(f"{path}: {error}") from None


def _read(path: str, what: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError as error:
        raise UserError(f"{what} {path}: {error.strerror}") from None


def _where(error: SyntaxError, path: str) -> str:
    message = f"{path}:{error.lineno}: {error.msg}"
    text = (error.text or "").rstrip()
    if not text:
        return message
    offset = max(1, error.offset or 1)
    indent = len(text) - len(text.lstrip())
    return f"{message}\n    {text.strip()}\n    {' ' * (offset - 1 - indent)}^"


def declared(command: Command) -> Mapping[str, Any]:
    """The options that the voirfiles of a command declare, with their ``nargs``."""
    options = options_of(command)
    return {} if options is None else options.nargs()


def options_of(command: Command) -> Options | None:
    """What the voirfiles of a command declare, if it has any that can be used."""
    voirfiles, _ = usable(command)
    if not voirfiles:
        return None
    from contextlib import redirect_stdout
    from io import StringIO

    from injector.overseer.planning import declare

    try:
        with redirect_stdout(StringIO()):  # the program's process runs them too, and that is seen
            return declare(voirfiles, [os.path.abspath(path) for path in command.configs])
    except UserError:
        if command.named() is not None or command.configs:
            raise
        return None  # the program's process reports it
