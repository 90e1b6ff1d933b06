"""--override: the command line over the YAML."""

from __future__ import annotations

import pytest

TEXT = """
_base: {run: x.py, max_duration: 10, argv: {--lr: 1, train.size: 2, "key=8": true}}
one: {inherits: _base}
two: {inherits: _base, max_duration: 20}
grid:
  matrix: {n: [1, 2]}
  job: {inherits: _base, name: "g{n}", argv: {--n: "{n}"}}
v1.5: {inherits: _base}
"""


def made(suites, *overrides):
    return {each.name: each for each in suites.load(TEXT, overrides=overrides).benchmarks}


def test_a_key_of_one_benchmark(suites):
    found = made(suites, "one.argv.--lr=0.5", "one.env.A=b", "one.tags=[x]")
    assert found["one"].settings["argv"]["--lr"] == 0.5
    assert found["one"].settings["env"] == {"A": "b"}
    assert found["one"].tags == ("x",)
    assert found["two"].settings["argv"]["--lr"] == 1
    assert str(found["one"].at("argv", "--lr")) == "--override one.argv.--lr"


def test_values_are_yaml_and_null_takes_away(suites):
    found = made(suites, "one.argv={--a: 1}", "two.max_duration=null", "two.argv.--lr=null")
    assert found["one"].settings["argv"] == {"--lr": 1, "train.size": 2, "key=8": True, "--a": 1}
    assert found["two"].max_duration == 600
    assert "--lr" not in found["two"].settings["argv"]


def test_a_glob_of_all(suites):
    found = made(suites, "*.max_duration=5", "g?.weight=3")
    assert {each.max_duration for each in found.values()} == {5}
    assert [found[name].weight for name in ("one", "g1", "g2")] == [1, 3, 3]


def test_a_parent_s_key_reaches_heirs_that_say_nothing_else(suites):
    found = made(suites, "_base.max_duration=7")
    assert (found["one"].max_duration, found["two"].max_duration) == (7, 20)


def test_one_of_a_matrix_all_of_it_and_the_matrix_itself(suites):
    found = made(suites, "g1.argv.--lr=9")
    assert [found[name].settings["argv"]["--lr"] for name in ("g1", "g2")] == [9, 1]
    found = made(suites, "grid.argv.--lr=9")
    assert [found[name].settings["argv"]["--lr"] for name in ("g1", "g2")] == [9, 9]
    found = made(suites, "grid.matrix.n=[5]")
    assert "g5" in found and "g1" not in found
    assert found["g5"].settings["argv"]["--n"] == 5


def test_the_definition_and_parents_can_be_changed(suites):
    folder = suites.folder / "d"
    folder.mkdir()
    (folder / "benchmark.yaml").write_text("weight: 4\n")
    found = made(suites, f"one.definition={folder}", "two.inherits=null", "two.run=y.py")
    assert found["one"].weight == 4
    assert "argv" not in found["two"].settings


def test_keys_and_names_with_dots(suites):
    found = made(suites, "one.argv.train.size=3", "v1.5.weight=2", 'two.argv."new.key"=1')
    assert found["one"].settings["argv"]["train.size"] == 3
    assert found["v1.5"].weight == 2
    assert found["two"].settings["argv"]["new.key"] == 1


def test_a_list_is_added_to_once(suites):
    text = """
        one: {run: x, tags: [a], when: {gpu_count > 1: {weight: 2}}}
        grid: {matrix: {n: [1]}, job: {run: x, tags: [a], name: "g{n}"}}
        """
    overrides = ["*.tags={append: [b]}"]
    for each in suites.load(text, overrides=overrides).benchmarks:
        assert each.tags == ("a", "b")


def test_templates_can_be_given(suites):
    found = made(suites, "one.argv.--lr={gpu_count * 2}", "g2.argv.--lr={n * 10}")
    assert found["one"].argv(suites.context)[2] == "16"
    assert found["g2"].filled(suites.context)["argv"]["--lr"] == 20


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("oen.weight=1", "--override oen.weight: no benchmark is called oen; did you mean one?"),
        ("_bse.weight=1", "no entry is called _bse; did you mean _base?"),
        ("one.wieght=1", "--override one.wieght: unknown key wieght; did you mean weight?"),
        ("one.weight=heavy", "should be a number of at least 0, not the text 'heavy'"),
        ("one.plan.method=nojobs", "not the text 'nojobs'; did you mean njobs?"),
        ("one=1", "BENCHMARK.KEY=VALUE is wanted"),
        ("weight", "KEY=VALUE is wanted"),
        ("one.weight=[", "is not YAML"),
        ("one.argv.--lr={nothing_of_it}", "unknown name nothing_of_it"),
        ("h*.weight=1", "no benchmark is called h*"),
    ],
)
def test_what_is_wrong_with_an_override(suites, override, message):
    found = suites.problems(TEXT, overrides=[override])
    assert any(message in line for line in found), found


def test_a_key_with_an_equals_sign_in_quotes(suites):
    found = made(suites, "one.argv.'key=8'=false_", 'two.argv."--x="=3')
    assert found["one"].settings["argv"]["key=8"] == "false_"
    assert found["two"].settings["argv"]["--x="] == 3


def test_a_part_of_what_only_together_is_whole(suites):
    text = """
    _base: {run: x.py, search: {metric: acc, goal: maximize}}
    study: {inherits: _base, search: {space: {lr: {low: 1, high: 3, n: 3}}}}
    """
    changes = [
        "study.search.space.lr.high=2",
        "study.search.method=random",
        "study.search.trials=2",
    ]
    found = suites.load(text, overrides=changes).benchmarks
    assert [each.settings["search"]["metric"] for each in found] == ["acc", "acc"]
    assert {each.settings["search"]["space"]["lr"]["high"] for each in found} == {2}
    [problem] = suites.problems("a: {run: x.py, search: {metric: acc}}")
    assert problem.startswith("suite.yaml:1: a.search: space is missing")
