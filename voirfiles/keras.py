"""Keras 3 on its backends: steps of `fit`, updates, which passes evaluate, epochs, metrics.

On PyTorch its layers are torch's modules, its loader and backward are torch's, so that torch's voirfile sees
them. On TensorFlow and JAX `fit` compiles a whole step: `compiled`, an update of the training, beside which
JAX's batches are `io`; TensorFlow's are fetched inside of it. Layers that are called outside of compiled
code are `forward`. Its optimizers are its own on each.
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
BUILD = "/keras.src.trainers.trainer/Trainer/_symbolic_build"
LAYER = "/keras.src.layers.layer/Layer/__call__"


def instrument_updates(ov: Any) -> None:
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
    # The shapes of the first batch tell those of the weights: nothing is trained or evaluated with it.
    ov.region(BUILD, "build")


def instrument_backend(ov: Any) -> None:
    ov.after_import("keras.src.backend", lambda keras: BACKENDS[keras.backend()](ov))


def watch_torch(ov: Any) -> None:
    watch_evaluation(ov, "torch", "TorchTrainer")


def watch_tensorflow(ov: Any) -> None:
    from injector.voirfiles._graphs import EVALUATES, TRAINS, covered, is_eager, is_taped, note

    def called(args: Any) -> bool:
        """Whether a layer is called for its result, neither to be compiled nor for its shapes."""
        return (is_eager() or note(EVALUATES)) and is_value(args)

    Seen.is_value = lambda _: is_eager() or note(TRAINS)
    phase = lambda: "train" if is_taped() else "eval"
    ov.region(
        LAYER,
        "forward",
        when=called,
        of="self",
        what=lambda self: type(self).__name__,
        phase=phase,
        items=lambda args: leading(args),
        outermost=True,
    )
    loss = "/keras.src.losses.loss/Loss/__call__"
    ov.region(loss, "forward", when=lambda: is_eager(), phase=phase, outermost=True)
    watch_evaluation(ov, "tensorflow", "TensorFlowTrainer")
    watch_steps(ov, "tensorflow", "TensorFlowTrainer", "TFEpochIterator", covered)


def watch_jax(ov: Any) -> None:
    import jax

    from injector.voirfiles._jitted import leave_out

    for kind in ("train", "test", "predict"):  # what is compiled of a method of the program's own
        made = f"{TRAINER}/make_{kind}_function > {kind}_step"
        ov.override(made, leave_out)

    def is_traced(args: Any) -> bool:
        return isinstance(args[0] if args else None, jax.core.Tracer)

    Seen.is_value = lambda grads: not is_traced(grads)
    ov.region(
        LAYER,
        "forward",
        when=lambda args: is_value(args) and not is_traced(args),
        of="self",
        what=lambda self: type(self).__name__,
        phase=lambda kwargs: "train" if kwargs.get("training") else "eval",
        items=lambda args: leading(args),
        outermost=True,
    )
    watch_evaluation(ov, "jax", "JAXTrainer")
    step = watch_steps(ov, "jax", "JAXTrainer", "JAXEpochIterator")
    for kind in ("test", "predict"):
        ov.value(f"{CALLBACKS}/on_{kind}_batch_begin", "begins", get=lambda result: step.begin())
        ov.value(
            f"{CALLBACKS}/on_{kind}_batch_end",
            "ends",
            get=lambda self, kind=kind: step.end_evaluation(self, kind),
        )
        ov.region(
            f"{TRAINER}/{kind}_on_batch",
            "forward",
            when=lambda self: not self.run_eagerly,
            of="self",
            what=lambda self, kind=kind: f"{type(self).__name__}.{kind}_on_batch",
            phase="eval",
            items=lambda x: leading([x]),
            outermost=True,
        )
    iterator = "/keras.src.backend.jax.trainer/JAXEpochIterator/_get_iterator"

    def builds(self: Any) -> Any:
        step.builds = True
        return self

    def built(result: Any) -> None:
        step.builds = False

    ov.override(f"{BUILD} > self", builds)
    ov.value(BUILD, "built", get=built)

    def owned(self: Any) -> Any:
        step.owner = ref(self)
        return self

    ov.override(f"{iterator} > self", owned)
    passing = "/keras.src.backend.jax.trainer/JAXEpochIterator/__next__"
    ov.override(f"{passing} > self", step.look)
    ov.override(f"{passing} > #error", step.end_pass)
    ov.override(f"{iterator} > #value", lambda batches: Fetches(ov, batches, step))


BACKENDS = {"torch": watch_torch, "tensorflow": watch_tensorflow, "jax": watch_jax}


class Seen:
    """What a backend knows."""

    is_value: Any = staticmethod(lambda grads: True)
    """Whether gradients are numbers; otherwise what updates weights is being compiled."""


def watch_evaluation(ov: Any, backend: str, trainer: str) -> None:
    for name in ("evaluate", "predict"):
        where = f"/keras.src.backend.{backend}.trainer/{trainer}/{name}"
        ov.region(where, "evaluation", phase="eval")


class Step:
    """The step of ``fit``, or batch of an evaluation, that goes on, between two calls of its callbacks."""

    epoch = 0
    """When the epoch began."""
    begun = 0
    """When it began; where its batches are drawn outside of compiled code, when the first was there."""
    is_new = False
    items = 0
    builds = False
    """Whether a batch is drawn that is only looked at."""
    owner: Any = staticmethod(lambda: None)
    """Of the batches that are about to be drawn: the same in each pass over the same data."""
    looked = 0
    passed: Any = staticmethod(lambda: None)
    """When Keras last looked for a batch, and in what."""

    def __init__(self, ov: Any, covered: list[str]) -> None:
        self._ov = ov
        self._covered = covered

    def begin(self) -> None:
        self.begun, self.is_new = perf_counter_ns(), True
        self._covered[:] = ["fit"]

    def begin_epoch(self) -> None:
        self.epoch = perf_counter_ns()

    def end_epoch(self) -> None:
        self._covered.clear()
        self._ov.span("epoch", self.epoch, perf_counter_ns())

    def fetched(self, now: int) -> None:
        if self.is_new:
            self.begun, self.is_new = now, False

    def look(self, batches: Any) -> Any:
        """Keras looks for another batch; of data whose length it knows it does so without drawing one."""
        self.looked, self.passed = perf_counter_ns(), ref(batches)
        return batches

    def end_pass(self, error: Any) -> Any:
        """There is none: the last step has ended."""
        if isinstance(error, StopIteration):
            about = {"of": self.passed(), "what": "batches of Keras"}
            self._ov.span("io.end", self.looked, perf_counter_ns(), **about)
        return error

    def end(self, callbacks: Any) -> None:
        self._ended("compiled", callbacks, "train", "train")

    def end_evaluation(self, callbacks: Any, kind: str) -> None:
        self._ended("forward", callbacks, kind, "eval")

    def _ended(self, region: str, callbacks: Any, kind: str, phase: str) -> None:
        model = getattr(callbacks, "_model", None)
        begun, self.begun = self.begun, 0
        self._covered.clear()
        if begun and not getattr(model, "run_eagerly", False):
            what = f"{type(model).__name__}.{kind}_step"
            of = model if region == "forward" else None
            self._ov.span(
                region, begun, perf_counter_ns(), of=of, phase=phase, items=self.items, what=what
            )


class Fetches:
    """The batches of one pass: what Keras draws them from on JAX, and the wait for each."""

    def __init__(self, ov: Any, batches: Any, step: Step) -> None:
        self._batches = iter(batches)
        self._owner = step.owner
        self._step = step
        self._span = ov.span

    def __iter__(self) -> Fetches:
        return self

    def __next__(self) -> Any:
        if self._step.builds:
            return next(self._batches)
        begun = perf_counter_ns()
        about = {"of": self._owner(), "what": "batches of Keras"}
        try:
            batch = next(self._batches)
        except StopIteration:
            if getattr(self._owner(), "num_batches", None) is None:  # else the step still goes on
                self._span("io.end", begun, perf_counter_ns(), **about)
            raise
        self._span("io", begun, perf_counter_ns(), items=leading(batch), **about)
        self._step.fetched(perf_counter_ns())
        return batch


def watch_steps(
    ov: Any, backend: str, trainer: str, iterator: str, covered: list[str] | None = None
) -> Step:
    """``compiled``: the steps of ``fit`` where they are compiled."""
    step = Step(ov, [] if covered is None else covered)
    where = f"/keras.src.backend.{backend}.trainer"

    def drawn(self: Any, result: Any) -> None:
        step.items = batch_items(self, *result[:2])

    ov.value(f"{where}/{iterator}/__next__", "items", get=drawn)
    ov.value(f"{CALLBACKS}/on_train_batch_begin", "begins", get=lambda result: step.begin())
    ov.value(f"{CALLBACKS}/on_train_batch_end", "ends", get=lambda self: step.end(self))
    ov.value(f"{CALLBACKS}/on_epoch_begin", "epochs", get=lambda result: step.begin_epoch())
    ov.value(f"{CALLBACKS}/on_epoch_end", "epochs", get=lambda result: step.end_epoch())
    ov.region(
        f"{where}/{trainer}/train_on_batch",
        "compiled",
        when=lambda self: not self.run_eagerly,
        phase="train",
        what=lambda self: f"{type(self).__name__}.train_on_batch",
        items=lambda x: leading([x]),
        outermost=True,
    )
    return step


def batch_items(batches: Any, first: int, last: int) -> int:
    """The items of the batches ``first`` to ``last`` of a pass; 0 where its data do not tell."""
    data = batches.data_adapter
    size, total = data.batch_size, data.num_batches
    if type(size) is not int:
        return 0
    number = last - first + 1
    if total is None or last + 1 < total:
        return size * number
    number = min(number, total - first)
    return int(size * (number - 1) + (data.partial_batch_size or size))


def leading(args: Any) -> int:
    """The first dimension of the first argument that has one."""
    while isinstance(args, (tuple, list, dict)) and args:
        args = next(iter(args.values())) if isinstance(args, dict) else args[0]
    shape: Any = getattr(args, "shape", None)
    return int(shape[0] or 0) if shape is not None and len(shape) else 0


def is_value(args: Any) -> bool:
    """Whether a layer is called with values, not to find out which shapes follow from which."""
    first = args[0] if args else None
    while isinstance(first, (tuple, list)) and first:
        first = first[0]
    return type(first).__name__ != "KerasTensor"


def instrument_checkpoints(ov: Any) -> None:
    for name in ("save", "save_weights"):
        where = f"/keras.src.models.model/Model/{name}"
        ov.region(where, "checkpoint", what=f"Model.{name}", outermost=True)


def instrument_values(ov: Any) -> None:
    # What `fit` tells its callbacks.
    ov.value(f"{CALLBACKS}/on_epoch_begin", "epoch", task="train", get=lambda epoch: epoch)
    ov.value(f"{CALLBACKS}/on_epoch_begin", "epochs", get=lambda self, epoch: plan(ov, self, epoch))
    ov.value(f"{CALLBACKS}/on_train_batch_end", task="train", get=lambda logs: trained(logs))
    ov.value(f"{CALLBACKS}/on_epoch_end", task="eval", get=lambda logs: validated(logs))


def plan(ov: Any, callbacks: Any, epoch: int) -> None:
    """Say how many epochs are to come, that which begins included."""
    epochs = (callbacks.params or {}).get("epochs")
    if type(epochs) is int:
        ov.ahead(epochs=epochs - epoch)


def updates(optimizer: Any, grads: Any) -> bool:
    """Whether this call updates the weights, which are no graph's that is being compiled, or only adds to
    the gradients."""
    if not Seen.is_value(grads):
        return False
    every = getattr(optimizer, "gradient_accumulation_steps", None)
    if not every:
        return True
    # Calls so far: `iterations` counts them before 3.5, updates since.
    calls = optimizer._iterations if hasattr(optimizer, "_iterations") else optimizer.iterations
    return bool((int(calls.value) + 1) % every == 0)


def trained(logs: dict[str, Any] | None) -> dict[str, Any]:
    """The metrics of a batch: its loss is a mean over the epoch so far."""
    return {
        "logged_loss" if name == "loss" else name: value for name, value in (logs or {}).items()
    }


def validated(logs: dict[str, Any] | None) -> dict[str, Any]:
    """The metrics of an epoch's validation, without the prefix."""
    return {name[len(VAL) :]: value for name, value in (logs or {}).items() if name.startswith(VAL)}
