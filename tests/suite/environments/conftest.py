from __future__ import annotations

import sys
from pathlib import Path

import pytest

# Helpers beside the tests; pytest's importlib mode leaves sys.path alone.
sys.path.insert(0, str(Path(__file__).parent))

from suite_ground import wheel

from injector.suite.environments import installers


@pytest.fixture
def messages():
    """What was reported while something was made."""
    return []


@pytest.fixture
def base(tmp_path):
    return tmp_path / "base"


@pytest.fixture
def house(tmp_path, monkeypatch):
    """An index of packages that is a folder, and the only one there is."""
    folder = tmp_path / "house"
    for version in ("1.0", "2.0"):
        wheel(folder, "stone", version)
    wheel(folder, "wall", "1.0", requires=("stone<2",))
    wheel(folder, "roof", "1.0", requires=("stone>=2",))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    monkeypatch.delenv("UV_INDEX_URL", raising=False)
    installers.uv_options.cache_clear()
    yield folder
    installers.uv_options.cache_clear()
