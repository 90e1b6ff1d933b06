"""Errors that are the user's to mend."""

from __future__ import annotations


class UserError(Exception):
    """Bad input: the message says what, where and what would be right; the exit code is 2."""


def reason_of(error: Exception) -> str:
    """What went wrong; of an error of the system its file and words: ``FILE: Is a directory``."""
    inner = getattr(error, "reason", None)  # what urllib puts around an error of the network
    if isinstance(inner, OSError):
        error = inner
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    return str(error)
