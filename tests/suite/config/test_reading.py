"""YAML with places: where everything stands, and what is no YAML."""

from __future__ import annotations

import pytest

from injector.suite.config import reading
from injector.suite.config.problems import SuiteError
from injector.suite.config.reading import parse, read


def problems(text):
    with pytest.raises(SuiteError) as caught:
        raise SuiteError(parse(text, "s.yaml").problems)
    return str(caught.value).splitlines()


def test_every_key_and_item_has_its_line():
    made = parse("a:\n  argv:\n    --x: 1\n    --l:\n      - p\n      - q\nb: {c: 2}\n", "s.yaml")
    lines = {".".join(map(str, path)): where.line for path, where in made.places.items()}
    assert lines == {
        "a": 1,
        "a.argv": 2,
        "a.argv.--x": 3,
        "a.argv.--l": 4,
        "a.argv.--l.0": 5,
        "a.argv.--l.1": 6,
        "b": 7,
        "b.c": 7,
    }
    assert str(made.places["a", "argv", "--x"]) == "s.yaml:3: a.argv.--x"


def test_values_are_those_of_yaml_but_dates_and_times_are_texts():
    text = "a: [1, 1.5, 0x10, yes, ~, 1e-4, 2024-01-02, '8', text, 1:30, .5]"
    expected = [1, 1.5, 16, True, None, "1e-4", "2024-01-02", "8", "text", "1:30", 0.5]
    assert parse(text, "s").data["a"] == expected


def test_keys_are_texts_whatever_yaml_takes_them_for():
    assert list(parse("{8: a, true: b, null: c, 1.50: d}", "s").data) == [
        "8",
        "true",
        "null",
        "1.50",
    ]


def test_anchors_and_merge_keys_are_resolved():
    text = "x: &x {a: 1, b: {c: 2}}\ny: &y {d: 3}\nz:\n  <<: [*x, *y]\n  a: 9\nw:\n  <<: *x\n"
    made = parse(text, "s")
    assert made.data["z"] == {"a": 9, "b": {"c": 2}, "d": 3}
    assert made.data["w"] == {"a": 1, "b": {"c": 2}}
    assert made.places["z", "a"].line == 5


def test_milabench_s_tag_for_deleting_is_null():
    assert parse("a: {b: !delete x}", "s").data == {"a": {"b": None}}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: 1\nb:\n  c: 1\n  c: 2\n", "s.yaml:4: b.c: c stands twice: on line 3 as well"),
        ("a: 1\na: 2\n", "s.yaml:2: a: a stands twice: on line 1 as well"),
        ("a:\n  - b\n c: 1\n", "s.yaml:3: is not YAML"),
        ("a: [1, 2\n", "is not YAML"),
        ("a: \x07\n", "s.yaml:1: is not YAML"),
        ("- a\n- b\n", "s.yaml:1: a suite is a map of names"),
        ("text", "s.yaml:1: a suite is a map of names"),
        ("a: 1\n---\nb: 2\n", "s.yaml:2: is not YAML: expected a single document"),
        ("a: &a [*a]\n", "contains itself"),
        (
            "a: !!python/object:os.system x\n",
            "the tag !!python/object:os.system means nothing here",
        ),
        ("a: !thing {b: 1}\n", "the tag !thing means nothing here"),
        ("a: !!int x\n", "'x' is no int; in quotes it is a text"),
        ("? [a]\n: 1\n", "a key is a text"),
        ("a:\n  <<: 3\n", "<< wants a map"),
        ("a: *b\n", "is not YAML: found undefined alias"),
    ],
)
def test_what_is_no_suite_says_where(text, message):
    assert message in problems(text)[0]


def test_all_mistakes_are_reported_at_once():
    found = problems("a: {b: 1, b: 2}\nc: !x y\nd: &d [*d]\n")
    assert [line.split(":")[1] for line in found] == ["1", "2", "3"]


def test_aliases_of_aliases_end_before_the_memory_does(monkeypatch):
    monkeypatch.setattr(reading, "MOST_NODES", 1000)
    rows = ["a0: &a0 [x, x]"] + [f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}]" for n in range(1, 40)]
    assert len([line for line in problems("\n".join(rows)) if "too many values" in line]) == 1


def test_an_empty_file_is_a_suite_of_nothing():
    assert parse("", "s").data == {}
    assert parse("# nothing\n", "s").data == {}


def test_what_cannot_be_read_says_so(tmp_path):
    with pytest.raises(SuiteError, match="No such file"):
        read(tmp_path / "none.yaml")
    with pytest.raises(SuiteError, match="Is a directory"):
        read(tmp_path)
    (tmp_path / "l.yaml").write_bytes(b"a: 1\nb: \xff\n")
    with pytest.raises(SuiteError, match=r"l\.yaml:2: is not UTF-8"):
        read(tmp_path / "l.yaml")


def test_pyyaml_without_libyaml_reads_the_same(monkeypatch):
    import yaml

    text = "a: &x {b: [1, '2', 3.0, no]}\nc: *x\n"
    fast = parse(text, "s")
    monkeypatch.setattr(reading, "LOADER", yaml.SafeLoader)
    assert parse(text, "s") == fast


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("a:\n\trun: x.py\n", 2),
        ("a:\n  run: x.py\n\tweight: 2\n", 3),
        ("a:\n  argv:\n  \t- x\n", 3),
        ("\ta: 1\n", 1),
        ("a:\n  b:\n\t\tc: 1\n  d: 2\n", 3),
    ],
)
def test_a_tab_is_called_a_tab(text, line):
    [message] = problems(text)
    assert message.startswith(f"s.yaml:{line}: is not YAML: a tab stands at the begin of the line")


def test_a_tab_within_a_line_is_none_of_the_indentation():
    assert parse("a:\t1\n", "s.yaml").data == {"a": 1}
    assert "a tab" not in problems("a: [\t1\nb: 2\n")[0]
