"""Which lines of a program make the batch: of small programs, by what their last lines say."""

import ast
import textwrap
from pathlib import Path

import pytest

from injector.analysis.advice import making_batches
from injector.analysis.profile import SourceLine
from injector.rewrite.batches import BatchCode, batch_code
from injector.rewrite.parsed_file import FUNCTIONS, ParsedFile, functions_in
from injector.value_class import replace

PROGRAMS = {
    "function": """
        while True:
            x, y = get_batch("train")  # made
            opt.zero_grad()  # end
            loss = model(x, y)  # model
            opt.step()  # begin
        """,
    "one ahead": """
        x, y = get_batch("train")
        while True:
            for micro in range(4):
                logits, loss = model(x, y)  # model begin
                loss = loss / 4
                x, y = get_batch("train")  # made
                loss.backward()  # end
            opt.step()
        """,
    "inline, from a name to the next": """
        def train(data):
            for epoch in range(9):
                order = torch.randperm(len(data))
                for i in range(0, len(data), 8):
                    lr = 0.1 * epoch
                    rows = order[i:i + 8]  # made
                    x = data[rows]  # made
                    x = x.to(device)  # made
                    t = i + 1
                    out = model(x, t)  # model end
                    out.sum().backward()
                    opt.step()  # begin
        """,
    "not where the time is": """
        for i in range(9):
            x = data[i]
            out = model(x)  # model
            loss = out.sum()
            loss.backward()  # begin
            log(loss)
            opt.step()  # end
        """,
    "an evaluation that gives what the batch has": """
        for i in range(9):
            x, labels = get_batch()  # made
            text = encode(labels)  # made
            out = self.model(x, text)  # model
            loss = criterion(out, text)  # model end
            opt.step()  # begin
            if i % 4 == 0:
                score, labels = validate(self.model, data=held)
        """,
    "of a model whose forward is called by its name": """
        for i in range(9):
            x = data[i]  # made
            out, h = encoder.forward(x, h)
            z = solve(field, out)
            y = decode(z, look(x))  # model end
            opt.step()  # begin
        """,
    "of a model": """
        for i in range(9):
            h = encode(z)  # model begin
            h = solve(h, steps=40)
            g = norm(h)
            out = decode(g)  # model end
            opt.step()
        """,
    "of two models": """
        for i in range(9):
            real = sample(8)
            noise = torch.randn(8, 2)  # made
            fake = G(noise)  # model end
            out = D(fake)  # model
            opt.step()  # begin
        """,
    "state": """
        for i in range(9):
            x = data[i:i + 3]  # made
            hidden = detach(hidden)
            out, hidden = model(x, hidden)  # model end
            opt.step()  # begin
        """,
    "a generator": """
        def batches(n):
            for i in range(n):
                yield torch.randn(8), torch.randn(8)

        for i, (x, y) in enumerate(batches(9)):  # made
            out = model(x)  # model end
            opt.step()  # begin
        """,
    "a list": """
        for x, y in batches:
            out = model(x)  # model end
            opt.step()  # begin
        """,
    "before the loop": """
        x = torch.randn(8)
        for i in range(9):
            y = work(i)
            out = model(x)  # model end
            opt.step()  # begin
        """,
    "of a function that the loop calls": """
        class Trainer:
            def step(self, x, scale):
                x = x.to(device)  # made
                out = model(x)  # model end
                opt.step()  # begin

        def main(trainer):
            for i in range(9):
                other = work(i)
                scale = other[0]
                x, name = get_batch(8)  # made
                loss = trainer.step(x, scale=scale)
                print(loss)
        """,
    "of a function that two loops call": """
        def step(x):
            out = model(x)  # model end
            opt.step()  # begin

        for x in data:
            x = x[0]
            step(x)
        for x in data:
            x = x[0]
            step(x)
        """,
    "of a function that calls itself": """
        def step(x):
            out = model(x)  # model end
            opt.step()  # begin
            for i in x:
                step(i)
        """,
    "in another function": """
        def step(x):
            out = model(x)  # model end

        for i in range(9):
            x = get_batch(8)
            step(x)
            opt.step()  # begin
        """,
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_lines_that_make_the_batch(name: str, tmp_path: Path) -> None:
    file = tmp_path / "train.py"
    file.write_text(textwrap.dedent(PROGRAMS[name]))
    lines = file.read_text().splitlines()
    marks: dict[str, list[SourceLine]] = {"begin": [], "end": [], "model": [], "made": []}
    for number, line in enumerate(lines, 1):
        for mark in line.partition("#")[2].split():
            marks[mark].append(SourceLine(str(file), number, "", line.strip()))
    [begin], [end] = marks["begin"], marks["end"]
    found = batch_code(begin, end, marks["model"])
    assert (list(found.lines) if found else []) == [place.line for place in marks["made"]]
    assert batch_code(begin, end, []) is None
    changed = replace(begin, text="what stood there when it ran")
    assert batch_code(changed, end, marks["model"]) is None
    gone = [replace(place, file=str(tmp_path / "gone.py")) for place in (begin, end)]
    assert batch_code(*gone, marks["model"]) is None


def test_the_functions_that_make_the_batch(tmp_path: Path) -> None:
    text = """
        class Data:
            def next_batch(self):
                pass
            def close(self):
                pass
        class Other:
            def close(self):
                pass
        def main():
            def get_batch(split):
                pass
            for i in range(9):
                x, y = get_batch("train")
                z = other.next_batch()
                w = other.close()
                v = torch.randn(8)
                model(x, y, z, w, v)
        """
    file = tmp_path / "train.py"
    file.write_text(textwrap.dedent(text))
    lines = file.read_text().splitlines()
    numbers = [
        next(n for n, line in enumerate(lines, 1) if word in line) for word in ("x, y =", "model(")
    ]
    [begin, end] = [SourceLine(str(file), n, "", lines[n - 1].strip()) for n in numbers]
    found = batch_code(end, end, [end])
    assert found is not None
    assert found.lines == tuple(range(begin.line, end.line))
    assert found.functions == ("main/get_batch", "Data/next_batch")


def test_advice_names_the_module_of_a_function_that_makes_batches(tmp_path: Path) -> None:
    package = tmp_path / "code" / "pkg" / "sub"
    package.mkdir(parents=True)
    for folder in (package, package.parent):
        (folder / "__init__.py").touch()
    code = BatchCode((3,), ("get_batch",))
    place = SourceLine(str(package / "train.py"), 3, "main", "x = get_batch()")
    for command, selector in (
        (["inject", "run", "sub/train.py", "--lr", "1"], "//get_batch"),
        (["inject", "run", "-m", "pkg.sub"], "/pkg.sub.train/get_batch"),
        (["inject", "run", "-m", "pkg.sub.train"], "//get_batch"),
    ):
        assert f'ov.region("{selector}", "io")' in making_batches(code, place, command)[1]
    assert 'injector.region("io")' in making_batches(BatchCode((3,)), place, [])[1]


SCOPES = (*FUNCTIONS, ast.ClassDef, ast.Lambda)
NESTED = """
import numpy as np
lazy = lambda: (yield 0)
class A:
    x: int = 3
    @wrap(lambda: [f(1)])
    def one(self, y=g(2)):
        def one():
            yield h(3)
        class B:
            def two(self): return (yield from other())
            async def three(self): await slow()
        return one
    def plain(self):
        a = b = k(lambda: (yield 1))
def one(): pass
if A:
    def two(q: int = (yield_ := 4)): z[0]: int = q; return [m(n) for n in q]
"""


def test_what_one_walk_notes_is_what_walks_of_ast_find():
    tree = ast.parse(NESTED)
    parsed = ParsedFile(tree, NESTED.split("\n"))

    def yields(node):
        inside = [n for n in ast.iter_child_nodes(node) if not isinstance(n, SCOPES)]
        return any(isinstance(n, ast.Yield | ast.YieldFrom) or yields(n) for n in inside)

    every = list(ast.walk(tree))
    functions: dict[str, list[str]] = {}
    for path, function in functions_in(tree):
        functions.setdefault(function.name, []).append(path)
    assert parsed.calls == [n for n in every if isinstance(n, ast.Call)]
    assert parsed.assignments == [n for n in every if isinstance(n, ast.Assign | ast.AnnAssign)]
    assert {name: sorted(paths) for name, paths in parsed.functions.items()} == {
        name: sorted(paths) for name, paths in functions.items()
    }
    assert functions["one"] == ["A/one", "A/one/one", "one"] and len(functions["two"]) == 2
    generators = {n.name for n in every if isinstance(n, FUNCTIONS) and yields(n)}
    assert parsed.generators == generators == {"one", "two"}
