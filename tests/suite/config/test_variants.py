"""matrix, search and sweeps: which benchmarks there are, and what each is told."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from injector.suite.config.variants import trials


def test_a_matrix_makes_one_benchmark_for_each_combination(suites):
    made = suites.load("""
        _base: {run: x.py, argv: {--lr: 1}}
        grid:
          matrix:
            size: [1, 2]
            loader: [a, b, c]
          job:
            name: "g{size}-{loader}"
            inherits: _base
            argv: {--size: "{size}", --loader: "{loader}", --both: "{loader}{size}"}
        """).benchmarks
    assert [each.name for each in made] == ["g1-a", "g1-b", "g1-c", "g2-a", "g2-b", "g2-c"]
    assert [each.settings["matrix"] for each in made][3] == {"size": 2, "loader": "a"}
    assert made[3].settings["argv"] == {"--lr": 1, "--size": 2, "--loader": "a", "--both": "a2"}
    assert {each.family for each in made} == {"grid"}


def test_each_expansion_keeps_its_own_values(suites):
    made = suites.load(
        "one: {matrix: {n: [1, 2, 3]}, job: {run: x.py, argv: ['{n}']}}\n"
    ).benchmarks
    assert [each.settings["matrix"]["n"] for each in made] == [1, 2, 3]
    assert [each.argv(suites.context) for each in made] == [["1"], ["2"], ["3"]]
    assert [each.name for each in made] == ["one-1", "one-2", "one-3"]


def test_a_matrix_reaches_any_key(suites):
    (small, large) = suites.load("""
        _tiny: {run: a.py, weight: 1}
        _huge: {run: b.py, weight: 7}
        grid:
          matrix: {kind: [tiny, huge]}
          job:
            inherits: "_{kind}"
            group: "g-{kind}"
            tags: ["{kind}"]
            env: {KIND: "{kind}"}
            plan: {method: njobs, n: "{len(kind)}"}
            voir: {options: {stop: "{len(kind) * 10}"}}
            max_duration: "{len(kind)}"
            enabled: "{kind != 'huge'}"
            argv: {"kind={kind}": true}
        """).benchmarks
    assert (small.settings["run"], small.weight, large.settings["run"], large.weight) == (
        "a.py",
        1,
        "b.py",
        7,
    )
    assert (small.group, small.tags, small.plan) == (
        "g-tiny",
        ("tiny",),
        {"method": "njobs", "n": 4},
    )
    assert (small.enabled, large.enabled) == (True, False)
    assert small.settings["voir"] == {"options": {"stop": 40}}
    assert large.settings["env"] == {"KIND": "huge"}
    assert small.argv(suites.context) == ["kind=tiny"]


def test_values_keep_their_types_and_may_be_anything(suites):
    argv = suites.argv("""
        one:
          matrix: {amp: [true, null], l: [[1, 2], 3]}
          job: {run: x.py, argv: {--amp: "{amp}", --l: "{l}", --t: "t{l}"}}
        """)
    assert argv == {
        "one-true-1+2": "--amp --l 1,2 --t t1,2",
        "one-true-3": "--amp --l 3 --t t3",
        "one-none-1+2": "--l 1,2 --t t1,2",
        "one-none-3": "--l 3 --t t3",
    }


def test_values_of_any_letters_have_names_of_their_own(suites):
    argv = suites.argv("""
        one:
          matrix: {word: ["é", "日本", "/", null]}
          job: {run: x.py, argv: {--w: "{word}"}}
        """)
    assert list(argv) == ["one-ue9", "one-u65e5u672c", "one-u2f", "one-none"]


def test_names_with_commas_belong_together_and_combinations_can_be_left_out(suites):
    argv = suites.argv("""
        one:
          matrix:
            model, batch: [[small, 64], [large, 8]]
            fp: [16, 32]
          exclude:
            - {model: large, fp: 32}
            - batch == 64 and fp == 16
          job: {run: x.py, argv: ["{model}", "{batch}", "{fp}"]}
        """)
    assert argv == {"one-small-64-32": "small 64 32", "one-large-8-16": "large 8 16"}


def test_keys_beside_the_job_hold_for_all(suites):
    made = suites.load("""
        one:
          run: x.py
          weight: 2
          tags: [a]
          matrix: {n: [1, 2]}
          job: {tags: [b], argv: ["{n}"]}
        """).benchmarks
    assert [(each.weight, each.tags) for each in made] == [(2, ("a", "b"))] * 2


def test_matrix_values_may_be_templates_themselves(suites):
    argv = suites.argv("""
        one:
          matrix: {"n, to": [[1, "{out}/a"], [2, "auto(3, 4)"]]}
          job: {name: "j{n}", run: x.py, argv: {--to: "{to}", --text: "to={to}!"}}
        """)
    assert argv == {"j1": "--to /o/a --text to=/o/a!", "j2": "--to 4 --text to=4!"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("one: {matrix: {}, job: {run: x}}", "one.matrix: is empty: a matrix has names"),
        ("one: {matrix: {n: []}, job: {run: x}}", "one.matrix: n has no values"),
        ("one: {matrix: {n: [1], 'a b': [1]}, job: {run: x}}", "'a b' is no name"),
        (
            "one: {matrix: {'a, b': [[1]]}, job: {run: x}}",
            "each value of a, b is a list of 2 values",
        ),
        ("one: {matrix: {'a, b': [[1, 2]], b: [1]}, job: {run: x}}", "b is there twice"),
        (
            "one: {matrix: {n: [1, 2]}, job: {run: x, name: same}}",
            "makes same twice; give it a name that differs: name: x-",
        ),
        (
            "one: {matrix: {n: [a/b, a_b]}, run: x}",
            "makes one-a_b twice; give it a name that differs",
        ),
        ("a: {run: x}\none: {matrix: {n: [1]}, job: {run: x, name: a}}", "makes a, which"),
        ("one: {matrix: {n: [1, 1]}, job: {run: x}}", "makes one twice"),
        ("one: {matrix: {n: [1, 2]}, job: {run: x, name: 'j{m}'}}", "name: unknown name m"),
        ("one: {matrix: {n: ['a/b']}, job: {run: x, name: 'j{n}'}}", "'ja/b' is no name"),
        (
            "one: {matrix: {n: [1]}, job: {run: x, name: 'j{gpu_count}'}}",
            "{gpu_count} is not known when names are given",
        ),
        (
            "one: {matrix: {n: [1, 2]}, exclude: ['n > 0'], job: {run: x}}",
            "every combination is excluded",
        ),
        ("one: {matrix: {n: [1, 2]}, exclude: [{m: 1}], job: {run: x}}", "the matrix has no m"),
        ("one: {matrix: {n: [1]}, job: {run: x, plan: {n: '{n / 0}'}}}", "divided by zero"),
        (
            "one: {matrix: {n: [a]}, job: {run: x, plan: {n: '{n}'}}}",
            "{n}: should be a whole number of at least 1, not the text 'a'",
        ),
        (
            "one: {matrix: {a: [1, 2, 3, 4], b: '{list(range(10))}'}, job: {run: x}}",
            "no function list()",
        ),
        ("one: {matrix: [1], job: {run: x}}", "one.matrix: should be a map, not a list"),
    ],
)
def test_what_is_wrong_with_a_matrix(suites, text, message):
    assert any(message in line for line in suites.problems(text + "\n")), suites.problems(
        text + "\n"
    )


def test_too_many_combinations_are_a_mistake_and_not_made(suites):
    axes = ", ".join(f"n{i}: [{', '.join(map(str, range(100)))}]" for i in range(5))
    (found,) = suites.problems(f"one: {{matrix: {{{axes}}}, job: {{run: x}}}}\n")
    assert "10000000000 combinations: at most 100000 are made" in found


# a search


def test_a_grid_search_tries_every_combination(suites):
    made = suites.load("""
        study:
          run: x.py
          argv: {--lr: "{lr}", --n: "{layers}"}
          search:
            space:
              lr: [1e-4, 1e-2]
              layers: {low: 1, high: 5, step: 2}
            metric: loss
        """).benchmarks
    assert [each.name for each in made] == [f"study-trial{n}" for n in range(6)]
    assert [each.argv(suites.context)[1::2] for each in made][:3] == [
        ["0.0001", "1"],
        ["0.0001", "3"],
        ["0.0001", "5"],
    ]
    assert made[5].settings["matrix"] == {"lr": 0.01, "layers": 5, "trial": 5}
    assert made[0].settings["search"]["metric"] == "loss"


def test_a_random_search_draws_the_same_each_time_and_more_trials_only_add(suites):
    def drawn(trials, seed=1):
        return [
            each.settings["matrix"]
            for each in suites.load(f"""
                study:
                  run: x.py
                  search:
                    method: random
                    trials: {trials}
                    seed: {seed}
                    space:
                      lr: {{low: 1e-5, high: 1e-1, log: true}}
                      size: [16, 32, 64]
                      layers: {{low: 2, high: 4}}
                      drop: {{low: 0, high: 0.5, step: 0.1}}
                """).benchmarks
        ]

    ten = drawn(10)
    assert ten == drawn(10) == drawn(20)[:10] != drawn(10, seed=2)
    assert all(1e-5 <= each["lr"] <= 1e-1 and each["size"] in (16, 32, 64) for each in ten)
    assert {each["layers"] for each in drawn(40)} == {2, 3, 4}
    assert {each["drop"] for each in drawn(80)} == {0, 0.1, 0.2, 0.3, 0.4, 0.5}


def test_a_search_within_a_matrix_and_under_a_name(suites):
    names = [
        each.name
        for each in suites.load("""
            study:
              matrix: {model: [a, b]}
              job:
                run: x.py
                name: "{model}-lr{lr}"
                argv: ["{model}", "{lr}", "{trial}"]
                search: {space: {lr: [1, 2]}}
            """).benchmarks
    ]
    assert names == ["a-lr1", "a-lr2", "b-lr1", "b-lr2"]


@pytest.mark.parametrize(
    ("space", "more", "message"),
    [
        ("{}", "", "space is empty"),
        ("{a: []}", "", "a has no values"),
        ("{a: {low: 2, high: 1, n: 2}}", "", "a: high (1) is not more than low (2)"),
        ("{a: {low: 0, high: 1, log: true, n: 2}}", "", "begins above 0"),
        ("{a: {low: 1, high: 2, log: true, step: 1}}", "", "has no step"),
        ("{a: {low: 1, high: 2}}", "", "a range of a grid has n"),
        ("{a: [1]}", "trials: 3", "trials belongs to method: random"),
        ("{a: [1]}", "method: random", "trials is missing"),
        ("{a: {low: 1}}", "", "high is missing"),
        ("{a: {low: 1, high: 2, stpe: 1}}", "", "did you mean step?"),
        ("{a: [1]}", "method: gird", "not the text 'gird'; did you mean grid?"),
        ("{'a b': [1]}", "", "'a b' is no name"),
    ],
)
def test_what_is_wrong_with_a_search(suites, space, more, message):
    text = f"one:\n  run: x.py\n  search:\n    space: {space}\n    {more}\n"
    found = suites.problems(text)
    assert any(message in line and "one.search" in line for line in found), found


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("goal", "maximise", "not the text 'maximise'; did you mean maximize?"),
        ("goal", "[maximize]", "one of minimize, maximize, not a list"),
        ("goal", "true", "one of minimize, maximize, not true"),
        (
            "goal",
            "'${wanted}'",
            "${wanted}: should be one of minimize, maximize, not the text 'most'",
        ),
        ("goal", "'${x}'", "unknown name x"),
        ("metric", "''", "should be the name of a value or of a figure, not the text ''"),
        ("metric", "3", "the name of a value or of a figure, not the number 3"),
        ("metric", "[loss]", "the name of a value or of a figure, not a list"),
        ("metric", "{}", "the name of a value or of a figure, not a map"),
        (
            "metric",
            "'${none}'",
            "${none}: should be the name of a value or of a figure, not the text ' '",
        ),
        ("metric", "'{b}'", "unknown name b"),
        ("goals", "maximize", "unknown key goals; did you mean goal?"),
        ("metrics", "loss", "unknown key metrics; did you mean metric?"),
    ],
)
def test_a_wrong_metric_or_goal_has_its_file_line_and_key(suites, key, value, message):
    text = (
        "variables: {wanted: most, none: ' '}\none:\n  run: x.py\n  search:\n    space: {a: [1]}\n"
    )
    [found] = suites.problems(f"{text}    {key}: {value}\n")
    assert found.startswith(f"suite.yaml:6: one.search.{key}: ") and message in found


ranges = st.tuples(st.integers(1, 50), st.integers(1, 50)).map(
    lambda pair: {"low": pair[0], "high": pair[0] + pair[1]}
)


@given(
    st.dictionaries(st.sampled_from("abc"), ranges, min_size=1),
    st.integers(1, 30),
    st.integers(0, 5),
)
def test_draws_are_within_their_ranges_and_repeat(space, count, seed):
    study = {"method": "random", "trials": count, "seed": seed, "space": space}
    drawn = trials(study, "x")
    assert drawn == trials(study, "x")
    assert len(drawn) == count
    for values in drawn:
        for name, message in space.items():
            assert message["low"] <= values[name] <= message["high"]
            assert isinstance(values[name], int)


# -P and -V


SWEPT = """
variables:
  batch: 16
  lr: 0.1
  exp: {model: resnet, name: "${exp.model}_${batch}"}
