"""The JSON Schema: valid itself, and it agrees with what ``inject suite`` says of a file."""

from __future__ import annotations

import json
from textwrap import dedent

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from injector.cli import main
from injector.suite.config.keys import TOP, EntryKeys, problems, schema

VALIDATOR = Draft202012Validator(schema())

VALID = [
    "one: {run: x.py}",
    "include: a.yaml",
    "include: [a.yaml, b.yaml]\none: null",
    """
    _defaults: {enabled: false, weight: 1.5, max_duration: 600}
    one:
      inherits: _defaults
      definition: ../x
      tags: [a, b]
      plan: {method: njobs, n: 2, launcher: torchrun}
      argv: {--a: 1, --b: true, --c: null, --d: [1, x], --: [y]}
      env: {A: 1, B: "x"}
      voir: {options: {stop: 60, interval: 1s}}
      validation: {usage: {gpu_load_threshold: 0.5}, loss: false}
      batch: {arg: --batch, multiple: 8}
      origin: {git: "https://x", commit: abc, patches: [a.patch]}
      requirements: {cuda: r.txt, packages: [x]}
    """,
    "one: {inherits: [_a, _b], weight: '{w}', enabled: '{gpu_count > 1}', plan: {n: '{gpu_count}'}}",
    "grid: {matrix: {n: [1, 2], m: x}, exclude: [{n: 1}, 'n > 1'], job: {name: 'j{n}', run: x}}",
    "one: {run: x, search: {method: random, trials: 3, space: {a: {low: 0.1, high: 1, log: true}}}}",
    "one: {run: x, when: {gpu_count > 1: {argv: {--x: 1}, weight: null}}}",
    "one: {run: x, tags: {append: [a]}, argv: {append: [--x]}}",
    "variables: {exp: {a: 1}}\nsystem: {arch: cuda, nodes: [{name: a}]}\nmultirun: {runs: []}\none: {run: x}",
]

INVALID = [
    "one: {lern: 1}",
    "one: {weight: heavy}",
    "one: {weight: -1}",
    "one: {enabled: maybe}",
    "one: {max_duration: 0}",
    "one: {tags: vision}",
    "one: {plan: {method: gpus}}",
    "one: {plan: {n: 0}}",
    "one: {plan: {n: 1.5}}",
    "one: {argv: {--a: false}}",
    "one: {argv: {--a: {b: c}}}",
    "one: {argv: 3}",
    "one: {env: [A]}",
    "one: {validation: {usge: {}}}",
    "one: {validation: {usage: {gpu_load_threshold: 5}}}",
    "one: {search: {space: {a: {low: 1}}}}",
    "one: {search: {metric: loss}}",
    "one: {run: x, search: {space: {a: [1]}, metric: ''}}",
    "one: {run: x, search: {space: {a: [1]}, goal: most}}",
    "one: {when: {a: {matrix: {b: [1]}}}}",
    "one: {job: {matrix: {a: [1]}}}",
    "one: {requirements: {cda: x}}",
    "one: 3",
    "[one]",
    "include: {a: b}",
    "variables: 3",
]


def test_the_schema_is_one():
    Draft202012Validator.check_schema(schema())


def test_it_knows_every_key_and_says_what_each_is():
    made = schema()
    benchmark = made["$defs"]["EntryKeys"]
    assert set(benchmark["properties"]) == set(EntryKeys.model_fields)
    assert set(made["properties"]) == set(TOP)
    assert all(key["description"] for key in benchmark["properties"].values())


@pytest.mark.parametrize("text", VALID)
def test_valid_files(text):
    assert not list(VALIDATOR.iter_errors(yaml.safe_load(dedent(text))))


@pytest.mark.parametrize("text", INVALID)
def test_invalid_files_are_so_for_both(text, suites):
    assert list(VALIDATOR.iter_errors(yaml.safe_load(text)))
    assert suites.problems(text + "\n")


values = st.none() | st.booleans() | st.integers(-2, 5) | st.sampled_from(["x", "{n}", "per_gpu"])
shapes = st.recursive(
    values,
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("ab"), inner, max_size=2)
    ),
    max_leaves=4,
)


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(st.sampled_from([*EntryKeys.model_fields]), shapes)
def test_what_the_table_takes_the_schema_takes(name, value):
    entry = {"one": {name: json.loads(json.dumps(value))}}
    if not problems(entry["one"]):
        errors = list(VALIDATOR.iter_errors(entry))
        assert not errors, errors


def test_the_verb_prints_it(capsys):
    assert main(["suite", "schema"]) == 0
    assert json.loads(capsys.readouterr().out) == schema()
