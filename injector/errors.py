"""Errors that are the user's to mend."""

from __future__ import annotations


class UserError(Exception):
    """Bad input: the message says what, where and what would be right; the exit code is 2."""
