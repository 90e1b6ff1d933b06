"""Lets the tests of this folder import what those of the analysis share."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "analysis"))
