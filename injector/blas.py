"""NumPy without what processes of ours do not use: threads for its linear algebra, and docstrings.

Nothing here multiplies matrices.

OpenBLAS, which NumPy's wheels have in them, starts a thread for each processor when it is loaded, and each
spins while it waits for work: 100 ms of processor time on two processors, half of what importing NumPy takes.
It reads how many are wanted from the environment, once. Elsewhere the variable changes nothing.

Two modules of NumPy do nothing but give its compiled functions their docstrings, which is a seventh of
importing it. Empty ones stand in their places meanwhile: ``python -OO`` has none of these docstrings either.
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
    """Within its ``with`` NumPy is loaded so. After it, programs are given the environment as it was."""

    __slots__ = ("_empty", "_given")

    def __enter__(self) -> None:
        self._given = os.environ.get(VARIABLE)
        if self._given is None:
            os.environ[VARIABLE] = "1"
        # Of one `with` inside of another, the outer one's; where NumPy is there already, its own.
        self._empty = {name: type(sys)(name) for name in DOCSTRINGS if name not in sys.modules}
        sys.modules.update(self._empty)

    def __exit__(
        self, kind: type[BaseException] | None, error: object, trace: TracebackType | None
    ) -> None:
        if self._given is None:
            os.environ.pop(VARIABLE, None)
        for name, module in self._empty.items():
            if sys.modules.get(name) is module:
                del sys.modules[name]
