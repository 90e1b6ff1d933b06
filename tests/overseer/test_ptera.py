"""The same events as ptera gives, selector by selector, over one program."""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "fuzz"))
from playing import Said, shown

from injector.overseer.session import Session
from injector.rewrite.engine import Engine

probing = pytest.importorskip("ptera.probe").probing

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
        for key, value in data.items()
    }


def of_ptera(selector: str) -> list[object]:
    module = ModuleType("of_ptera")
    file = Path(os.environ["PROGRAM"])
    exec(compile(file.read_text(), str(file), "exec"), vars(module))
    sys.modules["of_ptera"] = module
    events: list[object] = []
    raw = is_total(selector) and "inside" in vars(module)
    with probing(selector, env=vars(module), raw=raw) as probe:
        probe.subscribe(lambda data: events.append(flat(data) if raw else shown(data)))
        module.main()
    return events


def of_ours(selector: str) -> list[object]:
    program = Path(os.environ["PROGRAM"]).read_text()
    names = "|".join(re.findall(r"^def (\w+)", program, re.MULTILINE))
    here = re.sub(rf"(?<![\w#])({names})(?=[\s(>)]|$)", r"//\1", selector)
    here = here.replace("Thing.act", "//Thing/act").replace("inside", "//make/inner")
    raw = is_total(selector) and "inside" in program
    said, events = Said(), []
    engine = Engine(lambda found: session.report(found))
    session = Session({"voirfiles": [], "options": [], "configs": []}, engine, said)
    session.begin()
    probe = session.overseer.probe(here, raw=raw)
    probe.subscribe(lambda data: events.append(flat(data) if raw else shown(data)))
    session.load()
    main = sys.modules["__main__"] = ModuleType("__main__")
    exec(engine.main_code((program + "main()\n").encode(), "ours.py"), vars(main))
    wrong = ("failure",) if "inside" in program else ("miss", "failure")
    assert not [line for line in said.lines if line.startswith(wrong)], said.lines
    return events


def forked(act, selectors):
    """What ``act`` gives for each selector, as text, in one process that ends with it."""
    there, back = os.pipe()
    child = os.fork()
    if child == 0:
        found = []
        for selector in selectors:
            try:
                found.append(json.dumps(act(selector), sort_keys=True))
            except BaseException as error:
                found.append(repr(error))
        with os.fdopen(back, "w") as file:
            file.write("\n".join(text.replace("\n", " ") for text in found))
        os._exit(0)
    os.close(back)
    with os.fdopen(there) as file:
        text = file.read()
    os.waitpid(child, 0)
    return text.split("\n")


LISTED = re.split(r"[;\n]\s*", SELECTORS.strip())


def test_the_events_are_those_of_ptera(tmp_path, monkeypatch):
    file = tmp_path / "program.py"
    file.write_text(PROGRAM)
    monkeypatch.setenv("PROGRAM", str(file))
    ours, theirs = (
        dict(zip(LISTED, forked(act, LISTED), strict=True)) for act in (of_ours, of_ptera)
    )
    assert ours == theirs
    assert [text for text in ours.values() if not text.startswith("[{")] == []


def test_every_form_over_every_kind_of_function_gives_the_events_of_ptera(tmp_path, monkeypatch):
    file = tmp_path / "program.py"
    file.write_text(SCOPES)
    monkeypatch.setenv("PROGRAM", str(file))
    ours, theirs = (map(json.loads, forked(act, EVERY)) for act in (of_ours, of_ptera))
    several = list(zip(EVERY, theirs, ours, strict=True))
    assert [each for each in several if not has_more(each[1], each[2])] == []
    assert sum(their == our for _, their, our in several) > 0.75 * len(several)
    assert sum(bool(their) for _, their, _ in several) > 0.75 * len(several)
