"""NumPy without threads for its linear algebra, in processes of ours: nothing here multiplies matrices.

OpenBLAS, which NumPy's wheels have in them, starts a thread for each processor when it is loaded, and each
spins while it waits for work: 100 ms of processor time on two processors, half of what importing NumPy takes.
It reads how many are wanted from the environment, once. Elsewhere the variable changes nothing.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import TracebackType

VARIABLE = "OPENBLAS_NUM_THREADS"


class WithoutThreads:
    """Within its ``with`` NumPy is loaded so. After it, programs are given the environment as it was."""

    __slots__ = ("_given",)

    def __enter__(self) -> None:
        self._given = os.environ.get(VARIABLE)
        if self._given is None:
            os.environ[VARIABLE] = "1"

    def __exit__(
        self, kind: type[BaseException] | None, error: object, trace: TracebackType | None
    ) -> None:
        if self._given is None:
            os.environ.pop(VARIABLE, None)
