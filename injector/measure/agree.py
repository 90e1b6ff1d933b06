"""Ranks of a job that agree on where all of them stop, through a mapped file.

To look costs a read of memory. Who decides is settled by the file system: only one can make the file
``NAME.by``, and only that one writes the decision.
"""

from __future__ import annotations

import os
import time
from struct import Struct

from ..store.mapped import Window, allocate

SIZE = 4096
PATIENCE = 3
"""Steps that a proposal of another rank may take to be seen."""
AT_ONCE = -1
"""The decision that each rank stops where it is: all of them want to."""
TOGETHER = 0.5
"""Seconds in which ranks that all want to stop at the same place get there."""
_NUMBER = Struct("q")
_ASKER = Struct("2q")
_RANKS = 64
"""Where the ranks have a byte each."""
_HERE, _WANTS = 1, 2


class SharedStep:
    """The decision, in the file ``path`` that the ranks of one job on one host share.

    Where the file cannot be had, ranks stop each for itself: ``look`` sees only the own proposal.
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
        """The number of the step, 0 as long as none was proposed, or :data:`AT_ONCE`."""
        if self._window is None:
            return self._own
        found: int = _NUMBER.unpack_from(self._window.map)[0]
        return found

    def propose(self, step: int, asker: tuple[int, int] | None = None) -> None:
        """Ask all ranks to stop at ``step``; the first proposal counts.

        ``asker`` is the rank whose voirfile wants to stop, and in which step it does.
        """
        self._own = step
        self._proposals += 1
        # A process that was first and is killed before writing never will.
        if self._window is not None and (self._first() or self._proposals > PATIENCE):
            if asker is not None:
                _ASKER.pack_into(self._window.map, _NUMBER.size, asker[0] + 1, asker[1])
            _NUMBER.pack_into(self._window.map, 0, step)

    @property
    def asker(self) -> tuple[int, int] | None:
        """The rank whose voirfile wanted the stop, and in which step; None of a stop by the clock."""
        if self._window is None:
            return None
        rank, step = _ASKER.unpack_from(self._window.map, _NUMBER.size)
        return (rank - 1, step) if rank else None

    def join(self, rank: int) -> None:
        """This process is that rank: others that want to stop wait for what it wants."""
        self._mark(rank, _HERE)

    def want(self, rank: int, step: int, ahead: int) -> int:
        """A voirfile wants to stop ``rank`` in its ``step``; the decision, which it may bring about.

        All stop where they are if all want to; else all do ``ahead`` steps later.
        """
        if self._window is None:
            return AT_ONCE
        self._mark(rank, _WANTS)
        began = last = time.monotonic()
        while not self.look():
            now = time.monotonic()
            all_want = _HERE not in self._window.map[_RANKS:SIZE]
            # The first may only just have been: it is given time to write.
            if now >= last + TOGETHER or (all_want and last == began):
                last = now
                at = AT_ONCE if all_want else step - 1 + ahead
                self.propose(at, None if all_want else (rank, step))
            else:
                time.sleep(0.002)
        return self.look()

    def _mark(self, rank: int, state: int) -> None:
        if self._window is not None and 0 <= rank < SIZE - _RANKS:
            self._window.map[_RANKS + rank] = state

    def _first(self) -> bool:
        try:
            os.close(os.open(self._path + ".by", os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666))
        except FileExistsError:
            return False
        except OSError:  # there is no folder any more
            self._window = None
            return False
        return True


def _mapped(path: str) -> Window:
    os.makedirs(os.path.dirname(path), exist_ok=True)
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    try:
        allocate(fd, 0, SIZE)
        return Window(fd, 0, SIZE)
    finally:
        os.close(fd)
