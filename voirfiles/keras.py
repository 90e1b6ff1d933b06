"""Keras 3 on its backends: steps of `fit`, updates, which passes evaluate, epochs, metrics.

On PyTorch its layers are torch's modules, and loader and backward are torch's: torch's voirfile records them.
On TensorFlow and JAX `fit` compiles a whole step, which is `compiled` and an update of the training. JAX's
batches are `io` before it; TensorFlow's are fetched within it. Layers that are called outside of compiled
code are `forward`. Optimizers are Keras' own on each backend.
"""

from __future__ import annotations

from time import perf_counter_ns
from typing import Any
from weakref import ref

LIBRARY = "keras"
TESTED = ("3.4", "3.15")

TRAINER = "/keras.src.backend.jax.trainer/JAXTrainer"
VAL = "val_"
"""What ``fit`` puts before the names of metrics of its validation."""
CALLBACKS = "/keras.src.callbacks.callback_list/CallbackList"
ITERATOR = "/keras.src.backend.jax.trainer/JAXEpochIterator"
BUILD = "/keras.src.trainers.trainer/Trainer/_symbolic_build"
LAYER = "/keras.src.layers.layer/Layer/__call__"


def instrument_updates(ov: Any) -> None:
    """``optimizer``: calls of `apply` that update the weights."""
    ov.region(
        "/keras.src.optimizers.base_optimizer/BaseOptimizer/apply",
        "optimizer",
        outermost=True,  # an optimizer that scales the loss holds another one
        device="sampled",
        when=lambda self, grads: updates(self, grads),
        of=lambda self: self,
        what=lambda self: type(self).__name__,
    )


def instrument_build(ov: Any) -> None:
    """``build``: the shapes of weights follow from a first batch, which is neither trained nor evaluated."""
    ov.region(BUILD, "build")


def instrument_backend(ov: Any) -> None:
    """What depends on the backend, once it is known."""
    ov.after_import("keras.src.backend", lambda keras: BACKENDS[keras.backend()](ov))


def record_torch(ov: Any) -> None:
    """Which passes evaluate: torch's voirfile records the rest."""
    record_evaluations(ov, "torch", "TorchTrainer")


def record_tensorflow(ov: Any) -> None:
    """``forward`` of layers and losses outside of compiled code, evaluations, steps."""
    from injector.voirfiles._graphs import (
        EVALUATES,
        TRAINS,
        covered,
        is_eager,
        is_taped,
        note_effect,
    )

    def called(args: Any) -> bool:
        """Whether a layer is called for its result, neither traced nor called for its shapes."""
        return (is_eager() or note_effect(EVALUATES)) and is_value(args)

    Backend.is_value = lambda _: is_eager() or note_effect(TRAINS)
    phase = lambda: "train" if is_taped() else "eval"
    ov.region(
        LAYER,
        "forward",
        when=called,
        of="self",
        what=lambda self: type(self).__name__,
        phase=phase,
        items=leading_size,
        outermost=True,
    )
    loss = "/keras.src.losses.loss/Loss/__call__"
    ov.region(loss, "forward", when=lambda: is_eager(), phase=phase, outermost=True)
    record_evaluations(ov, "tensorflow", "TensorFlowTrainer")
    record_steps(ov, "tensorflow", "TensorFlowTrainer", "TFEpochIterator", covered)


def record_jax(ov: Any) -> None:
    """``forward`` of layers outside of compiled code, evaluations, steps, and the wait for batches."""
    import jax

    from injector.voirfiles._jitted_calls import leave_out

    # Keras compiles these methods, which may be the program's own; their steps are recorded here.
    for kind in ("train", "test", "predict"):
        ov.override(f"{TRAINER}/make_{kind}_function > {kind}_step", leave_out)

    def is_traced(args: Any) -> bool:
        return isinstance(first_leaf(args), jax.core.Tracer)

    Backend.is_value = lambda grads: not is_traced(grads)
    ov.region(
        LAYER,
        "forward",
        when=lambda args: is_value(args) and not is_traced(args),
        of="self",
        what=lambda self: type(self).__name__,
        phase=lambda kwargs: "train" if kwargs.get("training") else "eval",
        items=leading_size,
        outermost=True,
    )
    record_evaluations(ov, "jax", "JAXTrainer")
    _record_batches(ov, record_steps(ov, "jax", "JAXTrainer", "JAXEpochIterator"))


