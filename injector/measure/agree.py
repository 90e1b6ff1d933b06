"""Ranks of a job on one host agree on the step after which all of them stop, through a mapped file.

Reading the decision costs a read of memory, so that it is possible in each step. The file system settles who
decides: only one process can create the file ``NAME.by``, and only that one writes the decision.

The file holds the step as int64 (0 for none), then the rank that wanted to stop plus 1 and its step, and from
byte 64 on a byte for each rank: that it takes part, or that it wants to stop.
"""

from __future__ import annotations

import os
import time
from struct import Struct

from ..store.mapped import Window, allocate

SIZE = 4096
PATIENCE = 3
"""How many steps the process that is to decide may take to write."""
AT_ONCE = -1
"""The decision that each rank stops where it is, since all of them want to stop."""
TOGETHER = 0.5
"""Seconds within which ranks that all want to stop at the same line get there."""
_NUMBER = Struct("q")
_ASKER = Struct("2q")
_RANKS = 64
"""Offset of the bytes of the ranks."""
_HERE, _WANTS = 1, 2


class SharedStep:
    """The decision in the file ``path``, which the ranks of one job on one host share.

    Where the file cannot be created, each rank stops by itself: :meth:`look` sees only its own proposal.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._own = self._proposals = 0
        self._window: Window | None = None
        try:
            self._window = _mapped(path)
        except (OSError, ValueError):
            pass

    def look(self) -> int:
        """Return the step after which to stop, 0 as long as none was proposed, or :data:`AT_ONCE`."""
        if self._window is None:
            return self._own
        step: int = _NUMBER.unpack_from(self._window.map)[0]
        return step

    def propose(self, step: int, asker: tuple[int, int] | None = None) -> None:
        """Propose that all ranks stop after ``step``. The first proposal counts.

        ``asker`` is the rank whose voirfile wants to stop, and the step in which it does.
        """
        self._own = step
        self._proposals += 1
        # The process that created the file may have been killed before it wrote: then another one writes.
        if self._window is not None and (self._is_first() or self._proposals > PATIENCE):
            if asker is not None:
                _ASKER.pack_into(self._window.map, _NUMBER.size, asker[0] + 1, asker[1])
            _NUMBER.pack_into(self._window.map, 0, step)

    @property
    def asker(self) -> tuple[int, int] | None:
        """The rank whose voirfile wanted the stop, and in which step; None for a stop after some time."""
        if self._window is None:
            return None
        rank, step = _ASKER.unpack_from(self._window.map, _NUMBER.size)
        return (rank - 1, step) if rank else None

    def join(self, rank: int) -> None:
        """Take part as ``rank``: others that want to stop wait for what this one wants."""
        self._mark(rank, _HERE)

    def want(self, rank: int, step: int, ahead: int) -> int:
        """Say that a voirfile wants to stop ``rank`` in its ``step``, and wait for the decision.

        All ranks stop where they are if all of them want to, else ``ahead`` steps later.
        """
        if self._window is None:
            return AT_ONCE
        self._mark(rank, _WANTS)
        began = last = time.monotonic()
        while not self.look():
            now = time.monotonic()
            all_want = _HERE not in self._window.map[_RANKS:SIZE]
            # Others may be on their way to the same line, and who decides is given time to write.
            if now >= last + TOGETHER or (all_want and last == began):
                last = now
                decision = AT_ONCE if all_want else step - 1 + ahead
                self.propose(decision, None if all_want else (rank, step))
            else:
                time.sleep(0.002)
        return self.look()

    def _mark(self, rank: int, state: int) -> None:
        if self._window is not None and 0 <= rank < SIZE - _RANKS:
            self._window.map[_RANKS + rank] = state

    def _is_first(self) -> bool:
        """Whether this process is the one to decide."""
        try:
            os.close(os.open(self._path + ".by", os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666))
        except FileExistsError:
            return False
        except OSError:  # there is no folder any more
            self._window = None
            return False
        return True


def _mapped(path: str) -> Window:
    """Map the file at ``path``, which any of the ranks creates. Raises OSError, ValueError."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    try:
        allocate(fd, 0, SIZE)
        return Window(fd, 0, SIZE)
    finally:
        os.close(fd)
