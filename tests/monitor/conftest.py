from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest


@pytest.fixture
def nvml(monkeypatch):
    """A stand-in for the library that reads NVIDIA devices, in the place of the real one."""
    path = Path(__file__).parent / "fake_nvml.py"
    spec = importlib.util.spec_from_file_location("pynvml", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setitem(sys.modules, "pynvml", module)
    monkeypatch.delitem(sys.modules, "injector.monitor.nvidia", raising=False)
    yield module
    sys.modules.pop("injector.monitor.nvidia", None)
