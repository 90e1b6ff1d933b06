"""The exception that a program ended with, in one line: what went wrong, not who reports it.

An exception may report another one, of a worker (Ray, ``torch.multiprocessing``) or of several tasks
(``ExceptionGroup``): its message, or its traceback, holds the other's.
"""

from __future__ import annotations

from collections.abc import Sequence

# Patterns are compiled, and `re` imported, where they are used: every run imports this module, and few fail.
HEAD = "Traceback (most recent call last)"
_FRAME = r'(\s*)File ".*", line \d+, in '
_NAMED = r"[\w.]*(?:Error|Exception)\b"
"""How the line of an exception begins, below frames that no :data:`HEAD` stands above."""
_COLOUR = r"\x1b\[[0-9;]*m"
_MEMBER = r"\s*\+[-+]*-+ \d+ -+"
"""What stands above each exception of a group."""
_MARGIN = r"\s*\| "
_GROUP = "ExceptionGroup"


def in_a_line(kind: object, message: object, trace: object = "") -> str:
    """``"ValueError: its message"``: of an exception of class ``kind`` or, where it reports another one, of
    that. Without a message, the class alone.
    """
    name, lines = str(kind or "error"), str(message or "").splitlines()
    if member := _first_member(str(trace or "").splitlines()) if name.endswith(_GROUP) else []:
        return reported_in(member) or first_line(member)
    first = first_line(lines)
    return reported_in(lines) or (f"{name}: {first}" if first else name)


def reported_in(lines: Sequence[str]) -> str:
    """The line of the exception that the last traceback in ``lines`` ends with; empty where there is none."""
    import re

    plain = [re.sub(_COLOUR, "", line) for line in lines]
    frames = [(at, found) for at, line in enumerate(plain) if (found := re.match(_FRAME, line))]
    if not frames:
        return ""
    at, frame = frames[-1]
    depth = len(frame[1])
    below = (line for line in plain[at + 1 :] if line.strip())
    raised = next((line.strip() for line in below if _depth(line) < depth), "")
    whole = any(HEAD in line for line in plain[:at])
    return raised if whole or re.match(_NAMED, raised) else ""


def first_line(lines: Sequence[str]) -> str:
    """The first of ``lines`` that has a word in it: a launcher's message begins with a rule."""
    import re

    plain = (re.sub(_COLOUR, "", line).strip() for line in lines)
    return next((line for line in plain if any(map(str.isalnum, line))), "")


def _depth(line: str) -> int:
    return len(line) - len(line.lstrip())


def _first_member(trace: Sequence[str]) -> list[str]:
    """The lines of the first exception in a group, or in a group within it; none where there is no group."""
    import re

    plain = [re.sub(_MARGIN, "", line) for line in trace]
    begins = [at for at, line in enumerate(plain) if re.match(_MEMBER, line)]
    ends = [*begins[1:], len(plain)] if begins else []
    for begin, end in zip(begins, ends, strict=True):
        if "+-+" not in "".join(plain[end : end + 1]):  # the members of a member begin deeper
            return [line for line in plain[begin + 1 : end] if not line.lstrip().startswith("+--")]
    return []
