"""Ranks of a job that agree on the step at which all of them stop, through a mapped file.

To look costs a read of memory. Who proposes is settled by the file system: only one can make the
file ``NAME.by``, and only that one writes the number.
"""

from __future__ import annotations

import os
from struct import Struct

from ..bus.window import Window, allocate

SIZE = 4096
PATIENCE = 3
"""Steps that a proposal of another rank may take to be seen."""
_NUMBER = Struct("q")


class SharedStep:
    """The step, in the file ``path`` that the ranks of one job on one host share.

    Where the file cannot be had, ranks stop each for itself: ``look`` sees only the own proposal.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._own = self._asked = 0
        self._window: Window | None = None
        try:
            self._window = _mapped(path)
        except (OSError, ValueError):
            pass

    def look(self) -> int:
        """The number of the step, 0 as long as nobody has proposed one."""
        if self._window is None:
            return self._own
        found: int = _NUMBER.unpack_from(self._window.map)[0]
        return found

    def propose(self, step: int) -> None:
        """Ask all ranks to stop at ``step``; whoever asks first is heard."""
        self._own = step
        self._asked += 1
        # Whoever was first and is killed before writing never will.
        if self._window is not None and (self._first() or self._asked > PATIENCE):
            _NUMBER.pack_into(self._window.map, 0, step)

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
