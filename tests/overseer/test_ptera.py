"""The same events as ptera gives, selector by selector, over one program."""

from __future__ import annotations

import ast
import gc
import json
import math  # noqa: F401  what a selector names
import os
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "fuzz"))
from playing import Said, shown

from injector.errors import UserError
from injector.overseer.session import Session
from injector.rewrite.engine import Engine

probing = pytest.importorskip("ptera.probe").probing
needs_ptera = pytest.mark.skipif(
    not hasattr(ast, "Str"),
    reason="since Python 3.14 ptera itself rewrites nothing: it needs ast.Str",
)

PROGRAM = """
def inner(x):
    y = x + 1
    return y
def other(z):
    w = z * 2
    return w
def outer(n):
    total = 0
    for i in range(n):
        k = i * 10
        total += inner(i)
        other(k)
    last = total
    return last
def recur(n):
    m = n * n
    if n == 0:
        return 1
    r = recur(n - 1)
    return n * r
def fails(q):
    bad = q
    raise ValueError(q)
def catches(q):
    try:
        fails(q)
    except ValueError:
        pass
    return q
def genny(a):
    for i in range(a):
        yield i * i
def main():
    sent = genny(2)
    sent.send(None), sent.send(111)
    for _ in sent:
        pass
    return [outer(2), recur(2), catches(3)]
"""
SELECTORS = """
inner > x; inner > y; inner() as r; inner(x) as r; inner(x) > y; inner(y) > x; inner(!x, y)
outer > inner > x; outer(n) > inner > x; outer(total) > inner > y; outer(i) > inner(x) > y
outer(k, i) > inner() as r; outer > i; outer(i) > k; outer > #loop_i; outer > #endloop_i
outer(#loop_i) > k; outer(#loop_i, k) > #endloop_i; outer(#enter) > k; outer(#enter) > inner > x
outer(#loop_i) > inner > x; outer(#value) > k; outer(#value, k) > total; outer(k) > #exit
outer(n, last); outer(inner(!x), other(z)); outer(inner(x), other(!z)); outer(inner(x), !last)
outer(!k, inner(x)); outer(other(!w), inner(y)); outer(!n, last); outer(!n, !!last); outer(!i, !!k)
outer(!k, !!total); outer(!#enter, !!#exit); outer(!n) as !!r; recur(!n) as !!v; recur(n) > m
recur(n=1) > m; recur > #exit; recur(m) > #exit; recur > #value; fails > #error; catches > fails > bad
recur > recur > m; recur(n) > recur > m
recur(n) > recur(n as k) > m; recur(n as a) > recur(n as b) > recur > m; recur(n=1) > recur > m
inner(!x, !!#value); inner(x=1) > y; inner > x=1; inner(x as a) > y as b; main > outer > inner > x
outer(inner > x, other > z); outer(n, other > z, inner > x); main(outer(inner > x, other(z) > w))
inner($v) > y; inner($v, x) > y; inner(!x, $v); inner($v) > #enter; inner($v) > #value
inner > $x:@enter; inner > $x:@exit; genny > $x:@enter; genny > $y:@exit; genny(a) > $y:@exit
outer(inner(x) as r) as s; outer(inner() as r) as s; outer(k=10) > inner > x; outer > total=1
"""


SCOPES = """
scale = 3
def plain(x):
    y = x + 1
    z = y * scale
    return z
def loops(n):
    t = 0
    for i in range(n):
        k = i * 2
        for j in range(2):
            t += k + j
            leaf(j)
    return t
def leaf(p):
    q = p + 1
    return q
def fails(x):
    y = x * 2
    leaf(y)
    if y:
        raise ValueError(y)
    return y
def steps(x):
    for i in range(x):
        yield i
        leaf(i)
    return x
class Thing:
    def act(self, x):
        a, b = x, x + 1
        leaf(b)
        return a + b
def make(offset):
    def inner(d):
        e = offset + d
        leaf(e)
        return e
    return inner
inside = make(2)
def again(n):
    m = n * n
    if n:
        leaf(n)
        r = again(n - 1)
        m += r
    return m
def tagged(x: "@In", y: "@In & @Out" = 4):
    z: "@Out" = x + y
    leaf(z)
    return z
def main():
    plain(1), plain(2), loops(2)
    sent = steps(2)
    sent.send(None), sent.send(7)
    for _ in sent: pass
    for _ in steps(1): break
    Thing().act(4), inside(1), again(2), tagged(1)
    for value in (0, 1):
        try: fails(value)
        except ValueError: pass
"""
"""A function of each kind. What ptera leaves out is not in it: see docs/selectors.md."""

