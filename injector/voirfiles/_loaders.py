"""How many items a batch of PyTorch's loader holds, and how many batches a pass: from what the loader drew.

0 stands for a number that is not known.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from gc import get_referents
from operator import length_hint
from typing import Any
from weakref import ref

import torch

from injector.voirfiles._batches import (
    DEPTH,
    attributes,
    first_with_dimensions,
    forget,
    stated_items,
)

_collate = torch.utils.data.default_collate

_drawn: dict[int, tuple[Any, dict[int, int]]] = {}
"""By ``id`` of a loader's iterator: a weak reference to it, and how many indices it drew for which batch."""


def draw(result: Any, self: Any) -> None:
    """Note that the iterator ``self`` drew the indices ``result`` of a batch, perhaps ahead for a worker."""
    key = id(self)
    entry = _drawn.get(key)
    if entry is None:
        entry = _drawn[key] = ref(self, partial(forget, _drawn, key)), {}
        _announce_length(self, result)
    entry[1][getattr(self, "_send_idx", 0)] = len(result) if type(result) in (list, tuple) else 0


_listeners: list[Callable[[Any, int], None]] = []
_known_lengths: dict[int, int] = {}
"""Batches of the last pass over a dataset, by its ``id``."""


def on_pass_length(listener: Callable[[Any, int], None]) -> None:
    """Have ``listener(dataset, batches)`` called when a pass begins whose length differs from the last."""
    _listeners[:] = [listener]


def _announce_length(loader: Any, first: Any) -> None:
    """Call the listeners for a pass of the iterator ``loader`` that drew the indices ``first`` first."""
    try:
        batches = _batches_of_pass(loader, first) if type(first) is list else 0
    except AttributeError:  # a PyTorch with other attributes
        return
    if batches and _known_lengths.get(id(loader._dataset)) != batches:
        _known_lengths[id(loader._dataset)] = batches
        for listener in _listeners:
            listener(loader._dataset, batches)


def _batches_of_pass(loader: Any, first: list[Any]) -> int:
    """The batches of a pass whose first indices were ``first``; 0 if PyTorch's own objects do not tell.

    ``len(loader)`` would call the dataset's ``__len__``, which is the program's code. So the number is taken
    from the sampler's attributes, and from local variables of the generators that draw.
    """
    batches, drawing = loader._index_sampler, loader._sampler_iter
    if type(batches) is not torch.utils.data.BatchSampler or drawing.gi_frame is None:
        return 0
    size = batches.batch_size
    if type(size) is not int:
        return 0
    if len(first) < size:
        return 1
    sampler, indices = batches.sampler, drawing.gi_frame.f_locals.get("sampler_iter")
    if indices is None:
        indices = _iterator_of_for(drawing)
    if type(indices) in _ITERATORS_WITH_LENGTH:
        items = length_hint(indices) + len(first)
    elif type(sampler) is torch.utils.data.RandomSampler and hasattr(indices, "gi_frame"):
        variables = indices.gi_frame.f_locals if indices.gi_frame else {}
        items = sampler._num_samples or variables.get("n", 0)
    elif type(sampler) is torch.utils.data.SubsetRandomSampler:
        items = len(sampler.indices) if type(sampler.indices) in (list, range, tuple) else 0
    else:
        items = attributes(sampler).get("num_samples", 0)
    if type(items) is not int:
        return 0
    return items // size if batches.drop_last else -(-items // size)


def _iterator_of_for(generator: Any) -> Any:
    """The iterator of the ``for`` in which a generator is suspended, which is no variable; None if unknown.

    An older PyTorch draws so.
    """
    # Which of the two holds it depends on the version of Python.
    held = [*get_referents(generator), *get_referents(generator.gi_frame)]
    kinds = (*_ITERATORS_WITH_LENGTH, type(generator))
    return next((each for each in held if type(each) in kinds), None)


def keeps_iterator(loader: Any) -> bool:
    """Whether ``loader`` has an iterator of PyTorch's that its class made: it goes on with that in each pass.

    PyTorch itself keeps one under another name, for workers that go on, and begins it anew.
    """
    kind = torch.utils.data.dataloader._BaseDataLoaderIter
    kept = (value for name, value in vars(loader).items() if name != "_iterator")
    return any(issubclass(type(value), kind) for value in kept)


_ITERATORS_WITH_LENGTH: tuple[type, ...] = (type(iter(range(0))), type(iter([])), type(iter(())))
"""Iterators whose ``__length_hint__`` is what is left of them."""


def fetched(result: Any, self: Any) -> int:
    """The items of the batch ``result`` that the iterator ``self`` returned: as many as were drawn for it.

    0 if a single index was drawn, for a loader without batches.
    """
    entry = _drawn.get(id(self))
    if entry is None or not entry[1]:
        return 0
    sizes = entry[1]
    number = getattr(self, "_rcvd_idx", 1) - 1
    size = sizes.pop(number if number in sizes else next(iter(sizes)))
    is_stream = self._dataset_kind  # an IterableDataset's is 1
    # What PyTorch collates by itself is a list of columns, and no list of items.
    is_list = type(result) is list and self._collate_fn is not _collate
    return _items_of_stream(result, size, is_list) if size and is_stream else size


def _items_of_stream(batch: Any, most: int, is_list: bool) -> int:
    """The items of a batch of an IterableDataset, for which ``most`` are drawn, also at its end.

    ``is_list``: it may be a list of its items.
    """
    tensor = first_with_dimensions(batch, DEPTH)
    numbers = {stated_items(batch), len(batch) if is_list else 0}
    numbers.add(0 if tensor is None else tensor.shape[0])
    fewer = {number for number in numbers if 0 < number < most}
    return most if most in numbers or len(fewer) != 1 else fewer.pop()
