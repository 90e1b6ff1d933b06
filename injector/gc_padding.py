"""GC-count padding: what we allocate in the program's process does not bring its collections forward.

CPython collects garbage when enough objects were allocated that were not freed since, and importing a
large library ends up close to one collection more or less of everything there is: a tenth of a second
for PyTorch, and finalizers run at another moment than under ``python``. So objects are allocated at the
beginning, before the program has any, and for each that we allocate and keep later on one of them is
freed: the program's collections come when they would come without us.

Without it nothing fails, but a program that watches ``gc.callbacks`` or prints from finalizers sees other
collections as soon as a library is probed (``tests/test_gc_padding.py``, which compares them with those
under ``python``; no other test notices). On a Python that counts in another way (the
free-threaded builds) the padding is freed to no effect.

Source of how it counts: https://github.com/python/cpython/blob/3.12/Modules/gcmodule.c (``gc_alloc``,
``PyObject_GC_Del``).
"""

from __future__ import annotations

import gc

SIZE = 16_000
"""Objects. A voirfile and all that it needs are 8200 for a small library, 13 000 for PyTorch."""

_padding: list[dict[str, object]] = []
# Dicts that hold nothing count as any other object, and the collector does not visit them.


def allocate(before: int) -> None:
    """Allocate the padding; the collector shall believe that ``before`` were allocated since it last came.

    It comes once, for the young objects, which are ours and few.
    """
    _padding.extend({} for _ in range(SIZE))
    gc.collect(0)
    while gc.get_count()[0] < before:
        _padding.append({})


class UncountedAllocations:
    """Within its ``with`` nothing is collected, and what was allocated there does not count after it."""

    __slots__ = ("_before", "_enabled")

    def __enter__(self) -> None:
        self._enabled = gc.isenabled()
        gc.disable()
        self._before = gc.get_count()[0]

    def __exit__(self, *_: object) -> None:
        extra = gc.get_count()[0] - self._before
        if extra > 0:
            del _padding[-extra:]
        while _padding and gc.get_count()[0] > self._before:  # some were kept for the next dicts
            _padding.pop()
        if self._enabled:
            gc.enable()
