from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from injector.report.output import WIDTH
from injector.report.text import (
    TimeUnit,
    amount,
    bar,
    clean,
    columns,
    count,
    crop,
    duration,
    figure,
    fit,
    left,
    right,
    short,
    size,
    table,
    wrap,
)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (0.25, "0.250"),
        (0.012345, "0.01235"),
        (1.5, "1.500"),
        (12.345, "12.35"),
        (251.26, "251.3"),
        (-4321.6, "-4322"),
        (1234567, "1234567"),
        (12345678, "1.235e+07"),
        (0.00001, "1.000e-05"),
    ],
)
def test_figures(value: float, text: str) -> None:
    assert figure(value) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-1, "0 ms"),
        (0.000_071_4, "71 µs"),
        (0.000_999_9, "1 ms"),
        (0.0123, "12 ms"),
        (12.34, "12.3 s"),
        (245, "4 min 05 s"),
        (7620, "2 h 07 min"),
        (442_800, "5 d 03 h"),
        (1e300, "–"),
        (math.nan, "–"),
    ],
)
def test_durations(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_counts() -> None:
    assert [count(n, "process") for n in (0, 1, 2)] == ["0 processes", "1 process", "2 processes"]
    assert count(2, "warning") == "2 warnings"
    assert count(3, "batch") == "3 batches"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 ms"),
        (7.12e-5, "71.20 µs"),
        (0.0203, "20.30 ms"),
        (2.5, "2.500 s"),
        (75, "75.0 s"),
        (math.nan, "–"),
        (-math.inf, "–"),
    ],
)
def test_short_times(seconds: float, text: str) -> None:
    assert short(seconds) == text


@pytest.mark.parametrize(
    ("largest", "name", "value", "text"),
    [
        (0.0317, "ms", 0.0001, "0.10"),
        (0.00317, "ms", 0.0001, "0.100"),
        (0.317, "ms", 0.0001, "0.1"),
        (14.19, "s", 3.1, "3.10"),
        (86400.0, "s", 3.1, "3"),
        (5e-5, "µs", 1e-6, "1.00"),
        (math.nan, "s", math.nan, "–"),
        (1.0, "s", 1e300, "1.00e+300"),
    ],
)
def test_a_column_has_one_unit(largest: float, name: str, value: float, text: str) -> None:
    unit = TimeUnit(largest)
    assert (unit.name, unit(value)) == (name, text)


@pytest.mark.parametrize(
    ("share", "text"),
    [(1.0, "████"), (0.5, "██"), (0.28, "█▏"), (0.001, ""), (7, "████"), (-1, ""), (math.nan, "")],
)
def test_bars(share: float, text: str) -> None:
    assert bar(share, 4) == text


def test_whole_amounts_have_no_decimals() -> None:
    assert [amount(n) for n in (32.0, 31.5, 1e9, math.inf)] == ["32", "31.50", "1.000e+09", "inf"]


def test_cut_ends() -> None:
    assert [crop("abcdef", width) for width in (6, 5, 1, 0)] == ["abcdef", "abcd…", "…", ""]


def test_wide_characters_take_two_columns() -> None:
    assert columns("体a") == 3
    assert crop("体体体", 5) == "体体…" and fit("体体体体", 5) == "体…体"
    assert left("体", 4) == "体  " and right("体", 4) == "  体"


@given(st.text(max_size=300), st.integers(1, 99))
def test_wrapped_lines_fit(text: str, width: int) -> None:
    lines = wrap(text, width)
    assert all(0 < columns(line) <= width for line in lines)
    if all(columns(word) <= width for word in clean(text).split()):
        assert " ".join(lines) == " ".join(clean(text).split())


def test_nothing_that_a_terminal_obeys() -> None:
    assert clean("a\x1b[31mb\nc\x07") == "a [31mb c"


@given(st.text(), st.integers(1, 200))
def test_fit(text: str, width: int) -> None:
    line = fit(text, width)
    assert columns(line) <= width and (line.isprintable() or not line)
    if columns(text) <= width and text.isprintable() and not text.endswith(" "):
        assert line == text


@given(st.lists(st.tuples(st.text(max_size=200), st.text("0123456789", max_size=12)), max_size=4))
def test_tables_fit(rows: list[tuple[str, str]]) -> None:
    lines = table("title", ["n"], rows)
    assert all(len(line) <= columns(line) <= WIDTH for line in lines)
    assert len(lines) == (len(rows) + 2 if rows else 0)


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0, "0 B"),
        (812_000, "812 kB"),
        (999_700, "1 MB"),
        (1.234e9, "1.23 GB"),
        (2e15, "2 PB"),
        (1e30, "–"),
    ],
)
def test_a_size_has_three_digits_and_the_unit_that_fits_them(number, text):
    assert size(number) == text
