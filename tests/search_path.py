"""Where programs of tests find this package."""

from __future__ import annotations

import os
from pathlib import Path

TESTS = Path(__file__).parent
sooner = False
"""Whether those that use this shall be over sooner (``sooner/sitecustomize.py``): in `make test`."""


def search_path(*others: object) -> str:
    """A ``PYTHONPATH`` with ``others`` at its end."""
    first = [str(TESTS.parent), *([str(TESTS / "sooner")] if sooner else [])]
    return os.pathsep.join([*first, *(str(each) for each in others if each)])
