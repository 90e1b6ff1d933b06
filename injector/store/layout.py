"""The file of a process's spans, as it lies in ``raw/``: what its writer and its readers agree on.

``HOST.PID.spans`` stands beside ``HOST.PID.log``. It starts with a header (a JSON line, then NUL); then
come rows of four integers of 64 bits in the byte order of the machine: start and end (nanoseconds of
the monotonic clock), payload, site. The site is stored last; a row whose site is 0 was never written.
"""

from __future__ import annotations

SPANS_SUFFIX = ".spans"
SPANS_HEADER = 1024
"""Bytes."""
SPANS_TITLE = 512
"""Bytes of the header that its line may take; integers of 64 bits follow, the sites of open calls."""
SPANS_ROW = 32
"""Bytes of a row."""
SPANS_COLUMNS = 4

ITEMS_BITS = 24
"""Of a payload that counts items, the low bits are items, and above them stand tokens."""
ITEMS_MASK = (1 << ITEMS_BITS) - 1

VALUES_SUFFIX = ".values"
_FIRST = 1 << 16
_LARGEST = {SPANS_SUFFIX: 1 << 18, VALUES_SUFFIX: 1 << 23}
"""Bytes of the first chunk; each further one is twice as long, to a limit (:mod:`injector.bus.mapped`)."""


def ends(suffix: str, size: int) -> list[int]:
    """Where the chunks end of a mapped file that has ``size`` bytes; a whole file ends with the last."""
    found: list[int] = []
    length = _FIRST
    while sum(found[-1:]) + length <= size:
        found.append(sum(found[-1:]) + length)
        length = min(2 * length, _LARGEST[suffix])
    return found


# --- waits ----------------------------------------------------------------------------------------

WAIT = "wait"
"""The region of being blocked in a function of the standard library, which ``what`` names."""
_GIVING = frozenset(
    [
        *("__next__", "as_completed", "communicate", "get", "next", "result", "result_iterator"),
        *("read", "readall", "readinto", "readv", "recv", "recv_bytes", "recv_bytes_into"),
        *("recv_into", "recvfrom", "recvfrom_into", "recvmsg"),
    ]
)
"""The functions among those that give what they waited for."""


def gives(what: object) -> bool:
    """Whether the function that a wait is ``what`` of gives what it waited for: it may be a batch."""
    return str(what or "").rpartition(".")[2] in _GIVING


# --- fetches --------------------------------------------------------------------------------------


def is_loaders(of: object, selector: object) -> bool:
    """Whether the fetches (``io``) of a site are a loader's, each of which may begin a step.

    ``of`` is the object that the site is of, ``selector`` that of its probe. A function that makes a
    batch (``get_batch``) is called wherever a step needs one, and more than once under accumulation:
    something else paces those steps. Of too many loaders a site is of none of them; the method that
    they are iterated with says that they are.
    """
    return of is not None or str(selector or "").endswith(("__next__", "__anext__"))
