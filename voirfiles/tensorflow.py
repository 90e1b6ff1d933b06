"""TensorFlow: waiting for `tf.data`, compiled functions, gradients, optimizers, tracing.

A call of a `tf.function` is one call of compiled code. Tracing it shows whether it only calls a model (then
its calls are `forward`), or updates weights (then each call is an update of the training). Outside of such
functions forward, backward and optimizer are calls of their own.
"""

from __future__ import annotations

from time import perf_counter_ns
from typing import Any
from weakref import WeakSet

from injector.voirfiles._graphs import (
    DIFFERENTIATES,
    EVALUATES,
    TRAINS,
    covered,
    effect_of,
    is_eager,
    is_taped,
    keep_gradients,
    leading_size,
    learn_update,
    note_assignment,
    note_effect,
    own_calls,
)

LIBRARY = "tensorflow"
TESTED = ("2.21", "2.21")

FUNCTIONS = "/tensorflow.python.eager.polymorphic_function"
VARIABLE = "/tensorflow.python.ops.resource_variable_ops/BaseResourceVariable"
ITERATOR = "/tensorflow.python.data.ops.iterator_ops/OwnedIterator"


def instrument_datasets(ov: Any) -> None:
    """``io``: the wait for each batch of a `tf.data` iterator; ``io.start``: the creation of one."""
    ov.region(
        f"{ITERATOR}/_next_internal",
        "io",
        when=lambda: is_eager(),
        of=lambda self: self._dataset,
        what=lambda self: _dataset_name(self._dataset),
        items=lambda result: leading_size(_tensors(result)),
        by_shape=True,
        outermost=True,
    )
    ov.region(
        f"{ITERATOR}/_create_iterator",
        "io.start",
        when=lambda: is_eager(),
        of=lambda dataset: dataset,
        what=_dataset_name,
        outermost=True,
    )
    ov.region(  # of several devices: it fetches a part for each
        "/tensorflow.python.distribute.input_lib/DistributedIteratorBase/get_next",
        "io",
        when=lambda: is_eager(),
        of=lambda self: self,
        what="distributed dataset",
        outermost=True,
    )


def instrument_functions(ov: Any) -> None:
    """``forward``: calls of functions that only call a model; ``compiled``: of all others; ``trace``."""
    call = f"{FUNCTIONS}.concrete_function/ConcreteFunction/_call_flat"
    about = {
        "what": lambda self: self._func_graph.name,
        "items": lambda tensor_inputs: leading_size(tensor_inputs),
        "outermost": True,
    }
    ov.value(call, "derived", get=lambda self, result: keep_gradients(self._func_graph, result))
    ov.region(
        call,
        "compiled",
        when=lambda self, tensor_inputs: (
            is_eager()
            and not (covered or _is_model(self._func_graph))
            and learn_update(self._func_graph, tensor_inputs)
        ),
        phase=lambda self: "train" if effect_of(self._func_graph) == TRAINS else None,
        **about,
    )
    ov.region(
        call,
        "forward",
        when=lambda self: is_eager() and _is_model(self._func_graph),
        phase=lambda: "train" if is_taped() else "eval",
        **about,
    )
    ov.region(
        f"{FUNCTIONS}.tracing_compilation/_create_concrete_function",
        "trace",
        what=lambda tracing_options: tracing_options.name,
        outermost=True,
    )


def instrument_gradients(ov: Any) -> None:
    """``backward``, and the loss that it starts from as ``train/loss``."""
    gradient = "/tensorflow.python.eager.backprop/GradientTape/gradient"
    ov.region(gradient, "backward", when=lambda: note_effect(DIFFERENTIATES), outermost=True)
    ov.value(gradient, "loss", task="train", get=_loss)
    # Weights that a program updates by hand, in a function that it has compiled.
    for name in ("assign", "assign_sub"):
        ov.region(f"{VARIABLE}/{name}", "optimizer", when=_is_update_by_hand)


def instrument_tapes(ov: Any) -> None:
    """``forward``: the time under a tape in which nothing else is recorded: operations without a model."""
    entered: dict[int, tuple[int, int]] = {}
    """By ``id`` of a tape: when it was entered, and how many own calls there had been."""
    tape = "/tensorflow.python.eager.backprop/GradientTape"

    def enter(self: Any) -> None:
        if is_eager():
            entered[id(self)] = perf_counter_ns(), own_calls[0]

    def leave(self: Any) -> None:
        begun, before = entered.pop(id(self), (0, -1))
        if before == own_calls[0]:
            ov.span("forward", begun, perf_counter_ns(), phase="train", what="GradientTape")

    ov.value(f"{tape}/__enter__", "enters", get=enter)
    ov.value(f"{tape}/__exit__", "leaves", get=leave)


def instrument_sessions(ov: Any) -> None:
    """``compiled``: calls of `Session.run`, as in TensorFlow 1; one that fetches an update trains."""
    updates: WeakSet[Any] = WeakSet()
    apply = "/tensorflow.python.training.optimizer/Optimizer/apply_gradients"

    def applied(result: Any) -> Any:
        if not is_eager():
            updates.add(result)
        return result

    ov.override(f"{apply} > #value", applied)
    ov.region(apply, "optimizer", when=lambda: note_effect(TRAINS), outermost=True)
    ov.region(
        "/tensorflow.python.client.session/BaseSession/run",
        "compiled",
        what="Session.run",
        phase=lambda fetches: (
            "train" if any(each in updates for each in _leaves(fetches)) else None
        ),
        items=_fed_items,
        outermost=True,
    )


def _is_model(graph: Any) -> bool:
    """Whether the function of ``graph`` calls a model, or is a part of one, and does nothing else."""
    what = effect_of(graph)
    return what == EVALUATES or (not what and is_taped())


def _is_update_by_hand(self: Any) -> bool:
    """Note an assignment of the traced graph. False: it is no span."""
    if not is_eager():
        note_assignment(self)
    return False


def _loss(target: Any) -> Any:
    """``target``, from which a backward starts, if it is a scalar and not traced."""
    return target if is_eager() and getattr(target, "shape", None) == () else None


def _dataset_name(dataset: Any) -> str:
    """``"tf.data BatchDataset"``."""
    return f"tf.data {type(dataset).__name__.strip('_')}"


def _tensors(batch: Any) -> Any:
    """The tensors in dicts and lists, and in tuples that are no parts of these."""
    if isinstance(batch, dict):
        batch = list(batch.values())
    if not isinstance(batch, (tuple, list)):
        return [batch]
    return [
        part for each in batch for part in (_tensors(each) if type(each) is not tuple else each)
    ]


def _leaves(fetches: Any) -> list[Any]:
    """The leaves of what a session fetches."""
    if isinstance(fetches, dict):
        fetches = list(fetches.values())
    if not isinstance(fetches, (list, tuple)):
        return [fetches]
    return [leaf for part in fetches for leaf in _leaves(part)]


def _fed_items(feed_dict: Any) -> int:
    """The first dimension of the first value that a session is fed with, or 0."""
    shape = next((getattr(each, "shape", ()) for each in (feed_dict or {}).values()), ())
    return int(shape[0]) if shape else 0
