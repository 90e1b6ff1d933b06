"""spaCy: `step` of each `Language.update` that applies gradients, with its examples; `evaluation`.

If `spacy train` accumulates gradients, it applies them itself: Thinc's updates pace the steps (`thinc.py`).
Within a step are Thinc's `forward` and `optimizer` of components that are its models. Components in Cython
(the parser, the entity recogniser) only add to the time of `step`.
"""

from __future__ import annotations

from typing import Any

LIBRARY = "spacy"
TESTED = ("3.7", "3.8")


ABOUT = {
    "items": lambda examples: len(examples) if hasattr(examples, "__len__") else 0,
    "outermost": True,
}


def instrument_updates(ov: Any) -> None:
    """A step for each ``Language.update`` that applies gradients."""
    ov.step("/spacy.language/Language/update", when=lambda sgd: sgd is not False, **ABOUT)


def instrument_evaluation(ov: Any) -> None:
    """``evaluation``."""
    ov.region("/spacy.language/Language/evaluate", "evaluation", phase="eval", **ABOUT)
