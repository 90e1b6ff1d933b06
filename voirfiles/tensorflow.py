"""TensorFlow: waiting for `tf.data`, compiled functions, gradients, optimizers, tracing.

What a `tf.function` does is one call of compiled code. While it is traced it is learnt whether a model is
only called in it (then its calls are `forward`), or its weights are updated (then each call is an update of
the training). Outside of such functions forward, backward and optimizer are calls of their own.
"""

from __future__ import annotations

from time import perf_counter_ns
from typing import Any
from weakref import WeakSet

from injector.voirfiles._graphs import (
    DIFFERENTIATES,
    EVALUATES,
    TRAINS,
    calls,
    covered,
    current,
    does,
    is_eager,
    is_taped,
    leading,
    note,
)

LIBRARY = "tensorflow"
TESTED = ("2.21", "2.21")

FUNCTIONS = "/tensorflow.python.eager.polymorphic_function"
VARIABLE = "/tensorflow.python.ops.resource_variable_ops/BaseResourceVariable"
ITERATOR = "/tensorflow.python.data.ops.iterator_ops/OwnedIterator"


def instrument_datasets(ov: Any) -> None:
    """``io``: the wait for each batch of a `tf.data` iterator; ``io.start``: an iterator is made."""
    ov.region(
        f"{ITERATOR}/_next_internal",
        "io",
        when=lambda: is_eager(),
        of=lambda self: self._dataset,
        what=lambda self: _name(self._dataset),
        items=lambda result: leading(_parts(result)),
        outermost=True,
    )
    ov.region(
        f"{ITERATOR}/_create_iterator",
        "io.start",
        when=lambda: is_eager(),
        of=lambda dataset: dataset,
        what=lambda dataset: _name(dataset),
        outermost=True,
    )
    ov.region(  # of several devices: its parts are fetched in it
        "/tensorflow.python.distribute.input_lib/DistributedIteratorBase/get_next",
        "io",
        when=lambda: is_eager(),
        of=lambda self: self,
        what="distributed dataset",
        outermost=True,
    )


def instrument_functions(ov: Any) -> None:
    """``forward`` of functions that only call a model, ``compiled`` of all others; ``trace`` before it."""
    call = f"{FUNCTIONS}.concrete_function/ConcreteFunction/_call_flat"
    about = {
        "what": lambda self: self._func_graph.name,
        "items": lambda tensor_inputs: leading(tensor_inputs),
        "outermost": True,
    }
    ov.region(
        call,
        "compiled",
        when=lambda self: is_eager() and not (covered or _is_model(self._func_graph)),
        phase=lambda self: "train" if does(self._func_graph) == TRAINS else None,
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
    ov.region(gradient, "backward", when=lambda: note(DIFFERENTIATES), outermost=True)
    ov.value(gradient, "loss", task="train", get=lambda target: _loss(target))
    # Weights that a program moves by hand, in a function that it has compiled.
    ov.region(f"{VARIABLE}/assign_sub", "optimizer", when=lambda: _moves())


def instrument_tapes(ov: Any) -> None:
    """``forward``: what is computed under a tape where no model of Keras is called: operations by hand."""
    entered: dict[int, tuple[int, int]] = {}
    tape = "/tensorflow.python.eager.backprop/GradientTape"

    def enter(self: Any) -> None:
        if is_eager():
            entered[id(self)] = perf_counter_ns(), calls[0]

    def leave(self: Any) -> None:
        begun, before = entered.pop(id(self), (0, -1))
        if before == calls[0]:
            ov.span("forward", begun, perf_counter_ns(), phase="train", what="GradientTape")

    ov.value(f"{tape}/__enter__", "enters", get=lambda self: enter(self))
    ov.value(f"{tape}/__exit__", "leaves", get=lambda self: leave(self))


def instrument_sessions(ov: Any) -> None:
    """Graphs as TensorFlow 1 had them: a call of `Session.run` with what an optimizer gave is an update."""
    updates: WeakSet[Any] = WeakSet()
    apply = "/tensorflow.python.training.optimizer/Optimizer/apply_gradients"

    def applied(result: Any) -> Any:
        if not is_eager():
            updates.add(result)
        return result

    ov.override(f"{apply} > #value", applied)
    ov.region(apply, "optimizer", when=lambda: note(TRAINS), outermost=True)
    ov.region(
        "/tensorflow.python.client.session/BaseSession/run",
        "compiled",
        what="Session.run",
        phase=lambda fetches: (
            "train" if any(each in updates for each in _leaves(fetches)) else None
        ),
        items=lambda feed_dict: _fed(feed_dict),
        outermost=True,
    )


def _is_model(graph: Any) -> bool:
    """Whether a model, or a part of one, is called by its function, and nothing else is done."""
    what = does(graph)
    return what == EVALUATES or (not what and is_taped())


def _moves() -> bool:
    """Never an update by itself; where gradients were derived in the same graph, that graph makes one."""
    if not is_eager() and does(current()) >= DIFFERENTIATES:
        note(TRAINS)
    return False


def _loss(target: Any) -> Any:
    return target if is_eager() and getattr(target, "shape", None) == () else None


def _name(dataset: Any) -> str:
    return f"tf.data {type(dataset).__name__.strip('_')}"


def _parts(batch: Any) -> Any:
    """The tensors of a batch, as deep as batches usually go."""
    if isinstance(batch, dict):
        batch = list(batch.values())
    if not isinstance(batch, (tuple, list)):
        return [batch]
    return [part for each in batch for part in (_parts(each) if type(each) is not tuple else each)]


def _leaves(fetches: Any) -> list[Any]:
    if isinstance(fetches, dict):
        fetches = list(fetches.values())
    return (
        [x for each in fetches for x in _leaves(each)]
        if isinstance(fetches, (list, tuple))
        else [fetches]
    )


def _fed(feed: Any) -> int:
    """The items of what a session is fed with: the length of its first array."""
    shape = next((getattr(each, "shape", ()) for each in (feed or {}).values()), ())
    return int(shape[0]) if shape else 0