def _record_batches(ov: Any, step: StepInProgress) -> None:
    """``forward`` of the batches of evaluations on JAX, and ``io`` of all batches."""
    for kind in ("test", "predict"):
        ov.value(
            f"{CALLBACKS}/on_{kind}_batch_begin",
            "begins",
            get=lambda self, kind=kind: step.begin(self, kind),
        )
        ov.value(f"{CALLBACKS}/on_{kind}_batch_end", "ends", get=lambda result: step.end())
        ov.region(
            f"{TRAINER}/{kind}_on_batch",
            "forward",
            when=lambda self: not self.run_eagerly,
            of="self",
            what=lambda self, kind=kind: f"{type(self).__name__}.{kind}_on_batch",
            phase="eval",
            items=lambda x: leading_size([x]),
            outermost=True,
        )

    def begin_build(self: Any) -> Any:
        step.draws_for_build = True
        return self

    def end_build(result: Any) -> None:
        step.draws_for_build = False

    ov.override(f"{BUILD} > self", begin_build)
    ov.value(BUILD, "built", get=end_build)

    def begin_pass(self: Any) -> Any:
        step.owner = ref(self)
        return self

    ov.override(f"{ITERATOR}/_get_iterator > self", begin_pass)
    ov.override(f"{ITERATOR}/__next__ > self", step.look)
    ov.override(f"{ITERATOR}/__next__ > #error", step.end_pass)
    ov.override(
        f"{ITERATOR}/_get_iterator > #value", lambda batches: RecordedBatches(ov, batches, step)
    )


BACKENDS = {"torch": record_torch, "tensorflow": record_tensorflow, "jax": record_jax}


class Backend:
    """What only the backend knows; it sets this when it is known."""

    is_value: Any = staticmethod(lambda grads: True)
    """Whether gradients are values; otherwise the update is being traced."""


def record_evaluations(ov: Any, backend: str, trainer: str) -> None:
    """``evaluation``: passes of ``evaluate`` and ``predict``."""
    for name in ("evaluate", "predict"):
        where = f"/keras.src.backend.{backend}.trainer/{trainer}/{name}"
        ov.region(where, "evaluation", phase="eval")


