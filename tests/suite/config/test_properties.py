"""Whatever a suite is like: it expands alike each time, to what a slow and simple reading makes of it."""

from __future__ import annotations

import itertools
import json

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tries import tries

from injector.suite.config import load

CONTEXT = {"gpu_count": 2, "cpu_count": 8, "arch": "cuda", "out": "/o", "base": "/b"}
RELAXED = settings(
    max_examples=tries(60),
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)

scalars = st.integers(0, 99) | st.sampled_from(["a", "b c", "0.5", "x=1"]) | st.just(True)
options = st.dictionaries(
    st.sampled_from(["--a", "--b", "--c", "word"]), scalars | st.none(), max_size=4
)


@st.composite
def entry(draw, parents):
    made = {"argv": draw(options)}
    if tags := draw(st.lists(st.sampled_from("uvwxyz"), max_size=3, unique=True)):
        made["tags"] = tags
    if draw(st.booleans()):
        made["max_duration"] = draw(st.integers(1, 9))
    if parents and draw(st.booleans()):
        made["inherits"] = draw(st.sampled_from(parents))
    return made


@st.composite
def suites_of_heirs(draw):
    made = {}
    for name in ["_p", "_q", "r", "s", "t"]:
        made[name] = draw(entry(list(made)))
    return {**made, **{name: {"run": "x.py", **made[name]} for name in "rst"}}


def slowly(made, name):
    """An entry over its parents, one after the other."""
    own = made[name]
    if "inherits" not in own:
        return own
    low = slowly(made, own["inherits"])
    both = {**low, **own, "argv": {**low["argv"], **own["argv"]}}
    tags = {*low.get("tags", []), *own.get("tags", [])}
    return {**both, "tags": sorted(tags)} if tags else both


def spoken(argv):
    first = [key for key, value in argv.items() if value is True and not key.startswith("-")]
    for key, value in argv.items():
        if value is True and key.startswith("-"):
            first.append(key)
        elif value not in (None, True) or type(value) is int:
            first += [key, str(value)]
    return first


def read(folder, made):
    file = folder / "any.yaml"
    file.write_text(json.dumps(made))
    return load(file, CONTEXT)


@RELAXED
@given(made=suites_of_heirs())
def test_heirs_are_what_their_parents_and_they_say(tmp_path, made):
    for each in read(tmp_path, made).benchmarks:
        expected = slowly(made, each.name)
        assert sorted(each.tags) == sorted(expected.get("tags", []))
        assert each.max_duration == expected.get("max_duration", 600)
        assert each.argv(CONTEXT) == spoken(expected["argv"])


axes = st.dictionaries(
    st.sampled_from(["n", "size", "batch-size", "m_2"]),
    st.lists(st.integers(0, 99), min_size=1, max_size=4, unique=True),
    min_size=1,
    max_size=3,
)


@RELAXED
@given(axes=axes)
def test_a_matrix_is_the_product_of_its_values(tmp_path, axes):
    argv = [f"{name}={{{name}}}" for name in axes] + [
        f"{{{name} * 2 + gpu_count}}" for name in axes
    ]
    name = "j" + "".join(f"-{{{each}}}" for each in axes)
    made = read(
        tmp_path, {"grid": {"matrix": axes, "job": {"name": name, "run": "x", "argv": argv}}}
    )
    rows = list(itertools.product(*axes.values()))
    assert [each.name for each in made.benchmarks] == [
        "j" + "".join(f"-{v}" for v in row) for row in rows
    ]
    for each, row in zip(made.benchmarks, rows, strict=True):
        assert each.settings["matrix"] == dict(zip(axes, row, strict=True))
        assert each.argv(CONTEXT) == [
            *(f"{name}={value}" for name, value in zip(axes, row, strict=True)),
            *(str(value * 2 + 2) for value in row),
        ]


@RELAXED
@given(made=suites_of_heirs(), axes=axes)
def test_the_same_files_make_the_same_suite(tmp_path, made, axes):
    job = {"inherits": "_q", "run": "x", "argv": [f"{{{next(iter(axes))}}}"]}
    search = {
        "run": "x",
        "search": {"method": "random", "trials": 3, "space": {k: list(v) for k, v in axes.items()}},
    }
    whole = {**made, "grid": {"matrix": axes, "job": job}, "study": search}
    first, second = read(tmp_path, whole), read(tmp_path, whole)
    assert first == second
    assert [each.filled(CONTEXT) for each in first.benchmarks] == [
        each.filled(CONTEXT) for each in second.benchmarks
    ]
    assert len({each.name for each in first.benchmarks}) == len(first.benchmarks)


@RELAXED
@given(made=suites_of_heirs())
def test_splitting_a_suite_over_files_changes_nothing(tmp_path, made):
    whole = read(tmp_path, made)
    low = {name: {k: v for k, v in each.items() if k != "argv"} for name, each in made.items()}
    high = {name: {"argv": each["argv"]} for name, each in made.items()}
    (tmp_path / "low.yaml").write_text(json.dumps(low))
    split = read(tmp_path, {"include": "low.yaml", **high})
    assert [(b.name, b.argv(CONTEXT), b.tags, b.max_duration) for b in split.benchmarks] == [
        (b.name, b.argv(CONTEXT), b.tags, b.max_duration) for b in whole.benchmarks
    ]
