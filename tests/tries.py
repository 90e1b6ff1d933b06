"""How many examples a property is tried with that needs more than others do."""

from __future__ import annotations

from hypothesis import settings


def tries(release: int) -> int:
    """So many before a release, and a sixth in each `make test`, as of those that need no more."""
    return max(10, release * settings().max_examples // RELEASE)


RELEASE = 150
"""What a release tries of a property that does not say (``conftest.py``)."""
