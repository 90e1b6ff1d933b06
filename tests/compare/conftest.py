"""Lets the tests of this folder import what they share, and the synthetic runs of the analysis."""

from __future__ import annotations

import sys
from pathlib import Path

for folder in (Path(__file__).parent, Path(__file__).parents[1] / "analysis"):
    sys.path.insert(0, str(folder))
