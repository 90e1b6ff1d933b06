"""include and inherits: what lies over what, and what goes wrong with it."""

from __future__ import annotations

import pytest


def test_an_heir_has_its_parents_keys_tags_of_both_and_lists_of_its_own(suites):
    made = suites.one("""
        _base:
          run: train.py
          tags: [a, b]
          max_duration: 10
          voir: {options: {stop: 5, skip: 1}}
          requires_capabilities: ["gpu_count > 0"]
          argv: {--lr: 1, --l: [1, 2], --gone: x}
        one:
          inherits: _base
          tags: [c, b]
          voir: {options: {stop: 9}}
          requires_capabilities: ["cpu_count > 1"]
          argv: {--l: [3], --gone: null, --new: y}
        """)
    assert made.tags == ("a", "b", "c")
    assert made.max_duration == 10
    assert made.settings["voir"] == {"options": {"stop": 9, "skip": 1}}
    assert made.settings["requires_capabilities"] == ["cpu_count > 1"]
    assert made.settings["argv"] == {"--lr": 1, "--l": [3], "--new": "y"}
    assert "inherits" not in made.settings


def test_of_several_parents_a_later_one_wins_and_a_common_one_is_below_both(suites):
    made = suites.one("""
        _base: {run: x.py, weight: 1, max_duration: 1, group: g}
        _a: {inherits: _base, weight: 2, max_duration: 2}
        _b: {inherits: _base, weight: 3}
        one: {inherits: [_a, _b]}
        """)
    assert (made.weight, made.max_duration, made.group) == (3, 2, "g")


def test_null_takes_away_what_was_inherited(suites):
    made = suites.one("""
        _base: {run: x.py, weight: 3, env: {A: 1, B: 2}}
        one: {inherits: _base, weight: null, env: {A: null}}
        """)
    assert made.weight == 1
    assert made.settings["env"] == {"B": 2}


def test_a_list_can_be_added_to(suites):
    made = suites.one("""
        _base: {run: x.py, argv: [a, b], url: [u]}
        one: {inherits: _base, argv: {append: [c]}, url: {append: [v]}}
        """)
    assert made.settings["argv"] == ["a", "b", "c"]
    assert made.settings["url"] == ["u", "v"]


def test_what_begins_with_an_underscore_never_runs_and_defaults_need_not_be_there(suites):
    made = suites.load("_x: {run: a}\none: {inherits: _defaults, run: b}\n").benchmarks
    assert [each.name for each in made] == ["one"]


def test_a_file_lies_over_those_that_it_includes(suites):
    suites.write(
        base="""
            _defaults: {max_duration: 1, weight: 1}
            one: {inherits: _defaults, run: x.py, tags: [a], argv: {--lr: 1}}
            two: {inherits: _defaults, run: y.py}
            """,
        deep__other="_defaults: {weight: 5}\n",
    )
    made = suites.load("""
        include: [base.yaml, deep/other.yaml]
        _defaults: {max_duration: 9}
        one: {tags: [b], argv: {--n: 2}}
        two: null
        """).benchmarks
    assert [each.name for each in made] == ["one"]
    (one,) = made
    assert (one.max_duration, one.weight) == (9, 5)
    assert one.tags == ("b",)  # over another file's a list is replaced, as any
    assert one.settings["argv"] == {"--lr": 1, "--n": 2}


def test_a_file_included_twice_holds_each_time(suites):
    suites.write(
        base="_d: {weight: 1}\n",
        a="include: base.yaml\n_d: {weight: 2}\n",
        b="include: base.yaml\none: {inherits: _d, run: x}\n",
    )
    assert suites.one("include: [a.yaml, b.yaml]\n").weight == 1  # as milabench has it
    assert suites.one("include: [b.yaml, a.yaml]\n").weight == 2


def test_a_shipped_suite_is_included_by_its_name(suites, monkeypatch):
    from injector.suite.config import definitions

    suites.write(hidden__there="one: {run: x.py}\n")
    monkeypatch.setattr(
        definitions, "shipped_suites", lambda: {"there": suites.folder / "hidden" / "there.yaml"}
    )
    made = suites.load("include: there\ntwo: {run: y.py}\n").benchmarks
    assert [each.name for each in made] == ["one", "two"]


def test_what_is_laid_over_all_is_over_all(suites):
    made = suites.load("""
        "*": {max_duration: 3}
        one: {run: x.py, max_duration: 9}
        two: {run: y.py}
        """).benchmarks
    assert [each.max_duration for each in made] == [3, 3]


