"""The selector reader against ptera's, which is the reference for what a selector means."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tries import tries

from injector.rewrite import ptera_tree, selector
from injector.rewrite.ptera_tree import converted
from injector.rewrite.selector import (
    ABSENT,
    BEGIN,
    END,
    Element,
    FunctionNode,
    SelectorError,
    Value,
)
from injector.rewrite.selector_reader import matcher, parse

ptera_selector = pytest.importorskip("ptera.selector")


def by_ptera(text: str) -> FunctionNode:
    """ptera's tree of a selector in our form, wrapped as ptera wraps a lone variable."""
    tree = converted(ptera_selector._select(text))
    assert isinstance(tree, FunctionNode)
    return tree


def call(target: str, *inside: Element | FunctionNode) -> FunctionNode:
    captures = tuple(x for x in inside if isinstance(x, Element))
    return FunctionNode(target, captures, tuple(x for x in inside if isinstance(x, FunctionNode)))


def var(name: str | None, capture: str | None = None, **rest: object) -> Element:
    return Element(name, capture or name, **rest)  # type: ignore[arg-type]


FORMS = {
    "f > x": call("f", var("x", focus=BEGIN)),
    "f > g > x": call("f", call("g", var("x", focus=BEGIN))),
    "f(x, y as z) > w": call("f", var("x"), var("y", "z"), var("w", focus=BEGIN)),
    "f() as r": call("f", var("#value", "r", focus=BEGIN)),
    "f > g() as r": call("f", call("g", var("#value", "r", focus=BEGIN))),
    "f(g() as r)": call("f", call("g", var("#value", "r"))),
    "f(x) as r > y": call("f", var("x"), var("#value", "r", focus=BEGIN), var("y", focus=BEGIN)),
    "f > x as y": call("f", var("x", "y", focus=BEGIN)),
    "f(!a, !!b)": call("f", var("a", focus=BEGIN), var("b", focus=END)),
    "f > !!x": call("f", var("x", focus=BEGIN | END)),
    "f(!x as !!y)": call("f", var("x", "y", focus=BEGIN | END)),
    "f(!$x)": call("f", Element(None, "x", focus=BEGIN)),
    "f > $x": call("f", Element(None, "x", focus=BEGIN)),
    "f > $x as y": call("f", Element(None, "y", focus=BEGIN)),
    "f > *": call("f", Element(None, focus=BEGIN)),
    "* > x": call("*", var("x", focus=BEGIN)),
    "x": call("*", var("x", focus=BEGIN)),
    "$x": call("*", Element(None, "x", focus=BEGIN)),
    "*": call("*", Element(None, focus=BEGIN)),
    "f(x)": call("f", var("x")),
    "f()": call("f"),
    "f(x)(y)": call("f", var("x"), var("y")),
    "f(x=1) > y": call("f", var("x", value=Value("1", "number")), var("y", focus=BEGIN)),
    "f(x=-1.5)": call("f", var("x", value=Value("-1.5", "number"))),
    "f(x='a b')": call("f", var("x", value=Value("a b", "string"))),
    "f(x=a.b)": call("f", var("x", value=Value("a.b", "symbol"))),
    "f(x=make(1, k='s'))": call("f", var("x", value=Value("make(1, k='s')", "call"))),
    "f(x~fn) > y": call("f", var("x", value=Value("fn", "match")), var("y", focus=BEGIN)),
    "f(x~gt(3))": call("f", var("x", value=Value("gt(3)", "match"))),
    "f() = 1": call("f", var("#value", value=Value("1", "number"))),
    "f > x:tag": call("f", var("x", category="tag", focus=BEGIN)),
    "f > x:@Tag": call("f", var("x", category="@Tag", focus=BEGIN)),
    "f > x:ptera.tag.Tag": call("f", var("x", category="ptera.tag.Tag", focus=BEGIN)),
    "f > $x:@Tag": call("f", Element(None, "x", category="@Tag", focus=BEGIN)),
    "f > :@Tag": call("f", Element(None, category="@Tag", focus=BEGIN)),
    "f(:@Tag = 1)": call("f", Element(None, category="@Tag", value=Value("1", "number"))),
    "f > x as y:@T=1": call(
        "f", var("x", "y", category="@T", value=Value("1", "number"), focus=BEGIN)
    ),
    "f:@Tag > x": FunctionNode("f", (var("x", focus=BEGIN),), category="@Tag"),
    "f > (x)": call("f", var("x", focus=BEGIN)),
    "(f) > x": call("f", var("x", focus=BEGIN)),
    "(f > g) > x": call("f", var("g", focus=BEGIN), var("x", focus=BEGIN)),
    "f(g()) > x": call("f", call("g"), var("x", focus=BEGIN)),
    "f > (g > x)": call("f", call("g", var("x", focus=BEGIN))),
    "(f > x) as r": call("f", var("x", focus=BEGIN), var("#value", "r", focus=BEGIN)),
    "f(a, g(y) as q) > z": call(
        "f", var("a"), call("g", var("y"), var("#value", "q")), var("z", focus=BEGIN)
    ),
    "f > self.loss": call("f", var("self.loss", focus=BEGIN)),
    "f > #enter": call("f", var("#enter", focus=BEGIN)),
    "f(!#loop_x, !!#endloop_x)": call(
        "f", var("#loop_x", focus=BEGIN), var("#endloop_x", focus=END)
    ),
    "torch.nn.Module.forward > x": call("torch.nn.Module.forward", var("x", focus=BEGIN)),
    "/pkg.mod/Class/method > x": call("/pkg.mod/Class/method", var("x", focus=BEGIN)),
    "//f > x": call("//f", var("x", focus=BEGIN)),
    "// > x": call("//", var("x", focus=BEGIN)),
    "/pkg.mod/ > x": call("/pkg.mod/", var("x", focus=BEGIN)),
    "  f\t>\n x ": call("f", var("x", focus=BEGIN)),
    "f>x": call("f", var("x", focus=BEGIN)),
    "f as r > x": call("f", var("x", focus=BEGIN)),
}


