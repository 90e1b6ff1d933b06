"""What memory is read, and what is left alone: a device's counters are never reset."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest

from injector.measure import memory
from injector.store.spans import MEMORY_UNIT, memory_of, memory_payload


class Device:
    """Stands for ``torch.cuda``; whatever else is called of it is an AttributeError."""

    def __init__(self) -> None:
        self.allocated, self.index = 0, 0
        self.memory = SimpleNamespace(memory_stats_as_nested_dict=self.stats)

    def is_initialized(self) -> bool:
        return True

    def current_device(self) -> int:
        return self.index

    def stats(self, index: int) -> dict:
        if self.allocated < 0:
            raise RuntimeError("this allocator has no counters")
        return {"allocated_bytes": {"all": {"current": self.allocated}}}


class Sites:
    def like(self, site: int, **changes: object) -> tuple:
        return site, changes["clock"], changes["device"]


@pytest.fixture
def device(monkeypatch):
    found = Device()
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(cuda=found))
    return found


def spans(device, then) -> dict[str, tuple[int, int]]:
    """By where it is, memory before and after ``then``, as rows have it."""
    rows = []
    marks = memory.MemoryMarks(lambda *row: rows.append(row), Sites(), None)
    begin = marks.mark()
    then()
    marks.span(begin, 7, 3)
    assert all(start <= end and site[:2] == (3, "memory") for start, end, _, site in rows)
    return {site[2]: memory_of(payload) for *_, payload, site in rows}


def test_the_allocator_of_the_current_device(device):
    device.allocated = 2**20
    found = spans(device, lambda: setattr(device, "allocated", 3 * 2**30))
    assert found["cuda:0"] == (2**20, 3 * 2**30)


def test_a_device_that_is_no_longer_current_has_no_row(device):
    assert "cuda:1" not in spans(device, lambda: setattr(device, "index", 1))


def test_an_allocator_without_counters(device):
    device.allocated = -1
    assert set(spans(device, lambda: None)) <= {"host"}


@pytest.mark.skipif(sys.platform != "linux", reason="resident memory is Linux's")
def test_the_memory_of_the_process():
    before = memory.resident_bytes()
    held = bytearray(b"x") * 2**25
    assert memory.resident_bytes() - before > 2**24 and held


@pytest.mark.parametrize("text", [b"", b"12", b"a b c"])
def test_a_file_that_says_nothing(tmp_path, monkeypatch, text):
    (tmp_path / "statm").write_bytes(text)
    monkeypatch.setattr(memory, "STATM", str(tmp_path / "statm"))
    assert memory.resident_bytes() is None
    monkeypatch.setattr(memory, "STATM", str(tmp_path / "none"))
    assert memory.resident_bytes() is None


def test_payloads():
    assert memory_of(memory_payload(5 * MEMORY_UNIT + 1, 2**40)) == (5 * MEMORY_UNIT, 2**40)
    most = memory_of(memory_payload(2**60, -1))
    assert most == ((2**31 - 1) * MEMORY_UNIT, 0) and memory_payload(2**60, 2**60) < 2**63
