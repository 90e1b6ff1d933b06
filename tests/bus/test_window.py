"""Mapping a piece of a file without keeping a descriptor, and without touching anybody else's."""

from __future__ import annotations

import os

import pytest

from injector.store.mapped import Window, allocate

LENGTH = 4096


@pytest.fixture
def file(tmp_path):
    """A path of a file of one page."""
    path = tmp_path / "rows"
    path.write_bytes(bytes(LENGTH))
    return path


def descriptors():
    listed = [f"/proc/self/fd/{name}" for name in os.listdir("/proc/self/fd")]
    return {path for path in listed if os.path.exists(path)}  # without the one that listed them


@pytest.mark.parametrize("read", [0, 17, LENGTH])
@pytest.mark.parametrize("before", [True, False], ids=["lower-number", "higher-number"])
def test_a_reader_of_the_same_file_stays_open(file, read, before):
    spare = os.open(os.devnull, os.O_RDONLY)
    first = os.open(file, os.O_RDWR)
    os.close(spare)  # the second gets its number, which is lower
    second = os.open(file, os.O_RDWR)
    reader, fd = (second, first) if before else (first, second)
    os.read(reader, read)
    allocate(fd, 0, LENGTH)
    window = Window(fd, 0, LENGTH)
    window.map[:2] = b"ok"
    assert os.lseek(reader, 0, os.SEEK_CUR) == read
    assert os.pread(reader, 2, 0) == b"ok"
    window.release(fd)
    os.close(reader)
    os.close(fd)


def test_nothing_stays_open(file):
    before = descriptors()
    fd = os.open(file, os.O_RDWR)
    window = Window(fd, 0, LENGTH)
    assert descriptors() == before | {f"/proc/self/fd/{fd}"}
    window.release(fd)
    os.close(fd)
    assert descriptors() == before