VARIABLES = {
    "plain": ["x", "y", "scale"],
    "loops": ["t", "k", "#loop_i", "#endloop_i"],
    "fails": ["x", "y"],
    "steps": ["x", "#yield", "#receive", "#endloop_i"],
    "Thing.act": ["x", "b"],
    "inside": ["offset", "e"],
    "again": ["n", "m"],
    "tagged": ["x", "$t:@In", "$t:@Out"],
}
EVENTS = ["#enter", "#exit", "#value", "#error", "$any"]


def forms(function: str, names: list[str]):
    """Each form of the grammar over each variable and event of a function."""
    for a in names:
        yield f"{function} > {a}"
        yield f"{function}({a})"
        yield f"{function}({a}) > leaf > q"
        yield f"{function}({a}) > leaf(p) > #exit"
        yield f"main > {function}({a}, leaf(q)) > #exit"
        for b in names:
            if a != b:
                yield f"{function}({a}) > {b}"
                yield f"{function}(!{a}, !!{b})"


TAGS = """
from ptera import tag
def brew(x, y) -> tag.Food:
    a: "@Food & @Hot" = x * x
    b: "@Cold" = y * y
    return a + b
def more(x):
    r: "@Food" = x + 1
    return r
def cook(p, q) -> tag.Meal & tag.Food:
    a = brew(p, p + 1)
    b = brew(q, q + 1)
    return more(a) + more(b)
def flow(n):
    for i in range(n):
        yield i * i
def main():
    cook(2, 10)
    sent = flow(2)
    sent.send(None), sent.send(111)
    for _ in sent: pass
"""
BOTH_MODES = """
brew:@Food > a; brew:@Food(x, y) > b; brew:@Cold > a; cook > brew:@Food > a; cook:@Cold > brew > a
cook:@Meal > brew(x) as r; cook:@Food(brew:@Food(x), more(r)); more:@Food > r; brew:@Food() as r
brew > $v:@Food; brew(!$v:@Food); brew($v:@Food); brew($v:@Cold) > #exit; cook(a) > brew(!$v:@Hot)
brew > a:@Hot; brew > a:@Cold; brew($v:@enter) > a; brew(a, $v:@enter)
flow > $v:@enter; flow > $v:@exit; flow($v:@enter); flow($v:@exit); flow(!$v:@exit); flow(i) > $v:@enter
cook(brew(x, a) as r); cook(p=2) > brew > x; cook(p=3) > brew > x; cook(brew(x), more(!x as y))
brew(!#enter, !!#exit); cook(!p) as !!r; brew(x) as r; brew() = 13; brew(!!#value); cook > (brew > x)
"""
"""Forms of the selectors in ptera's own tests, with ``probe_type="total"`` and without, raw or not."""

EVERY = [
    selector
    for function, names in VARIABLES.items()
    for selector in forms(function, [*names, *EVENTS])
    # Of two that fire at the same #exit, and of a function's own name: see docs/selectors.md.
    if not re.search(r"!#exit, !!\$any|!\$any, !!#exit|^again.*\$any", selector)
    and not (selector.startswith("plain") and selector.endswith("leaf > q"))
]


def has_more(theirs: object, ours: object) -> bool:
    """Whether events are the same, but that a plain variable has its value from the beginning here."""
    if not (isinstance(theirs, list) and isinstance(ours, list) and len(theirs) == len(ours)):
        return theirs == ours
    pairs = list(zip(theirs, ours, strict=True))
    more = {key for their, our in pairs for key in our.keys() - their.keys()}
    return not any(key[0] in "#$" or key in ("any", "t") for key in more) and all(
        our.get(key, None) == value for their, our in pairs for key, value in their.items()
    )


def is_total(selector: str) -> bool:
    return "!" not in selector and re.search(r">\s*[^()]*$", selector) is None


def flat(data):
    return {
        key: [list(value.names), [shown(each) for each in value.values]]
        if hasattr(value, "names")
        else shown(value)
        for key, value in data.items()
    }


def of_ptera(selector: str, total: bool = False, raw: bool | None = None) -> list[object]:
    module = ModuleType("of_ptera")
    file = Path(os.environ["PROGRAM"])
    exec(compile(file.read_text(), str(file), "exec", dont_inherit=True), vars(module))
    sys.modules["of_ptera"] = module
    events: list[object] = []
    if raw is None:
        raw = is_total(selector) and "inside" in vars(module)
    kind = "total" if total else None
    with probing(selector, env=vars(module), raw=raw, probe_type=kind) as probe:
        probe.subscribe(lambda data: events.append(flat(data) if raw else shown(data)))
        module.main()
    return events


@pytest.fixture
def session():
    """A session whose voirfiles have been loaded, of a program that is not run."""
    made = Session({"voirfiles": [], "options": [], "configs": []}, Engine(lambda _: None), Said())
    made.begin()
    made.load()
    return made