@pytest.mark.parametrize("text", FORMS)
def test_form(text: str) -> None:
    assert parse(text) == FORMS[text]


@pytest.mark.parametrize("text", FORMS)
def test_form_means_what_ptera_says(text: str) -> None:
    assert parse(text) == by_ptera(text)


@pytest.mark.parametrize("text", FORMS)
def test_form_survives_being_written(text: str) -> None:
    assert parse(str(parse(text))) == parse(text)


@pytest.mark.parametrize("text", FORMS)
def test_ptera_is_not_needed(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ptera_tree, "read", lambda text: pytest.fail("ptera was asked"))
    parse(text)


# --- the whole grammar, generated -----------------------------------------------------------------

names = st.sampled_from(["x", "y", "loss", "self.loss", "_a1", "ass", "f", "#value", "#loop_i"])
functions = st.sampled_from(["f", "g", "Class.m", "/pkg.mod/C/m", "//f", "//", "/pkg.mod/", "*"])
tags = st.sampled_from(["@Tag", "tag", "ptera.tag.Tag"])
blank = st.sampled_from(["", "", " ", "  ", "\t", "\n"])
constants = st.sampled_from(["1", "-2.5", "'s'", "'a > b'", "''", "True", "a.b", "@Tag", "0"])


def glued(*parts: object) -> st.SearchStrategy[str]:
    """Strings in a row with blanks where they change nothing."""
    strategies = [p if isinstance(p, st.SearchStrategy) else st.just(p) for p in parts]
    spaced = [s for one in strategies for s in (one, blank)][:-1]
    return st.tuples(*spaced).map("".join)


values = st.recursive(
    constants,
    lambda inner: st.builds(
        lambda f, args: f"{f}({', '.join(args)})",
        st.sampled_from(["make", "a.b"]),
        st.lists(inner | st.builds("k={}".format, inner), max_size=3),
    ),
    max_leaves=4,
)
variables = (
    names
    | st.just("*")
    | glued("$", st.sampled_from(["x", "y"]))
    | glued("!", names)
    | glued("!!", names)
    | glued("!", "$", st.just("x"))
    | glued(":", tags)
)
aliased = variables | st.builds("{} as {}".format, variables, st.sampled_from(["p", "!p", "!!p"]))
tagged = aliased | glued(aliased, ":", tags)
elements = tagged | glued(tagged, "=", values) | glued(tagged, "~", values)


