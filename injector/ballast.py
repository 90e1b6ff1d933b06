"""What we allocate in the program's process shall not bring its garbage collections forward.

CPython collects when enough objects were allocated that were not freed since, and importing a large
library ends up close to one collection more or less of everything there is: a tenth of a second for
PyTorch. So objects are laid in at the beginning, before the program has any, and for each that we
allocate and keep later on one of them is freed: the program's collections come when they would come
without us.

Source of how it counts: https://github.com/python/cpython/blob/3.12/Modules/gcmodule.c (``gc_alloc``,
``PyObject_GC_Del``).
"""

from __future__ import annotations

import gc

SIZE = 8000
"""Objects. A voirfile and all that it needs were 4100 beside PyTorch, 5700 where less was loaded before."""

_laid_in: list[dict[str, object]] = []
# Dicts that hold nothing count as any other object, and the collector does not visit them.


def lay_in(before: int) -> None:
    """Lay objects in; the collector shall believe that ``before`` were allocated since it last came.

    It comes once, for the young objects, which are ours and few.
    """
    _laid_in.extend({} for _ in range(SIZE))
    gc.collect(0)
    while gc.get_count()[0] < before:
        _laid_in.append({})


class Weightless:
    """Within its ``with`` nothing is collected, and what was allocated there does not count after it."""

    __slots__ = ("_before", "_enabled")

    def __enter__(self) -> None:
        self._enabled = gc.isenabled()
        gc.disable()
        self._before = gc.get_count()[0]

    def __exit__(self, *_: object) -> None:
        extra = gc.get_count()[0] - self._before
        if extra > 0:
            del _laid_in[-extra:]
        while _laid_in and gc.get_count()[0] > self._before:  # some were kept for the next dicts
            _laid_in.pop()
        if self._enabled:
            gc.enable()
