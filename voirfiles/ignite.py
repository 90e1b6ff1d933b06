"""Ignite: which engines evaluate, epochs, a trainer's count of iterations, metrics, transfers.

An engine calls its process function for every batch of a loader; fetches, forward, backward and updates are
torch's. Trainers and evaluators are both engines: one that runs within the run of another one, or whose
process function has such a name, evaluates.
"""

from __future__ import annotations

import sys
from typing import Any

LIBRARY = "ignite"
TESTED = ("0.5.0", "0.5.5")

EVALUATING = ("eval", "valid", "test", "infer", "predict")
"""Beginnings of words in the names of process functions that evaluate."""


def instrument_engines(ov: Any) -> None:
    """``evaluation``: runs of evaluators; epochs, iterations and metrics of all engines."""
    is_evaluator: dict[int, bool] = {}
    """By ``id`` of an engine; decided when it begins to run."""

    def evaluates(engine: Any) -> bool:
        result = is_evaluator[id(engine)] = is_inner() or is_called_evaluation(engine)
        return result

    def fires(engine: Any, event: Any, wanted: str, evaluating: bool) -> bool:
        name = getattr(event, "name", None)
        return name == wanted and is_evaluator.get(id(engine), False) is evaluating

    ov.region(
        "/ignite.engine.engine/Engine/run",
        "evaluation",
        phase="eval",
        when=lambda self: evaluates(self),
    )
    fire = "/ignite.engine.engine/Engine/_fire_event"
    begun, done, ended = "EPOCH_STARTED", "ITERATION_COMPLETED", "EPOCH_COMPLETED"
    ov.value(
        fire,
        "epoch",
        task="train",
        get=lambda self, event_name: (
            self.state.epoch if fires(self, event_name, begun, False) else None
        ),
    )
    ov.value(
        fire,
        "global_step",
        task="train",
        get=lambda self, event_name: (
            self.state.iteration if fires(self, event_name, done, False) else None
        ),
    )
    # Handlers of the event compute the metrics, which are known when all have been called: at the result.
    for task, evaluating in (("train", False), ("eval", True)):
        ov.value(
            fire,
            task=task,
            get=lambda self, event_name, result, evaluating=evaluating: (
                self.state.metrics if fires(self, event_name, ended, evaluating) else None
            ),
        )


def instrument_transfers(ov: Any) -> None:
    """``h2d``: batches moved to a device that is not the host itself."""
    ov.region(
        "/ignite.utils/convert_tensor",
        "h2d",
        when=lambda device: str(device).partition(":")[0] not in ("cpu", "None"),
        outermost=True,
        device="sampled",
    )


def is_called_evaluation(engine: Any) -> bool:
    """Whether the name of an engine's process function says that it evaluates."""
    name = getattr(engine._process_function, "__name__", "").lower()
    return any(word.startswith(EVALUATING) for word in name.split("_"))


def is_inner() -> bool:
    """Whether the run that begins lies within another engine's run."""
    frame = sys._getframe(1)
    runs = 0
    while frame is not None:
        code = frame.f_code
        if code.co_name == "run" and code.co_filename.endswith("ignite/engine/engine.py"):
            runs += 1
        frame = frame.f_back  # type: ignore[assignment]
    return runs > 1
