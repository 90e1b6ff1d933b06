import sys
from pathlib import Path

# Helpers beside the tests; pytest's importlib mode leaves sys.path alone.
sys.path.insert(0, str(Path(__file__).parent))
sys.path.append(str(Path(__file__).parents[1]))  # what all of tests/ share