def of_ours(selector: str, total: bool = False, raw: bool | None = None) -> list[object]:
    program = Path(os.environ["PROGRAM"]).read_text()
    names = "|".join(re.findall(r"^def (\w+)", program, re.MULTILINE))
    here = re.sub(rf"(?<![\w#])({names})(?=[\s(>):]|$)", r"//\1", selector)
    here = here.replace("Thing.act", "//Thing/act").replace("inside", "//make/inner")
    if raw is None:
        raw = is_total(selector) and "inside" in program
    sentence, events = Said(), []
    engine = Engine(lambda found: session.report(found))
    session = Session({"voirfiles": [], "options": [], "configs": []}, engine, sentence)
    session.begin()
    probe = session.overseer.probe(here, raw=raw, probe_type="total" if total else None)
    probe.subscribe(lambda data: events.append(flat(data) if raw else shown(data)))
    session.load()
    main = sys.modules["__main__"] = ModuleType("__main__")
    exec(engine.main_code((program + "main()\n").encode(), "ours.py"), vars(main))
    wrong = ("failure",) if "inside" in program or "@" in selector else ("miss", "failure")
    assert not [line for line in sentence.lines if line.startswith(wrong)], sentence.lines
    return events


def forked(act, selectors):
    """What ``act`` gives for each selector, as text, in one process that ends with it."""
    there, back = os.pipe()
    gc.freeze()  # garbage is looked for among what the child makes, not among all that tests have imported
    child = os.fork()
    if child == 0:
        found = []
        for selector in selectors:
            try:
                several = selector if isinstance(selector, tuple) else (selector,)
                found.append(json.dumps(act(*several), sort_keys=True))
            except BaseException as error:
                found.append(repr(error))
        with os.fdopen(back, "w") as file:
            file.write("\n".join(text.replace("\n", " ") for text in found))
        os._exit(0)
    gc.unfreeze()
    os.close(back)
    with os.fdopen(there) as file:
        text = file.read()
    os.waitpid(child, 0)
    return text.split("\n")


LISTED = re.split(r"[;\n]\s*", SELECTORS.strip())


@needs_ptera
def test_the_events_are_those_of_ptera(tmp_path, monkeypatch):
    file = tmp_path / "program.py"
    file.write_text(PROGRAM)
    monkeypatch.setenv("PROGRAM", str(file))
    ours, theirs = (
        dict(zip(LISTED, forked(act, LISTED), strict=True)) for act in (of_ours, of_ptera)
    )
    assert ours == theirs
    assert [text for text in ours.values() if not text.startswith("[{")] == []


@needs_ptera
@pytest.mark.parametrize("every", [4, pytest.param(1, marks=pytest.mark.release)])
def test_forms_over_kinds_of_functions_give_the_events_of_ptera(every, tmp_path, monkeypatch):
    selectors = EVERY[::every]
    file = tmp_path / "program.py"
    file.write_text(SCOPES)
    monkeypatch.setenv("PROGRAM", str(file))
    ours, theirs = (map(json.loads, forked(act, selectors)) for act in (of_ours, of_ptera))
    several = list(zip(selectors, theirs, ours, strict=True))
    assert [each for each in several if not has_more(each[1], each[2])] == []
    assert sum(their == our for _, their, our in several) > 0.75 * len(several)
    assert sum(bool(their) for _, their, _ in several) > 0.75 * len(several)


def refuses(text: str) -> bool:
    """Whether ptera raised: where the probe was set, or in the program."""
    return not text.startswith("[")


@needs_ptera
def test_tags_and_totals_give_the_events_of_ptera(tmp_path, monkeypatch):
    file = tmp_path / "program.py"
    file.write_text(TAGS)
    monkeypatch.setenv("PROGRAM", str(file))
    listed = re.split(r"[;\n]\s*", BOTH_MODES.strip())
    cases = [
        (text, total, raw) for text in listed for total in (False, True) for raw in (True, False)
    ]
    ours, theirs = forked(of_ours, cases), forked(of_ptera, cases)
    several = list(zip(cases, theirs, ours, strict=True))
    assert [each for each in several if not refuses(each[1]) and each[1] != each[2]] == []
    assert [each for each in several if "Error" in each[2] and not refuses(each[1])] == []
    assert sum(refuses(their) for their in theirs) < len(cases) / 3


class Stove:
    def heat(self, water):
        warm = water + 1
        return warm  # noqa: RET504  it is what the selectors name


def fire(number):
    kilns = number + 1
    return [kilns] * 2


def bound(ov_probe, stoves):
    """The events of a method of the first of two objects."""
    events: list[object] = []
    ov_probe.subscribe(lambda data: events.append({**data, "self": stoves.index(data["self"])}))
    return events