class StepInProgress:
    """The step of ``fit``, or batch of an evaluation, that goes on, between the callbacks at its ends.

    Moments are nanoseconds of ``time.perf_counter_ns``. Where batches are drawn outside of compiled code, the
    step begins again once its first batch has been drawn: the wait for it is ``io``.
    """

    begun = 0
    """When the step began; 0 for none."""
    waits_for_batch = False
    """Whether its first batch has not been drawn."""
    drawn = 0
    """The items of the batch that was drawn last."""
    is_split = False
    """Whether several batches were drawn in it."""
    callbacks: Any = staticmethod(lambda: None)
    """A weak reference to the callbacks that it lies between."""
    kind = ""
    """``train``, ``test`` or ``predict``."""
    items = 0
    draws_for_build = False
    """Whether a batch is drawn only for its shapes."""
    owner: Any = staticmethod(lambda: None)
    """A weak reference to the iterator that draws: the same in each pass over the same data."""
    looked_at = 0
    """When Keras last looked for a batch."""
    looked_in: Any = staticmethod(lambda: None)
    """A weak reference to the iterator that it looked in."""

    def __init__(self, ov: Any, covered: list[str]) -> None:
        self._ov = ov
        self._covered = covered
        """Set while a step goes on: what TensorFlow compiled is a part of it (_graphs.py)."""

    def begin(self, callbacks: Any, kind: str) -> None:
        self.begun, self.waits_for_batch, self.is_split = perf_counter_ns(), True, False
        self.callbacks, self.kind = ref(callbacks), kind
        self._covered[:] = ["fit"]

    def end_epoch(self) -> None:
        self._covered.clear()

    def fetched(self, looked: int, items: int) -> None:
        """Note that a batch of ``items`` has been drawn since ``looked``.

        One that is not the first of its call, by `steps_per_execution`, begins another step: Keras compiles
        the step of one batch.
        """
        if not self.waits_for_batch and self.begun:
            self.is_split = True
            self._record(self.begun, looked, self.drawn)
        if self.begun:
            self.begun, self.waits_for_batch = perf_counter_ns(), False
        self.drawn = items

    def look(self, batches: Any) -> Any:
        """Note that Keras looks for another batch. If it knows the number, it may end without drawing one."""
        self.looked_at, self.looked_in = perf_counter_ns(), ref(batches)
        return batches

    def end_pass(self, error: Any) -> Any:
        """Record that there is no batch left, with the wait for learning that. Returns ``error``."""
        if isinstance(error, StopIteration):
            about = {"of": self.looked_in(), "what": "batches of Keras"}
            self._ov.span("io.end", self.looked_at, perf_counter_ns(), **about)
        return error

    def end(self) -> None:
        begun, self.begun = self.begun, 0
        self._covered.clear()
        if begun:
            self._record(begun, perf_counter_ns(), self.drawn if self.is_split else self.items)

    def _record(self, begun: int, ended: int, items: int) -> None:
        model, trains = getattr(self.callbacks(), "_model", None), self.kind == "train"
        if not getattr(model, "run_eagerly", False):
            self._ov.span(
                "compiled" if trains else "forward",
                begun,
                ended,
                of=None if trains else model,
                phase="train" if trains else "eval",
                items=items,
                what=f"{type(model).__name__}.{self.kind}_step",
            )


class RecordedBatches:
    """The iterator from which Keras draws the batches of one pass on JAX, recording the wait for each."""

    def __init__(self, ov: Any, batches: Any, step: StepInProgress) -> None:
        self._batches = iter(batches)
        self._owner = step.owner
        self._step = step
        self._span = ov.span

    def __iter__(self) -> RecordedBatches:
        return self

    def __next__(self) -> Any:
        if self._step.draws_for_build:
            return next(self._batches)
        begun = perf_counter_ns()
        about = {"of": self._owner(), "what": "batches of Keras"}
        try:
            batch = next(self._batches)
        except StopIteration:
            # If Keras knows the number of batches, the last step still goes on: end_pass comes after it.
            if getattr(self._owner(), "num_batches", None) is None:
                self._span("io.end", begun, perf_counter_ns(), **about)
            raise
        items = leading_size(batch)
        self._span("io", begun, perf_counter_ns(), items=items, **about)
        self._step.fetched(begun, items)
        return batch


def record_steps(
    ov: Any, backend: str, trainer: str, iterator: str, covered: list[str] | None = None
) -> StepInProgress:
    """``compiled``: the steps of ``fit`` and ``train_on_batch``, unless they are run eagerly."""
    step = StepInProgress(ov, [] if covered is None else covered)
    where = f"/keras.src.backend.{backend}.trainer"

    def drawn(self: Any, result: Any) -> None:
        step.items = batch_items(self, *result[:2])

    ov.value(f"{where}/{iterator}/__next__", "items", get=drawn)
    ov.value(
        f"{CALLBACKS}/on_train_batch_begin", "begins", get=lambda self: step.begin(self, "train")
    )
    ov.value(f"{CALLBACKS}/on_train_batch_end", "ends", get=lambda result: step.end())
    ov.value(f"{CALLBACKS}/on_epoch_end", "epochs", get=lambda result: step.end_epoch())
    ov.region(
        f"{where}/{trainer}/train_on_batch",
        "compiled",
        when=lambda self: not self.run_eagerly,
        phase="train",
        what=lambda self: f"{type(self).__name__}.train_on_batch",
        items=lambda x: leading_size([x]),
        outermost=True,
    )
    return step


