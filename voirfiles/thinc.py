"""Thinc: `forward` of models, with their phase and items, `backward`, and `optimizer`.

Of a model in models, the outermost call counts. `backward` is the call of what `begin_update` has
returned: from the second of its kind on, and where it is written in Python.
"""

from __future__ import annotations

from typing import Any

LIBRARY = "thinc"
TESTED = ("8.2", "9.1")

MODEL = "/thinc.model/Model"


def instrument_models(ov: Any) -> None:
    known = {
        "of": _model,
        "what": lambda self: self.name,
        "items": lambda X: _length(X),
        "outermost": True,
    }
    ov.region(f"{MODEL}/begin_update", "forward", phase="train", **known)
    ov.region(f"{MODEL}/predict", "forward", phase="eval", **known)
    ov.region(
        f"{MODEL}/__call__",
        "forward",
        phase=lambda is_train: "train" if is_train else "eval",
        **known,
    )


def instrument_gradients(ov: Any) -> None:
    known: set[Any] = set()

    def returned(result: Any) -> Any:
        back: Any = result[1] if isinstance(result, tuple) and len(result) == 2 else None
        code = getattr(back, "__code__", None)
        if code is not None and code not in known:
            known.add(code)
            path = back.__qualname__.replace(".<locals>", "").replace(".", "/")
            if "<" not in path:
                ov.region(f"/{back.__module__}/{path}", "backward", outermost=True)
        return result

    ov.override(f"{MODEL}/begin_update > #value", returned)


def instrument_optimizer(ov: Any) -> None:
    # One optimizer updates the models of several components one by one: together they are one update.
    ov.region(
        f"{MODEL}/finish_update",
        "optimizer",
        of=_model,
        what=lambda optimizer: type(optimizer).__name__,
        outermost=True,
    )


def _model(self: Any) -> Any:
    return self


def _length(batch: Any) -> int:
    """Of an array or a list of documents; 0 of what has no length."""
    try:
        return len(batch)
    except TypeError:
        return 0
