"""ONNX Runtime: calls of sessions as `predict`, with their items, so that latencies follow; `build` of each.

A call of `run` copies its inputs to the device and its outputs back: it lasts until they are there. One with
bound inputs and outputs (`run_with_iobinding`) may return before. `run_async` is not recorded: what it starts
ends in a thread of ONNX Runtime's own.
"""

from __future__ import annotations

from typing import Any

LIBRARY = "onnxruntime"
TESTED = ("1.20", "1.32")

SESSIONS = "/onnxruntime.capi.onnxruntime_inference_collection"


def instrument_sessions(ov: Any) -> None:
    about = {"of": lambda self: self, "what": lambda self: named(self), "outermost": True}
    ov.region(
        f"{SESSIONS}/Session/run",
        "predict",
        items=lambda input_feed: batch(input_feed)[0],
        tokens=lambda input_feed: batch(input_feed)[1],
        **about,
    )
    ov.region(
        f"{SESSIONS}/Session/run_with_ort_values",
        "predict",
        items=lambda input_dict_ort_values: batch(input_dict_ort_values)[0],
        **about,
    )
    ov.region(f"{SESSIONS}/Session/run_with_iobinding", "predict", **about)
    ov.region(f"{SESSIONS}/InferenceSession/__init__", "build", what="InferenceSession")


def named(session: Any) -> str:
    """What it is a session of, and what executes it first."""
    path = getattr(session, "_model_path", None)
    name = str(path).replace("\\", "/").rpartition("/")[2] if path else "a model in memory"
    provider = next(iter(getattr(session, "_providers", ())), "").removesuffix("ExecutionProvider")
    return f"{name} on {provider}" if provider else name


def batch(feed: Any) -> tuple[int, int]:
    """Items and tokens of what a session is fed with: the first dimension that its inputs have in common.

    Where integers of two dimensions are among them (the words of a text), they are the tokens.
    """
    items, tokens = set(), 0
    for value in feed.values():
        shape = (len(value),) if isinstance(value, (list, tuple)) else getattr(value, "shape", ())
        shape = tuple(shape() if callable(shape) else shape)  # a function of an OrtValue
        if not shape:
            continue
        items.add(int(shape[0]))
        if len(shape) == 2 and getattr(getattr(value, "dtype", None), "kind", "") == "i":
            tokens = max(tokens, int(shape[0] * shape[1]))
    return (items.pop() if len(items) == 1 else 0), tokens
