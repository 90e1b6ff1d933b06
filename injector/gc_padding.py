"""GC-count padding: objects of ours do not bring the program's garbage collections forward.

CPython starts a collection when the number of objects that were allocated and not freed exceeds a threshold.
Objects of ours count as well, so that a program under ``inject`` would have collections at other moments than
under ``python``: finalizers run earlier, and importing a large library may include one more collection of
everything there is, which takes a tenth of a second for PyTorch.

So the padding is allocated at the beginning, before the program has any objects: dicts that nothing uses.
Whenever we allocate objects and keep them, as many dicts are freed. The count is then as without us.

Without it nothing fails, but a program that watches ``gc.callbacks`` or prints from finalizers sees other
collections as soon as a library is probed (``tests/test_gc_padding.py`` compares them with those under
``python``; no other test notices). On a Python that counts differently (the free-threaded builds), the
padding is freed to no effect.

Source of how it counts: https://github.com/python/cpython/blob/3.12/Modules/gcmodule.c (``gc_alloc``,
``PyObject_GC_Del``).
"""

from __future__ import annotations

import gc

SIZE = 16_000
"""Dicts. A voirfile and all that it imports are 8200 objects for a small library, 13 000 for PyTorch."""

_padding: list[dict[str, object]] = []
# Empty dicts count like any other object, but cost the collector nothing: it does not visit them.


def allocate(before: int) -> None:
    """Allocate the padding, and leave the collector's count at ``before``, as it was when we began.

    There is one collection of the youngest generation, which has few objects then, all of them ours.
    """
    _padding.extend([{} for _ in range(SIZE)])
    gc.collect(0)
    while gc.get_count()[0] < before:
        _padding.append({})


class UncountedAllocations:
    """A ``with`` block in which nothing is collected, and whose allocations do not count afterwards."""

    __slots__ = ("_before", "_enabled")

    def __enter__(self) -> None:
        self._enabled = gc.isenabled()
        gc.disable()
        self._before = gc.get_count()[0]

    def __exit__(self, *_: object) -> None:
        extra = gc.get_count()[0] - self._before
        if extra > 0:
            del _padding[-extra:]
        # CPython keeps some freed dicts for the next ones that are created; these were not subtracted.
        while _padding and gc.get_count()[0] > self._before:
            _padding.pop()
        if self._enabled:
            gc.enable()
