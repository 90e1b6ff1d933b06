"""Lets the tests of this folder use what those of suites share."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "suite"))
