"""How many items a batch holds."""

from __future__ import annotations

TYPE_CHECKING = False  # importing typing would cost 5 ms
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


def count_items(batch: Any) -> int | None:
    """The leading dimension of a batch: of its first tensor, or its length; ``None`` if it has none.

    Of graphs that are one it is how many they are.

    A tuple or a list is a batch of several columns if its parts have a shape, else a list of items.
    """
    shape = getattr(batch, "shape", None)
    if shape is not None:
        return int(shape[0]) if len(shape) else None
    if type(getattr(batch, "num_graphs", None)) is int:  # several graphs in one
        return int(batch.num_graphs)
    if _is_mapping(batch):
        return next((n for n in map(count_items, batch.values()) if n is not None), None)
    if isinstance(batch, (tuple, list)):
        if batch and (shape := getattr(batch[0], "shape", None)) and shape[0]:
            return int(shape[0])  # nearly every batch
        columns = [
            n for n in (count_items(p) for p in batch if hasattr(p, "shape") or _is_mapping(p)) if n
        ]
        return columns[0] if columns else len(batch)
    try:
        return len(batch)
    except TypeError:
        return None


def _is_mapping(value: Any) -> bool:
    # Dicts and what stands in for them (transformers' BatchEncoding); no import of collections.abc.
    return hasattr(value, "keys") and hasattr(value, "values")


def counter(items: Any) -> Callable[[Any], int | None]:
    """What ``items=`` of the fast API says, as a function of the batch: a number, a function, or none."""
    if items is None:
        return count_items
    if callable(items):
        chosen: Callable[[Any], int | None] = items
        return chosen
    return lambda _: int(items)
