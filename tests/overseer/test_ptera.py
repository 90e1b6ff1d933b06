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


def of_ptera(selector: str) -> list[object]:
    module = ModuleType("of_ptera")
    file = Path(os.environ["PROGRAM"])
    exec(compile(file.read_text(), str(file), "exec"), vars(module))
    sys.modules["of_ptera"] = module
    events: list[object] = []
    with probing(selector, env=vars(module)) as probe:
        probe.subscribe(lambda data: events.append(shown(data)))
        module.main()
    return events


def of_ours(selector: str) -> list[object]:
    names = "|".join(re.findall(r"^def (\w+)", PROGRAM, re.MULTILINE))
    here = re.sub(rf"(?<![\w#])({names})(?=[\s(>)]|$)", r"//\1", selector)
    said, events = Said(), []
    engine = Engine(lambda found: session.report(found))
    session = Session({"voirfiles": [], "options": [], "configs": []}, engine, said)
    session.begin()
    session.overseer.probe(here).subscribe(lambda data: events.append(shown(data)))
    session.load()
    main = sys.modules["__main__"] = ModuleType("__main__")
    exec(engine.main_code((PROGRAM + "main()\n").encode(), "ours.py"), vars(main))
    assert not [line for line in said.lines if line.startswith(("miss", "failure"))], said.lines
    return events


def forked(act):
    """What ``act`` gives for each selector, as text, in one process that ends with it."""
    there, back = os.pipe()
    child = os.fork()
    if child == 0:
        found = []
        for selector in LISTED:
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
    ours, theirs = (dict(zip(LISTED, forked(act), strict=True)) for act in (of_ours, of_ptera))
    assert ours == theirs
    assert [text for text in ours.values() if not text.startswith("[{")] == []
