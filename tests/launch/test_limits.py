"""Numbers of steps and times on the command line."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from injector.errors import UserError
from injector.launch.command import split
from injector.limits import layers_of, limit, price_of, profile_of


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90", 90),
        ("90s", 90),
        ("1.5m", 90),
        ("5m", 300),
        ("5min", 300),
        ("1h", 3600),
        ("1H30M", 5400),
        ("1h 30m 5s", 5405),
        ("2d", 172800),
        ("250ms", 0.25),
        (".5", 0.5),
    ],
)
def test_times(text, seconds):
    assert limit("--max-duration", text) == pytest.approx(seconds)


@pytest.mark.parametrize(
    "text",
    ["", "x", "5x", "m", "-5", "1h-", "5 6 7x", "0", "0s", "nan", "inf", "1e3", "1..2", "h5"],
)
def test_what_is_no_time(text):
    with pytest.raises(
        UserError, match="--max-duration is a time above 0, such as 90, 90s, 5m or 1h30m"
    ):
        limit("--max-duration", text)


@pytest.mark.parametrize("text", ["9" * 40, "5 6", "1h30", "1:30", "٣s", "5m+"])
def test_what_is_no_time_either(text):
    with pytest.raises(UserError, match="is a time"):
        limit("--timeout", text)


@pytest.mark.parametrize(("text", "number"), [("1", 1), ("010", 10), ("1_000", 1000), (" 5 ", 5)])
def test_counts(text, number):
    assert limit("--stop", text) == limit("--skip", text) == number


def test_nothing_may_be_skipped_and_something_must_be_observed():
    assert limit("--skip", "0") == 0
    with pytest.raises(UserError, match="would observe nothing"):
        limit("--stop", "0")


@pytest.mark.parametrize("text", ["", "x", "-1", "1.5", "1e3", "10s", "٣", "9" * 16])
def test_what_is_no_count(text):
    with pytest.raises(UserError, match="is a number of steps"):
        limit("--stop", text)


@given(st.text(max_size=12))
def test_any_text_is_a_limit_or_bad_input(text):
    for option in ("--stop", "--max-duration"):
        try:
            assert limit(option, text) > 0
        except UserError as error:
            assert option in str(error)


def test_they_are_options_of_inject_run():
    words = ["--skip=5", "--stop", "20", "--max-duration", "1h", "x/none.py", "--stop", "never"]
    command = split(words, lambda command: {})
    assert command.limits == {"--skip": 5, "--stop": 20, "--max-duration": 3600}
    assert command.arguments == ["--stop", "never"]


@pytest.mark.parametrize("text", ["1e-9", "0.001", "9ms"])
def test_samples_are_not_taken_all_the_time(text):
    with pytest.raises(UserError, match="--interval is 10ms at least, such as"):
        limit("--interval", text)
    assert limit("--interval", "10ms") == 0.01


@pytest.mark.parametrize(
    ("text", "price"),
    [("2.5", (2.5, "")), ("2.5 EUR", (2.5, "EUR")), ("3€", (3.0, "€")), ("$ .5", (0.5, "$"))],
)
def test_prices(text, price):
    assert price_of(text) == price


@pytest.mark.parametrize("text", ["0", "-1", "EUR", "2,5", "1 EUR 2", "inf", "1e3", "2.5 a\nb"])
def test_what_is_no_price(text):
    with pytest.raises(UserError, match="what an hour costs"):
        price_of(text)


@pytest.mark.parametrize("text", ["0", "-1", "1.5", "all", "101", "9" * 5000])
def test_what_is_no_depth(text):
    with pytest.raises(UserError, match="--layers is how deep"):
        layers_of(text)


def test_a_depth():
    assert layers_of(" 3 ") == 3


def test_steps_to_profile():
    assert profile_of("20:25") == (20, 25)


@pytest.mark.parametrize("text", ["25:20", "3:3", "x", "-1:4", "3", ":", "1:2:3", "1.5:3"])
def test_what_are_no_steps_to_profile(text):
    with pytest.raises(UserError, match="--torch-profile is FIRST:LAST"):
        profile_of(text)
