from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from injector.report.text import WIDTH, clean, count, duration, figure, fit, table


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
        (0.0123, "12 ms"),
        (12.34, "12.3 s"),
        (245, "4 min 05 s"),
        (7620, "2 h 07 min"),
    ],
)
def test_durations(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_counts() -> None:
    assert [count(n, "process") for n in (0, 1, 2)] == ["0 processes", "1 process", "2 processes"]
    assert count(2, "warning") == "2 warnings"


def test_nothing_that_a_terminal_obeys() -> None:
    assert clean("a\x1b[31mb\nc\x07") == "a [31mb c"


@given(st.text(), st.integers(1, 200))
def test_fit(text: str, width: int) -> None:
    line = fit(text, width)
    assert len(line) <= width and (line.isprintable() or not line)
    if len(text) <= width and text.isprintable() and not text.endswith(" "):
        assert line == text


@given(st.lists(st.tuples(st.text(max_size=200), st.text("0123456789", max_size=12)), max_size=4))
def test_tables_fit(rows: list[tuple[str, str]]) -> None:
    lines = table("title", ["n"], rows)
    assert all(len(line) <= WIDTH for line in lines)
    assert len(lines) == (len(rows) + 2 if rows else 0)