def batch_items(batches: Any, first: int, last: int) -> int:
    """The items of the batches number ``first`` to ``last`` of a pass; 0 if its data do not tell.

    The last batch of a pass may be smaller, and there may be fewer than ``last``.
    """
    data = batches.data_adapter
    size, total = data.batch_size, data.num_batches
    if type(size) is not int:
        return 0
    number = last - first + 1
    if total is None or last + 1 < total:
        return size * number
    number = min(number, total - first)
    return int(size * (number - 1) + (data.partial_batch_size or size))


def first_leaf(args: Any) -> Any:
    """The first object in nested tuples, lists and dicts."""
    while isinstance(args, (tuple, list, dict)) and args:
        args = next(iter(args.values())) if isinstance(args, dict) else args[0]
    return args


def leading_size(args: Any) -> int:
    """The first dimension of the first array in ``args``, or 0."""
    shape: Any = getattr(first_leaf(args), "shape", None)
    return int(shape[0] or 0) if shape is not None and len(shape) else 0


def is_value(args: Any) -> bool:
    """Whether a layer is called with values, not with symbols to find out the shape of its result."""
    return type(first_leaf(args)).__name__ != "KerasTensor"


def instrument_checkpoints(ov: Any) -> None:
    """``checkpoint``: saving of a model or of its weights."""
    for name in ("save", "save_weights"):
        where = f"/keras.src.models.model/Model/{name}"
        ov.region(where, "checkpoint", what=f"Model.{name}", outermost=True)


def instrument_values(ov: Any) -> None:
    """Epochs and metrics, from what ``fit`` passes to its callbacks."""
    ov.value(f"{CALLBACKS}/on_epoch_begin", "epoch", task="train", get=lambda epoch: epoch)
    ov.value(f"{CALLBACKS}/on_epoch_begin", "epochs", get=lambda self, epoch: plan(ov, self, epoch))
    ov.value(f"{CALLBACKS}/on_train_batch_end", task="train", get=trained)
    ov.value(f"{CALLBACKS}/on_epoch_end", task="eval", get=validated)


def instrument_epochs(ov: Any) -> None:
    """``epoch``: of data without an end, each epoch takes some batches, and no loader begins anew."""
    begun = 0

    def begin(result: Any) -> None:
        nonlocal begun
        begun = perf_counter_ns()

    ov.value(f"{CALLBACKS}/on_epoch_begin", "epochs", get=begin)
    ov.value(
        f"{CALLBACKS}/on_epoch_end",
        "epochs",
        get=lambda result: ov.span("epoch", begun, perf_counter_ns()),
    )


def plan(ov: Any, callbacks: Any, epoch: int) -> None:
    """Record how many epochs are to come, that which begins included."""
    epochs = (callbacks.params or {}).get("epochs")
    if type(epochs) is int:
        ov.ahead(epochs=epochs - epoch)


def updates(optimizer: Any, grads: Any) -> bool:
    """Whether this call updates the weights: it is not traced, and does more than add to the gradients."""
    if not Backend.is_value(grads):
        return False
    every = getattr(optimizer, "gradient_accumulation_steps", None)
    if not every:
        return True
    # Calls so far: before Keras 3.5 `iterations` counts them; since then it counts updates.
    calls = optimizer._iterations if hasattr(optimizer, "_iterations") else optimizer.iterations
    return bool((int(calls.value) + 1) % every == 0)


def trained(logs: dict[str, Any] | None) -> dict[str, Any]:
    """The metrics of a batch. Keras' loss is a mean over the epoch so far: ``logged_loss``."""
    return {
        "logged_loss" if name == "loss" else name: value for name, value in flat(logs or {}).items()
    }


def validated(logs: dict[str, Any] | None) -> dict[str, Any]:
    """The metrics of an epoch's validation, without their prefix."""
    return flat(
        {name[len(VAL) :]: value for name, value in (logs or {}).items() if name.startswith(VAL)}
    )


def flat(logs: dict[str, Any]) -> dict[str, Any]:
    """The metrics of ``logs``. A step of the program's own may give those of `compile` as one of them."""
    metrics: dict[str, Any] = {}
    for name, value in logs.items():
        metrics |= value if isinstance(value, dict) else {name: value}
    return metrics