one: {run: x.py, argv: ["${exp.name}", "{lr}"]}
two: {run: x.py, argv: ["{lr}"]}
"""


def test_a_parameter_sets_a_variable(suites):
    assert suites.argv(SWEPT) == {"one": "resnet_16 0.1", "two": "0.1"}
    made = suites.argv(SWEPT, parameters=["batch=8", "exp.model='vgg'"])
    assert made == {"one": "vgg_8 0.1", "two": "0.1"}


def test_a_sweep_multiplies_what_uses_the_variable_and_nothing_else(suites):
    made = suites.argv(SWEPT, variables=["batch=[1, 2]"])
    assert made == {"one-1": "resnet_1 0.1", "one-2": "resnet_2 0.1", "two": "0.1"}
    made = suites.argv(SWEPT, variables=["exp.model=[a, b]", "lr=[1, 2]"])
    assert list(made) == ["one-a-1", "one-a-2", "one-b-1", "one-b-2", "two-1", "two-2"]
    assert made["one-b-2"] == "b_16 2"


def test_a_sweep_of_one_value_leaves_names_alone(suites):
    assert suites.argv(SWEPT, variables=["batch=[4]"]) == {"one": "resnet_4 0.1", "two": "0.1"}


def test_a_sweep_reaches_parents_and_matrices(suites):
    text = """
        variables: {kind: a}
        _a: {run: a.py, argv: [A]}
        _b: {run: b.py, argv: [B]}
        one: {inherits: "_${kind}"}
        two: {matrix: {n: ["{kind}", 1]}, job: {run: x, argv: ["{n}"]}}
        """
    assert suites.argv(text, variables=["kind=[a, b]"]) == {
        "one-a": "A",
        "one-b": "B",
        "two-a-a": "a",
        "two-a-1": "1",
        "two-b-b": "b",
        "two-b-1": "1",
    }


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"parameters": ["batc=3"]}, "-P batc: no benchmark uses batc; did you mean batch?"),
        ({"variables": ["batc=[3]"]}, "-V batc: no benchmark uses batc; did you mean batch?"),
        ({"variables": ["batch=3"]}, "-V batch: a list with at least one value is wanted"),
        ({"variables": ["batch=[]"]}, "a list with at least one value is wanted"),
        ({"variables": ["batch=[1, 1]"]}, "the same value stands there twice"),
        (
            {"variables": ["batch=[1, 2]"], "parameters": ["batch=3"]},
            "-P sets it, to 3: one of both",
        ),
        ({"parameters": ["batch"]}, "-P batch: KEY=VALUE is wanted"),
        ({"parameters": ["batch=[1"]}, "-P batch=[1: is not YAML"),
        ({"parameters": ["a b=1"]}, "'a b' is no name of a variable"),
    ],
)
def test_what_is_wrong_with_parameters_and_sweeps(suites, options, message):
    assert any(message in line for line in suites.problems(SWEPT, **options))