def test_places_survive_merging(suites):
    suites.write(base="_base:\n  run: x.py\n  argv:\n    --lr: 1\n    --n: 2\n")
    made = suites.one("include: base.yaml\none:\n  inherits: _base\n  argv:\n    --n: 3\n")
    folder = str(suites.folder)
    assert str(made.at("argv", "--lr")) == f"{folder}/base.yaml:4: _base.argv.--lr"
    assert str(made.at("argv", "--n")) == f"{folder}/suite.yaml:5: one.argv.--n"
    assert made.at("argv", "--n", "deeper") == made.at("argv", "--n")
    assert made.at("weight") == made.where


def definition(suites, name, text, **more):
    folder = suites.folder / name
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "benchmark.yaml").write_text(text)
    for file, content in more.items():
        (folder / file.replace("_", ".")).write_text(content)


def test_a_definition_is_the_lowest_layer(suites):
    definition(
        suites, "defs/mine", "run: train.py\nweight: 2\ntags: [d]\nargv: {--lr: 1, --n: 1}\n"
    )
    made = suites.one("""
        _base: {argv: {--n: 2}}
        one: {inherits: _base, definition: defs/mine, tags: [s], argv: {--m: 3}}
        """)
    assert made.definition == (suites.folder / "defs" / "mine")
    assert made.weight == 2
    assert made.tags == ("d", "s")
    assert made.settings["argv"] == {"--lr": 1, "--n": 2, "--m": 3}
    assert made.at("argv", "--lr").file.endswith("mine/benchmark.yaml")


def test_a_definition_is_relative_to_the_file_that_names_it(suites):
    definition(suites, "defs/mine", "run: train.py\n")
    suites.write(sub__base="_base: {definition: ../defs/mine}\n")
    made = suites.one("include: sub/base.yaml\none: {inherits: _base}\n")
    assert made.definition == suites.folder / "defs" / "mine"


def test_a_mistake_in_a_definition_is_reported_where_it_is(suites):
    definition(suites, "defs/mine", "run: train.py\nwieght: 2\ninherits: x\n")
    found = suites.problems("one: {definition: defs/mine}\n")
    assert found[0].startswith(
        "defs/mine/benchmark.yaml:2: wieght: unknown key wieght; did you mean weight?"
    )
    assert "benchmark.yaml:3: inherits" in found[1]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "one: {run: x, inherits: _bse}\n_base: {}\n",
            "suite.yaml:1: one.inherits: no entry is called _bse; did you mean _base?",
        ),
        (
            "one: {run: x, inherits: one}\n",
            "suite.yaml:1: one.inherits: goes round in a circle: one inherits one",
        ),
        (
            "a: {run: x, inherits: b}\nb: {inherits: c}\nc: {inherits: b}\n",
            "suite.yaml:2: b.inherits: goes round in a circle: b inherits c inherits b",
        ),
        (
            "include: suite.yaml\none: {run: x}\n",
            "suite.yaml:1: include: goes round in a circle: suite.yaml includes suite.yaml",
        ),
        (
            "include: nothere.yaml\n",
            "suite.yaml:1: include: there is no file nothere.yaml to include",
        ),
        ("one: {definition: nowhere}\n", "suite.yaml:1: one.definition: no definition 'nowhere'"),
        (
            "one: {definition: {git: https://x/y}}\n",
            "a definition is not fetched: clone the repository",
        ),
        ("one: {weight: 1}\n", "suite.yaml:1: one: has nothing to run: run"),
        ("_a: {run: x}\n", "has no benchmark"),
    ],
)
def test_what_is_wrong_with_parents_and_files(suites, text, message):
    assert any(message in line for line in suites.problems(text))


def test_an_unknown_parent_is_reported_once_whatever_it_is_called(suites):
    found = suites.problems("a: {run: x, inherits: b}\nb: {inherits: circle}\n")
    assert found == ["suite.yaml:2: b.inherits: no entry is called circle (there are a, b)"]


def test_a_circle_of_files_is_shown_whole(suites):
    suites.write(a="include: b.yaml\n", b="include: [c.yaml]\n", c="include: a.yaml\n")
    (found,) = suites.problems(name="a")
    assert (
        found
        == "c.yaml:1: include: goes round in a circle: a.yaml includes b.yaml includes c.yaml includes a.yaml"
    )


def test_a_missing_file_is_near_another(suites):
    suites.write(training="one: {run: x}\n")
    (found,) = suites.problems("include: traning.yaml\nother: {inherits: one}\n")
    assert found.endswith("did you mean training.yaml?")


def test_a_suite_that_is_not_there_says_what_is(suites):
    suites.write(training="one: {run: x}\n")
    (found,) = suites.problems(name="trainin")
    assert "there is no file" in found and "did you mean training.yaml?" in found


def test_parents_of_what_is_disabled_need_no_program(suites):
    assert not suites.one("one: {enabled: false, weight: 1}\n").enabled
