"""How many tokens a model of PyTorch is called with: the elements of a table of integers, if it is sequences.

Features of examples, such as categories in columns, are a table of integers as well. So tokens are claimed of
a model only once one of its calls has shown that it works on sequences.
"""

from __future__ import annotations

from functools import partial
from typing import Any
from weakref import ref

import torch

from injector.voirfiles._batches import (
    DEPTH,
    INTEGERS,
    TRIES,
    first_with_dimensions,
    forget,
    is_traced,
    nodes_of_graph,
    shortcut,
    tensors,
    wrapped,
)

_sequence_models: dict[int, tuple[Any, None, bool]] = {}
"""By ``id`` of a model: a weak reference to it, and whether tables of integers are sequences of tokens to it.
Of a model that is not in here, that is not known yet. The shortcut in C reads the first and the last."""
_undecided: dict[int, tuple[Any, dict[bool, int]]] = {}
"""By ``id`` of a model: a weak reference to it, and in how many calls with gradients, and without, it may
still show what its tables of integers are."""
_PREDICTIONS = 16
_TOKEN_NAMES = frozenset(("input_ids", "decoder_input_ids", "tokens", "token_ids", "src_tokens"))


def _reads_sequences(model: Any, first: Any, result: Any, kwargs: Any) -> bool:
    """Whether ``model`` surely takes the table of integers ``first`` for sequences of tokens.

    Features of examples (categories, in columns) are such a table as well. It is sequences if the program
    calls it so, if there is a result for each element, or if the model's graph works along both dimensions.
    """
    rows, moments = first.shape
    if moments < 2 or rows < 1:
        return False
    entry = _undecided.get(id(model))
    if entry is None:
        watch = ref(model, partial(forget, _undecided, id(model)))
        entry = _undecided[id(model)] = watch, {True: TRIES, False: _PREDICTIONS}
    trains = torch.is_grad_enabled() and model.training
    if not entry[1][trains]:
        return False
    entry[1][trains] -= 1
    sizes = (moments, moments - 1) if moments > 2 else (moments,)
    results = [tensor for tensor, _ in zip(tensors(result, 3), range(8), strict=False)]
    is_sure = (
        _is_called_tokens(model, first, kwargs)
        or any(_is_of_each(tensor.shape, rows, size) for tensor in results for size in sizes)
        or (trains and any(_graph_has_both(tensor, rows, sizes) for tensor in results[:1]))
    )
    if is_sure or not entry[1][True]:
        watch = ref(model, partial(forget, _sequence_models, id(model)))
        _sequence_models[id(model)] = watch, None, is_sure
        _undecided.pop(id(model), None)
    return is_sure


def _is_called_tokens(model: Any, first: Any, kwargs: Any) -> bool:
    """Whether the program gives ``first``, an argument of ``model``, one of the usual names of tokens."""
    for name, value in kwargs.items():
        if value is first:
            return name in _TOKEN_NAMES
    while len(model._modules) == 1 and (inner := wrapped(model)) is not None:
        model = inner
    code = getattr(getattr(type(model), "forward", None), "__code__", None)
    return code is not None and code.co_varnames[1 : code.co_argcount][:1] in _FIRST_NAMES


_FIRST_NAMES = frozenset((name,) for name in _TOKEN_NAMES)


def _is_of_each(shape: Any, rows: int, moments: int) -> bool:
    """Whether a result of this shape has something for each of ``rows`` times ``moments`` elements."""
    if len(shape) > 2:
        return bool(shape[:2] == (rows, moments) or (shape[0], shape[2]) == (rows, moments))
    return len(shape) == 2 and bool(shape[0] == rows * moments)


def _graph_has_both(result: Any, rows: int, sizes: tuple[int, ...]) -> bool:
    """Whether autograd's graph of ``result`` has a recurrent module, or a loss of each element.

    Attention is no sign: models of features in columns have it between these.
    """
    for node, shape in nodes_of_graph(result):
        name = node.name()
        if len(shape) > 2 and ("Rnn" in name or name.startswith("Stack")):
            if {shape[0], shape[1]} == {rows, sizes[0]} or shape[:2] == (rows, sizes[0]):
                return True
        elif name.startswith("LogSoftmax") and any(_is_of_each(shape, rows, n) for n in sizes):
            return True
    return False


def _tokens(result: Any, self: Any, args: Any, kwargs: Any) -> int:
    """The elements of a table of integers that a model was called with first, if those are surely tokens of
    sequences, and no features in columns; 0 for other inputs.
    """
    first = args[0] if args else None
    if type(first) is not torch.Tensor:
        first = first_with_dimensions((args, kwargs), DEPTH)
    if first is None or first.dtype not in INTEGERS or first.dim() != 2 or is_traced():
        return 0
    size = first.numel()
    if type(size) is not int:
        return 0
    entry = _sequence_models.get(id(self))
    if entry is None:
        return size if _reads_sequences(self, first, result, kwargs) else 0
    return size if entry[2] else 0


tokens = shortcut("tokens", _tokens, _sequence_models)
