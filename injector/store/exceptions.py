"""The exception that a program ended with, in one line: the one that went wrong, not one that reports it.

An exception may report another one, of a worker process (Ray, ``torch.multiprocessing``) or of several tasks
(``ExceptionGroup``). The text of the other one's traceback is then in its message, or in its own traceback.
"""

from __future__ import annotations

from collections.abc import Sequence

# Patterns are compiled, and `re` imported, where they are used: every run imports this module, and few fail.
HEAD = "Traceback (most recent call last)"
_FRAME = r'(\s*)File ".*", line \d+, in '
_NAMED = r"[\w.]*(?:Error|Exception)\b"
"""The beginning of the line of an exception. It is required where no :data:`HEAD` stands above the frames."""
_COLOUR = r"\x1b\[[0-9;]*m"
_MEMBER = r"\s*\+[-+]*-+ \d+ -+"
"""The line above each exception of a group, such as ``+---------------- 1 ----------------``."""
_MARGIN = r"\s*\| "
"""The left margin of the lines of a group."""
_GROUP = "ExceptionGroup"


def in_a_line(kind: object, message: object, trace: object = "") -> str:
    """A line such as ``"ValueError: its message"`` for an exception of class ``kind``.

    If it reports another exception in its message or ``trace``, the line is the other's. Without a message,
    the line is the class alone.
    """
    name, lines = str(kind or "error"), str(message or "").splitlines()
    if member := _first_member(str(trace or "").splitlines()) if name.endswith(_GROUP) else []:
        return reported_in(member) or first_line(member)
    first = first_line(lines)
    return reported_in(lines) or (f"{name}: {first}" if first else name)


def reported_in(lines: Sequence[str]) -> str:
    """The line of the exception that the last traceback in ``lines`` ends with; empty without one."""
    import re

    plain = [re.sub(_COLOUR, "", line) for line in lines]
    frames = [(at, match) for at, line in enumerate(plain) if (match := re.match(_FRAME, line))]
    if not frames:
        return ""
    # The exception's own line comes after the innermost frame and is indented less. What is indented as much
    # or more is the source line of that frame, and marks below it.
    at, frame = frames[-1]
    depth = len(frame[1])
    below = (line for line in plain[at + 1 :] if line.strip())
    raised = next((line.strip() for line in below if len(line) - len(line.lstrip()) < depth), "")
    has_head = any(HEAD in line for line in plain[:at])
    return raised if has_head or re.match(_NAMED, raised) else ""


def first_line(lines: Sequence[str]) -> str:
    """The first of ``lines`` with a letter or digit: the message of a launcher may begin with a rule."""
    import re

    plain = (re.sub(_COLOUR, "", line).strip() for line in lines)
    return next((line for line in plain if any(map(str.isalnum, line))), "")


def _first_member(trace: Sequence[str]) -> list[str]:
    """The lines of the first exception in a group that is no group itself; none if ``trace`` has no group."""
    import re

    plain = [re.sub(_MARGIN, "", line) for line in trace]
    begins = [at for at, line in enumerate(plain) if re.match(_MEMBER, line)]
    ends = [*begins[1:], len(plain)] if begins else []
    for begin, end in zip(begins, ends, strict=True):
        # Below the line of a member that is a group itself, the first of its own members begins with "+-+".
        if "+-+" not in "".join(plain[end : end + 1]):
            return [line for line in plain[begin + 1 : end] if not line.lstrip().startswith("+--")]
    return []
