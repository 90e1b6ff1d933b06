"""How the verbs that run no program end: what they print is read, cut off, or cannot be written."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from functools import wraps

from ..errors import UserError

CUT_OFF = 141
"""The exit code of a program whose reader is gone, as the shell has it: 128 and SIGPIPE."""
INTERRUPTED = 130
Verb = Callable[[Sequence[str]], int]


def ended_well(verb: Callable[[], int]) -> int:
    """Do ``verb()``; returns its exit code, 2 where what it printed could not be written."""
    if sys.stdout is None:  # closed, as cron and `>&-` do
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
    reconfigure = getattr(sys.stdout, "reconfigure", None)
    if reconfigure is not None:  # a name that the terminal's encoding has no letters for is shown
        reconfigure(errors="backslashreplace")
    try:
        code = verb()
        sys.stdout.flush()
    except BrokenPipeError:
        _forget_output()
        return CUT_OFF
    except KeyboardInterrupt:
        return INTERRUPTED
    except OSError as error:
        _forget_output()
        return failed(error)
    return code


def _forget_output() -> None:
    """What is still to be written goes nowhere: Python would try again, and complain, when it ends."""
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (OSError, ValueError):  # not a file
        pass


def reports_errors(who: str = "inject") -> Callable[[Verb], Verb]:
    """A verb whose UserError and OSError are printed, after ``who``: it returns 2 instead of raising them."""

    def reporting(main: Verb) -> Verb:
        @wraps(main)
        def verb(argv: Sequence[str]) -> int:
            try:
                return main(argv)
            except (UserError, OSError) as error:
                return failed(error, who)

        return verb

    return reporting


def failed(error: UserError | OSError, who: str = "inject") -> int:
    """Say what is wrong; returns the exit code. A reader that is gone is no mistake: it is raised."""
    if isinstance(error, BrokenPipeError):
        raise error
    text = str(error)
    if isinstance(error, OSError) and error.strerror:
        text = f"{error.filename or 'what is printed cannot be written'}: {error.strerror}"
    print(f"{who}: {text}", file=sys.stderr)
    return 2
