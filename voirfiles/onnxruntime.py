"""ONNX Runtime: calls of sessions as `predict`, with their items, so that latencies follow; `build` of each.

A call of `run` copies inputs to the device and outputs back, and lasts until these have arrived. One with
bound inputs and outputs (`run_with_iobinding`) may return before. `run_async` is not recorded: the work that
it starts ends in a thread of ONNX Runtime.
"""

from __future__ import annotations

from typing import Any

LIBRARY = "onnxruntime"
TESTED = ("1.20", "1.32")

TOKENS = ("input_ids", "decoder_input_ids")
"""What exported models call inputs of tokens. Other tables of integers may be features in columns."""
SESSIONS = "/onnxruntime.capi.onnxruntime_inference_collection"


def instrument_sessions(ov: Any) -> None:
    """``predict``: calls of sessions; ``build``: making a session."""
    about = {"of": lambda self: self, "what": lambda self: session_name(self), "outermost": True}
    ov.region(
        f"{SESSIONS}/Session/run",
        "predict",
        items=lambda input_feed: items_and_tokens(input_feed)[0],
        tokens=lambda input_feed: items_and_tokens(input_feed)[1],
        **about,
    )
    ov.region(
        f"{SESSIONS}/Session/run_with_ort_values",
        "predict",
        items=lambda input_dict_ort_values: items_and_tokens(input_dict_ort_values)[0],
        **about,
    )
    ov.region(f"{SESSIONS}/Session/run_with_iobinding", "predict", **about)
    ov.region(f"{SESSIONS}/InferenceSession/__init__", "build", what="InferenceSession")


def session_name(session: Any) -> str:
    """``"model.onnx on CUDA"``: the file of the model, and the first provider that may execute it."""
    path = getattr(session, "_model_path", None)
    name = str(path).replace("\\", "/").rpartition("/")[2] if path else "a model in memory"
    provider = next(iter(getattr(session, "_providers", ())), "").removesuffix("ExecutionProvider")
    return f"{name} on {provider}" if provider else name


def items_and_tokens(feed: Any) -> tuple[int, int]:
    """The items and tokens that a session is fed with; 0 for either that is not known.

    Items are the first dimension that all inputs have in common. Tokens are the elements of the largest input
    that is a table of integers and called like tokens (:data:`TOKENS`).
    """
    items, tokens = set(), 0
    for name, value in feed.items():
        shape = (len(value),) if isinstance(value, (list, tuple)) else getattr(value, "shape", ())
        shape = tuple(shape() if callable(shape) else shape)  # an OrtValue has a method
        if not shape:
            continue
        items.add(int(shape[0]))
        kind = getattr(getattr(value, "dtype", None), "kind", "")
        if name in TOKENS and len(shape) == 2 and kind == "i":
            tokens = max(tokens, int(shape[0] * shape[1]))
    return (items.pop() if len(items) == 1 else 0), tokens
