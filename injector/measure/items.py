"""The number of items that a batch holds: its leading dimension, unless a voirfile says otherwise.

The same is done in C for the common kinds of batches (``native/turns.c``).
"""

from __future__ import annotations

TYPE_CHECKING = False  # importing typing would cost 5 ms
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


def count_items(batch: Any) -> int | None:
    """Return the leading dimension of a batch: that of its first tensor, or its length; None if it has none.

    Of a graph that is made of several (PyTorch Geometric), the number of these counts. A tuple or a list is a
    batch of several columns if its parts have a shape, else a list of items.
    """
    shape = getattr(batch, "shape", None)
    if shape is not None:
        return int(shape[0]) if len(shape) else None
    if type(getattr(batch, "num_graphs", None)) is int:
        return int(batch.num_graphs)
    if _is_mapping(batch):
        return next((n for n in map(count_items, batch.values()) if n is not None), None)
    if isinstance(batch, (tuple, list)):
        if batch and (shape := getattr(batch[0], "shape", None)) and shape[0]:
            return int(shape[0])  # a short way for nearly every batch
        columns = [
            n for n in (count_items(p) for p in batch if hasattr(p, "shape") or _is_mapping(p)) if n
        ]
        return columns[0] if columns else len(batch)
    try:
        return len(batch)
    except TypeError:
        return None


def _is_mapping(value: Any) -> bool:
    # Not only dicts: transformers' BatchEncoding, for one. Mapping is in collections.abc, an import more.
    return hasattr(value, "keys") and hasattr(value, "values")


def counter(items: Any) -> Callable[[Any], int | None]:
    """Return the function of a batch for an ``items=``, which is a number, a function or None."""
    if items is None:
        return count_items
    if callable(items):
        given: Callable[[Any], int | None] = items
        return given
    return lambda _: int(items)
