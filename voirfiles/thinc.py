"""Thinc: `forward` of models, with their phase and items, `backward`, `optimizer`, and `build`.

Of models within models the outermost call counts. `backward` is the call of the function that `begin_update`
returned, if that is written in Python: from the second one with the same code on.
"""

from __future__ import annotations

from typing import Any

LIBRARY = "thinc"
TESTED = ("8.2", "9.1")

MODEL = "/thinc.model/Model"


def instrument_models(ov: Any) -> None:
    """``forward``: calls of models."""
    about = {
        "of": "self",
        "what": lambda self: self.name,
        "items": lambda X: _length(X),
        "outermost": True,
    }
    ov.region(f"{MODEL}/begin_update", "forward", phase="train", **about)
    ov.region(f"{MODEL}/predict", "forward", phase="eval", **about)
    ov.region(
        f"{MODEL}/__call__",
        "forward",
        phase=lambda is_train: "train" if is_train else "eval",
        **about,
    )


def instrument_build(ov: Any) -> None:
    """``build``: the shapes of weights follow from calls of models, which evaluate nothing."""
    ov.region(f"{MODEL}/initialize", "build", what=lambda self: self.name, outermost=True)


def instrument_gradients(ov: Any) -> None:
    """``backward``: the functions that ``begin_update`` returns, each recorded once one of them is seen."""
    recorded: set[str] = set()

    def returned(result: Any) -> Any:
        backprop: Any = result[1] if isinstance(result, tuple) and len(result) == 2 else None
        if hasattr(backprop, "__code__"):
            # Not by its code, which is another one once it is recorded.
            path = backprop.__qualname__.replace(".<locals>", "").replace(".", "/")
            where = f"/{backprop.__module__}/{path}"
            if where not in recorded and "<" not in path:  # a lambda has no selector
                recorded.add(where)
                ov.region(where, "backward", outermost=True)
        return result

    ov.override(f"{MODEL}/begin_update > #value", returned)


def instrument_optimizer(ov: Any) -> None:
    """``optimizer``: updates of models. One optimizer updates those of several components one by one."""
    ov.region(
        f"{MODEL}/finish_update",
        "optimizer",
        of="self",
        what=lambda optimizer: type(optimizer).__name__,
        outermost=True,
    )


def _length(batch: Any) -> int:
    """The length of an array or of a list of documents; 0 of anything else."""
    try:
        return len(batch)
    except TypeError:
        return 0