@needs_ptera
@pytest.mark.parametrize("selector", ["one.heat > warm", "one.heat(water) as r", "one.heat(!warm)"])
def test_a_method_of_one_object_fires_for_it_alone(selector, session):
    one, other = stoves = [Stove(), Stove()]

    def both():
        return [one.heat(1), other.heat(2), one.heat(3)]

    env = {"one": one, "other": other}
    with probing(selector, env=env) as probe:
        theirs = bound(probe, stoves)
        both()
    ours = bound(session.overseer.probe(selector, env=env), stoves)
    both()
    assert ours == theirs
    assert len(ours) == 2


def test_names_are_looked_up_as_the_voirfile_says(session):
    def resolve(name):
        return {"stove": fire}[name]

    probe = session.overseer.probe("stove > kilns", env={"__ptera_resolver__": resolve})
    seen: list[object] = []
    probe["kilns"].subscribe(seen.append)
    fire(4)
    assert seen == [5]
    with pytest.raises(UserError, match=r"__ptera_resolver__\('oven'\) raised KeyError"):
        session.overseer.probe("oven > warm", env={"__ptera_resolver__": resolve})


@pytest.mark.parametrize(
    ("selector", "options", "message"),
    [
        ("//f(x, !!y)", {}, "mark with '!' where it begins"),
        ("//f(!x, !!y)", {"probe_type": "total"}, "has no total"),
        ("//f(//g > x, //h > y)", {"probe_type": "total"}, "a probe for each"),
        ("//f > x", {"probe_type": "every"}, "'immediate' or 'total', not 'every'"),
        ("//f(x)", {"overridable": True}, "no variable to override"),
        ("x", {}, "name a function: any function would be every function"),
        ("* > x", {}, "name a function: any function would be every function"),
        ("//f > * > x", {}, "name a function: any function would be every function"),
    ],
)
def test_what_has_no_meaning_is_refused(selector, options, message, session):
    with pytest.raises(UserError, match=re.escape(message)):
        session.overseer.probe(selector, **options)


@pytest.mark.parametrize("selector", ["//f() as out", "//f(!x)", "//g > //f() as out"])
def test_a_region_of_an_event_is_refused(selector, session):
    with pytest.raises(UserError, match="calls are those of a function: name it without"):
        session.overseer.region(selector, "forward")


def test_what_every_module_has_is_no_name_of_the_voirfile(session):
    with pytest.raises(UserError, match="'__init__' is no name of the voirfile"):
        session.overseer.region("//Thing > __init__", "forward")


BUILTIN = """
def key(x):
    y = -x
    return y
def main():
    key(10)
    sorted([2, 1], key=key)
    key(20)
    try: sorted([3, None], key=key)
    except TypeError: pass
    key(30)
    return max(map(key, sorted([4], key=key)))
main()
"""


@pytest.mark.parametrize(
    ("selector", "events"),
    [
        ("sorted > //key > y", [{"y": -y} for y in (2, 1, 3, 4)]),
        ("sorted(//key(y))", [{"y": -1}, {"y": -3}, {"y": -4}]),
        ("sorted(//key(y)) as r", [{"y": -1, "r": "list"}, {"y": -4, "r": "list"}]),
        ("sorted(#enter) > //key() as k", [{"#enter": True, "k": k} for k in (-2, -1, -3, -4)]),
        ("max > //key > x", [{"x": 4}]),
    ],
)
def test_a_function_of_c_is_left_again(selector, events, tmp_path, monkeypatch):
    file = tmp_path / "program.py"
    file.write_text(BUILTIN)
    monkeypatch.setenv("PROGRAM", str(file))
    [found] = forked(of_builtin, [selector])
    assert json.loads(found) == events


THREAD = """
import _thread, math
class Numbers:
    def __iter__(self):
        done.release()
        return iter((2, 3))
done = _thread.allocate_lock()
done.acquire()
_thread.start_new_thread(math.prod, (Numbers(),))
done.acquire()
"""


def test_a_thread_may_begin_with_a_function_of_c(tmp_path, monkeypatch):
    file = tmp_path / "program.py"
    file.write_text(THREAD)
    monkeypatch.setenv("PROGRAM", str(file))
    assert forked(of_builtin, ["math.prod > #enter"]) == ['[{"#enter": true}]']


def of_builtin(selector: str) -> list[object]:
    sentence, events = Said(), []
    engine = Engine(lambda found: session.report(found))
    session = Session({"voirfiles": [], "options": [], "configs": []}, engine, sentence)
    session.begin()
    session.overseer.probe(selector).subscribe(lambda data: events.append(shown(data)))
    session.load()
    main = sys.modules["__main__"] = ModuleType("__main__")
    exec(engine.main_code(Path(os.environ["PROGRAM"]).read_bytes(), "ours.py"), vars(main))
    return events
