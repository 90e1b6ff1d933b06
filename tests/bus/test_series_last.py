"""The latest value of a series, found without reading it."""

from __future__ import annotations

import pytest

from injector.bus.writer import Writer
from injector.store import series


@pytest.fixture
def grown(tmp_path):
    made = series.SeriesFile(Writer(str(tmp_path)), "train/loss")
    return made, tmp_path


def file_of(folder):
    [path] = (folder / "raw").glob("*.values")
    return str(path)


@pytest.mark.parametrize("count", [1, 2, 100, 4031, 4032, 4033, 12_224, 50_000])
def test_it_is_the_last_one_written(grown, count):
    made, folder = grown
    written = 0
    while written < count:
        times, values = made.grow()
        for at in range(min(len(times), count - written)):
            values[at] = float(written)
            times[at] = 1.0 + written
            written += 1
    assert series.last(file_of(folder)) == ("train/loss", count - 1.0)


def test_an_empty_newest_chunk_does_not_hide_it(grown):
    made, folder = grown
    times, values = made.grow()
    values[0], times[0] = 7.0, 1.0
    made.grow()
    assert series.last(file_of(folder)) == ("train/loss", 7.0)


def test_none_yet(grown):
    made, folder = grown
    made.grow()
    assert series.last(file_of(folder)) == ("train/loss", None)
