"""Whether what ran may be believed: layers of checks, and the rules that a benchmark sets for each."""

from ...config.rules import RULES
from .judging import check, judged

__all__ = ["RULES", "check", "judged"]
