"""Import NumPy without what our own processes do not use: threads for linear algebra, and docstrings.

OpenBLAS, which is a part of NumPy's wheels, starts a thread for each processor when it is loaded, and each of
them spins while it waits for work. That is 100 ms of processor time on two processors, half of what importing
NumPy takes, and nothing here multiplies matrices. OpenBLAS reads the number of threads from the environment
once, when it is loaded; other builds of NumPy ignore the variable.

Two modules of NumPy do nothing but give its compiled functions their docstrings, which is a seventh of the
import. Empty modules stand in for them meanwhile; under ``python -OO``, these docstrings are missing as well.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import TracebackType

VARIABLE = "OPENBLAS_NUM_THREADS"
DOCSTRINGS = ("numpy._core._add_newdocs", "numpy._core._add_newdocs_scalars")


class WithoutThreads:
    """A ``with`` block in which NumPy is to be imported first.

    Afterwards the environment is as it was, for the processes that are started from here.
    """

    __slots__ = ("_before", "_empty")

    def __enter__(self) -> None:
        self._before = os.environ.get(VARIABLE)
        if self._before is None:  # else the user has chosen a number
            os.environ[VARIABLE] = "1"
        # None are missing within another such block, or where NumPy has been imported already.
        self._empty = {name: type(sys)(name) for name in DOCSTRINGS if name not in sys.modules}
        sys.modules.update(self._empty)

    def __exit__(
        self, kind: type[BaseException] | None, error: object, trace: TracebackType | None
    ) -> None:
        if self._before is None:
            os.environ.pop(VARIABLE, None)
        # Removed again, so that a later import of them by name gets the real ones.
        for name, module in self._empty.items():
            if sys.modules.get(name) is module:
                del sys.modules[name]
