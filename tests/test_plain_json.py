"""JSON as `json` reads and writes it, without `json`."""

from __future__ import annotations

import json
import math
import subprocess
import sys

import pytest

from injector import plain_json

VALUES = [
    *(
        None,
        True,
        0,
        -1,
        10**30,
        1.5,
        1e300,
        -0.0,
        "",
        "text",
        'quo"te\\',
        "ü\u2028\U0001f600",
        "\ud800",
    ),
    *([], {}, (), [1, [2, []], {}], {"a": {"b": [1, 2.5, None]}, "c": {}}),
    {1: "a", None: "b", 2.5: "d"},
    [math.inf, -math.inf],
]


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_it_writes_what_json_writes(value):
    assert plain_json.dumps(value) == json.dumps(value)
    assert plain_json.indented(value) == json.dumps(value, indent=1)


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_it_reads_what_json_reads(value):
    text = json.dumps(value, indent=1)
    assert plain_json.loads(text) == json.loads(text)
    assert plain_json.loads(f" \n{text}\t".encode()) == json.loads(text)


@pytest.mark.parametrize(
    "text", ["", "{", "[1,]", "1 2", '{"a"}', "nul", '"a', b"\xff", b"\xef\xbb\xbf{}", "\ufeff{}"]
)
def test_what_is_none_is_refused_as_json_refuses_it(text):
    def outcome(loads):
        try:
            return loads(text)
        except ValueError as error:
            return type(error), str(error)

    assert outcome(plain_json.loads) == outcome(json.loads)


def test_what_cannot_be_written_is_refused():
    for write in (plain_json.dumps, plain_json.indented):
        with pytest.raises(TypeError, match="set is not JSON serializable"):
            write({"a": {1}})


def test_the_depth_that_is_too_much_is_an_error():
    with pytest.raises(RecursionError):
        plain_json.loads("[" * 100_000)


def test_a_run_without_steps_imports_nothing_that_costs_much():
    """These were a third of what `inject` needed by itself."""
    modules = ("cli.run", "bus.collector", "analysis.summary", "report.terminal")
    text = f"import sys, {', '.join(f'injector.{each}' for each in modules)}; print(*sys.modules)"
    words = [sys.executable, "-I", "-S", "-c", f"import sys; sys.path = {sys.path!r}; {text}"]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    costly = {"typing", "re", "json", "ast", "enum", "dataclasses", "contextlib", "functools"}
    assert not costly & set(done.stdout.split())
