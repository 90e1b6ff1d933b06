"""spaCy: `step` of each `Language.update` that applies gradients, with its examples; `evaluation`.

Where `spacy train` accumulates gradients and applies them itself, Thinc's updates pace the steps
(`thinc.py`). Inside of a step are Thinc's `forward` and `optimizer`, as far as components are models of it:
those written in Cython (the parser, the entity recogniser) show as a part of `step` alone.
"""

from __future__ import annotations

from typing import Any

LIBRARY = "spacy"
TESTED = ("3.7", "3.8")


def instrument_updates(ov: Any) -> None:
    ov.step(
        "/spacy.language/Language/update",
        when=lambda sgd: sgd is not False,
        items=lambda examples: len(examples) if hasattr(examples, "__len__") else 0,
        outermost=True,
    )


def instrument_evaluation(ov: Any) -> None:
    ov.region(
        "/spacy.language/Language/evaluate",
        "evaluation",
        phase="eval",
        items=lambda examples: len(examples) if hasattr(examples, "__len__") else 0,
        outermost=True,
    )
