"""What ``inject run`` does with voirfiles before the program starts: it compiles them, and asks for their
options.

The voirfiles are executed here for that, and again in the program's process, where they act.
"""

from __future__ import annotations

import os

from injector.errors import UserError

TYPE_CHECKING = False  # importing typing would cost 5 ms
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from injector.launch.command import Command
    from injector.overseer.options import Options


def usable_voirfiles(command: Command) -> tuple[list[str], list[str]]:
    """The paths of the command's voirfiles, and a sentence about one beside the script that cannot be used.

    Raises UserError if a file that the command line names is missing, cannot be read, or does not parse.
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
        raise UserError(_syntax_error(error, path)) from None
    except ValueError as error:
        raise UserError(f"{path}: {error}") from None


def _read(path: str, what: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError as error:
        raise UserError(f"{what} {path}: {error.strerror}") from None


def _syntax_error(error: SyntaxError, path: str) -> str:
    """The message of ``error`` with its line of the file and a caret under the mistake."""
    message = f"{path}:{error.lineno}: {error.msg}"
    text = (error.text or "").rstrip()
    if not text:
        return message
    offset = max(1, error.offset or 1)
    indent = len(text) - len(text.lstrip())
    return f"{message}\n    {text.strip()}\n    {' ' * (offset - 1 - indent)}^"


def declared_options(command: Command) -> Mapping[str, Any]:
    """The ``nargs`` of each option that the command's voirfiles declare, by its name."""
    options = options_of(command)
    return {} if options is None else options.nargs()


def options_of(command: Command) -> Options | None:
    """The options that the command's voirfiles declare; None without a voirfile that can be used.

    Raises UserError if a file that the command line names is at fault.
    """
    voirfiles, _ = usable_voirfiles(command)
    if not voirfiles:
        return None
    from contextlib import redirect_stdout
    from io import StringIO

    from injector.overseer.planning import declare

    try:
        # What they print appears when the program's process runs them.
        with redirect_stdout(StringIO()):
            return declare(voirfiles, [os.path.abspath(path) for path in command.configs])
    except UserError:
        if command.named() is not None or command.configs:
            raise
        return None  # the program's process reports it
