"""How verbs other than ``run`` end: with an error, or output that has no reader or cannot be written."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from functools import wraps

from ..errors import UserError

CUT_OFF = 141
"""The exit code if the reader of the output is gone (``| head``): 128 + SIGPIPE, as in a shell."""
INTERRUPTED = 130
"""The exit code after Ctrl-C: 128 + SIGINT."""
Verb = Callable[[Sequence[str]], int]
"""The ``main`` of a verb: its command line in, the exit code out."""


def call_verb(verb: Callable[[], int]) -> int:
    """Call ``verb()`` and return its exit code, or that of what kept its output from being written."""
    reconfigure = getattr(sys.stdout, "reconfigure", None)
    if reconfigure is not None:  # names may hold letters that the terminal's encoding lacks
        reconfigure(errors="backslashreplace")
    try:
        code = verb()
        sys.stdout.flush()
    except BrokenPipeError:
        _drop_output()
        return CUT_OFF
    except KeyboardInterrupt:
        return INTERRUPTED
    except OSError as error:
        _drop_output()
        return report_error(error)
    return code


def _drop_output() -> None:
    """Send buffered output to nowhere: at its exit Python would try again to write it, and complain."""
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (OSError, ValueError):  # not a file
        pass


def reports_errors(prefix: str = "inject") -> Callable[[Verb], Verb]:
    """A decorator that makes a verb print its UserError or OSError after ``prefix`` and return 2."""

    def decorate(main: Verb) -> Verb:
        @wraps(main)
        def verb(argv: Sequence[str]) -> int:
            try:
                return main(argv)
            except (UserError, OSError) as error:
                return report_error(error, prefix)

        return verb

    return decorate


def report_error(error: UserError | OSError, prefix: str = "inject") -> int:
    """Print ``error`` and return the exit code 2. A BrokenPipeError is raised again: it is no mistake."""
    if isinstance(error, BrokenPipeError):
        raise error
    text = str(error)
    if isinstance(error, OSError) and error.strerror:
        text = f"{error.filename or 'what is printed cannot be written'}: {error.strerror}"
    print(f"{prefix}: {text}", file=sys.stderr)
    return 2
