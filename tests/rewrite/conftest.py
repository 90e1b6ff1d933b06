from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest

# Helpers beside the tests; pytest's importlib mode leaves sys.path alone.
sys.path.insert(0, str(Path(__file__).parent))

from weaving import Woven


@pytest.fixture
def woven():
    """An engine at work in this process."""
    made = Woven()
    made.engine.install()
    yield made
    made.engine.uninstall()
    made.close()


@pytest.fixture
def module(tmp_path, monkeypatch):
    """Write modules into a folder on the path: ``module("pkg.mod", source)``; gone at the end."""
    monkeypatch.syspath_prepend(str(tmp_path))
    before = set(sys.modules)

    def write(name, source, load=False):
        parts = name.split(".")
        folder = tmp_path.joinpath(*parts[:-1])
        folder.mkdir(parents=True, exist_ok=True)
        for depth in range(1, len(parts)):
            package = tmp_path.joinpath(*parts[:depth], "__init__.py")
            if not package.exists():
                package.write_text("")
        (folder / f"{parts[-1]}.py").write_text(source)
        importlib.invalidate_caches()
        return importlib.import_module(name) if load else None

    yield write
    for name in set(sys.modules) - before:
        if getattr(sys.modules[name], "__file__", None) and str(tmp_path) in str(
            sys.modules[name].__file__
        ):
            del sys.modules[name]