def compound(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    arguments = st.lists(inner, max_size=3).map(", ".join)
    called = glued(inner | functions, "(", arguments, ")")
    return (
        glued(functions | inner, ">", inner)
        | called
        | st.builds("{} as r".format, called)
        | glued(called, "=", values)
        | glued("(", inner, ")")
    )


selectors = st.deferred(lambda: elements | functions | compound(selectors))
soup = st.lists(
    st.sampled_from(
        [
            *"fxy(()),,>>>=~:!$*1 .-[&",
            "as",
            "a.b",
            "//f",
            "#value",
            "#enter",
            "'a'",
            "!!",
            "@T",
            ">>",
        ]
    ),
    max_size=9,
).map("".join)


def ours_and_ptera(text: str) -> tuple[FunctionNode | None, FunctionNode | None]:
    try:
        ours = parse(text)
    except SelectorError:
        ours = None
    try:
        reference = by_ptera(text)
    except Exception:
        reference = None
    return ours, reference


@settings(max_examples=tries(400), deadline=None)
@given(selectors)
def test_agrees_with_ptera(text: str) -> None:
    ours, reference = ours_and_ptera(text)
    if ours is not None and reference is not None:
        assert ours == reference
    if ours is not None:
        assert reference is not None, "only ptera's selectors and module levels are taken"
        assert parse(str(ours)) == ours


@settings(max_examples=tries(400), deadline=None)
@given(soup)
def test_agrees_with_ptera_on_nonsense(text: str) -> None:
    ours, reference = ours_and_ptera(text)
    if ours is not None:
        assert ours == reference
        assert parse(str(ours)) == ours


@settings(max_examples=tries(150), deadline=None)
@given(st.text(max_size=12) | soup)
def test_refuses_with_a_caret(text: str) -> None:
    try:
        parse(text)
    except SelectorError as error:
        assert 0 <= error.offset <= len(text)
        if text.strip():
            message, shown, caret = str(error).rsplit("\n", 2)
            assert message
            assert len(shown) == len(text) + 4
            assert caret == " " * (4 + error.offset) + "^"


# --- what is refused ------------------------------------------------------------------------------

REFUSED = {
    "f > ": ("a function or a variable", 4),
    "f(x": ("',' or ')'", 3),
    "(f > x": ("')'", 6),
    "f x": ("'>'", 2),
    "f > > x": ("after '>'", 4),
    "f >> x": ("after '>'", 3),
    "f > 'abc": ("never closed", 4),
    "f > #entr": ("'#entr' is no event", 4),
    "f > #loop_": ("no event", 4),
    "/train > x": ("names only a module", 0),
    "/a-b/f > x": ("a module's name", 0),
    "/a.b/c-d > x": ("a function's name", 0),
    "f-g > x": ("a function's name", 0),
    "f > 3": ("a variable's name", 4),
    "f > a-b": ("a variable's name", 4),
    "f(x=)": ("a value", 4),
    "f(x=1 as y)": ("the value last", 6),
    "f > x:t as y": ("tag after the alias", 8),
    "f(x):@T": ("a tag belongs to a name", 4),
    "f=1 > x": ("a function has no value", 4),
    "f > x, y": ("stand in a call", 5),
    "f((a, b), c)": ("')'", 4),
    "f > x & y": ("'&' means nothing", 6),
    "f > $": ("a name after '$'", 5),
    "f() as": ("a name after 'as'", 6),
    "f > x as 1": ("a name after 'as'", 4),
    "f > x:3": ("a tag such as", 4),
    "f(x,)": ("a function or a variable", 4),
    "f(": ("a function or a variable", 2),
    "f > x)": ("or the end", 5),
}


@pytest.mark.parametrize("text", REFUSED)
def test_refused(text: str) -> None:
    expected, offset = REFUSED[text]
    with pytest.raises(SelectorError) as caught:
        parse(text)
    assert expected in str(caught.value)
    assert caught.value.offset == offset
    assert str(caught.value).endswith(f"\n    {text}\n    {' ' * offset}^")


@pytest.mark.parametrize("text", ["", "   "])
def test_nothing_is_refused_without_a_caret(text: str) -> None:
    with pytest.raises(SelectorError, match="a function or a variable") as caught:
        parse(text)
    assert "^" not in str(caught.value)


def test_error_is_one_line_per_part_whatever_the_text_holds() -> None:
    with pytest.raises(SelectorError) as caught:
        parse("f >\n\t&")
    assert str(caught.value).splitlines()[1:] == ["    f >  &", "         ^"]


# --- ptera's parser behind ours -------------------------------------------------------------------


def test_what_only_ptera_reads_is_taken_from_it() -> None:
    # A chain of aliases: ours does not read it, ptera keeps the first name.
    assert parse("f > a as b as c") == call("f", var("a", "b", focus=BEGIN))


def test_without_ptera_the_first_error_stands(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ptera.selector", None)
    with pytest.raises(SelectorError, match="one 'as' only"):
        parse("f > a as b as c")


def test_convert_refuses_what_is_no_tree() -> None:
    with pytest.raises(TypeError, match="no selector"):
        converted([1])


def test_reading_imports_nothing() -> None:
    source = (
        "import sys, injector.rewrite; before = set(sys.modules)\n"
        "from injector.rewrite.selector_reader import parse\n"
        "parse('f(x=1, !a) > g() as r'); print(sorted(set(sys.modules) - before))"
    )
    root = Path(selector.__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-S", "-c", source], cwd=root, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == str(
        [f"injector.rewrite.{name}" for name in ("selector", "selector_reader")]
    )


# --- questions to a tree --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("target", "module", "path"),
    [
        ("f", None, ()),
        ("a.b.f", None, ()),
        ("*", None, ()),
        ("//f", "__main__", ("f",)),
        ("//C/m", "__main__", ("C", "m")),
        ("//C.m", "__main__", ("C", "m")),
        ("//", "__main__", ()),
        ("/pkg.mod/", "pkg.mod", ()),
        ("/pkg.mod/C/m", "pkg.mod", ("C", "m")),
    ],
)
def test_target(target: str, module: str | None, path: tuple[str, ...]) -> None:
    found = parse(f"{target} > x")
    assert (found.target, found.module, found.path) == (target, module, path)


@pytest.mark.parametrize(
    ("text", "mode"),
    [
        ("f > x", "immediate"),
        ("f() as r", "immediate"),
        ("x", "immediate"),
        ("f(x)", "total"),
        ("f(x, g(y))", "total"),
        ("f() = 1", "total"),
        ("f(!a, !!b)", "wrap"),
        ("f > !!x", "wrap"),
        ("f(!!b)", "total"),
    ],
)
def test_mode(text: str, mode: str) -> None:
    assert selector.mode(parse(text)) == mode
    reference = ptera_selector._select(text)
    assert bool(reference.focus) == (mode != "total")
    if mode != "total":
        assert (set(reference.all_tags) == {1, 2}) == (mode == "wrap")


def test_helpers() -> None:
    tree = parse("f(a, x as y, g(b, *)) > h(a) > c")
    assert [c.target for c in selector.calls(tree)] == ["f", "g", "h"]
    assert selector.captures(tree) == ["a", "y", "b", "c"]
    assert [e.name for e in selector.all_elements(tree)] == ["a", "x", "b", None, "a", "c"]
    assert [e.name for e in selector.focus(tree)] == ["c"]
    assert selector.focus(parse("f(!a, !!b)"), END) == [var("b", focus=END)]


def test_tag_is_the_last_name() -> None:
    assert parse("f > x:@Tag").captures[0].tag == "Tag"
    assert parse("f > x:ptera.tag.Tag").captures[0].tag == "Tag"
    assert parse("f > x").captures[0].tag is None


def test_places() -> None:
    tree = parse("f(x) > g > yy")
    assert (tree.at, tree.captures[0].at) == (0, 2)
    assert (tree.children[0].at, tree.children[0].captures[0].at) == (7, 11)
    assert parse("f > x") == parse("  f   >  x")
    assert hash(parse("f > x")) == hash(parse("  f   >  x"))


def test_nodes() -> None:
    one = Element("x", "x")
    assert one != Element("x", "y") and one != "x" and one.value is ABSENT
    assert one.replace(focus=1) == Element("x", "x", focus=1)
    assert repr(Value("1", "number")) == "Value(text='1', kind='number')"


def test_identifiers_are_folded_as_python_folds_them() -> None:
    assert parse("//f > ﬁt").captures[0].name == "fit"
    assert parse("//größe > x").path == ("größe",)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("3", 3),
        ("-2.5", -2.5),
        ("1e-3", 1e-3),
        ("'3'", "3"),
        ("''", ""),
        ("name", "<name>"),
        ("a.b", "<a.b>"),
        ("@Tag", "<@Tag>"),
        ("nan", "<nan>"),
    ],
)
def test_constant(text: str, value: object) -> None:
    wanted = parse(f"f(x={text})").captures[0].value
    assert wanted is not None
    test = matcher(wanted, lambda name: f"<{name}>")
    assert test(value) and not test("something else")


def test_called_values() -> None:
    table = {"make": lambda *a, **k: (a, k), "a": 7, "curry": lambda x: lambda y: (x, y)}
    wanted = parse("f(x=make(1, 'b', a, k=make(), m=2))").captures[0].value
    assert wanted is not None
    assert matcher(wanted, table.__getitem__)(((1, "b", 7), {"k": ((), {}), "m": 2}))
    wanted = parse("f(x=curry(1)(2))").captures[0].value
    assert wanted is not None
    assert matcher(wanted, table.__getitem__)((1, 2))


def test_match_functions() -> None:
    table = {"positive": lambda x: x > 0, "above": lambda n: lambda x: x > n}
    positive = parse("f(x~positive)").captures[0].value
    above = parse("f(x~above(3))").captures[0].value
    assert positive is not None and above is not None
    assert matcher(positive, table.__getitem__)(1)
    assert not matcher(above, table.__getitem__)(3)
