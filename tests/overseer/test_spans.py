"""Regions in real runs: rewritten functions, objects, forks, children, sudden ends."""

from __future__ import annotations

import pytest

from injector.store import spans
from injector.store.spans import unpack

PROGRAM = """
import time

class Model:
    def forward(self, batch):
        time.sleep(0.001)
        return batch

    def __call__(self, batch):
        return self.forward(batch)

class Loader:
    def __init__(self, data):
        self.data = iter(data)

    def __next__(self):
        return next(self.data)

    def __iter__(self):
        return self

def main():
    model, other = Model(), Model()
    for batch in Loader([[1, 2], [3]]):
        model(batch)
        other(batch)
    print("done")

main()
"""


def test_what_a_library_voirfile_asks_for(inject):
    run = inject(
        PROGRAM,
        """
        def instrument_a(ov):
            yield ov.phases.load_script
            ov.region("//Loader/__next__", "io", of=lambda self: self, items=lambda result: len(result))
            ov.region("//Model/__call__", "forward", of=lambda self: self, items=lambda batch: len(batch),
                      phase=lambda: "train", what=lambda self: type(self).__name__ + "!")
            ov.rank(2, 4, local=0)
        """,
    )
    assert (run.exit, run.out) == (0, "done\n"), run.err
    assert run.record["failures"] == []
    rows = [row for row in run.rows() if row[3]["region"] != "wait"]  # it sleeps, too
    assert [row[3]["region"] for row in rows] == ["io", "forward", "forward"] * 2 + ["io.end"]
    assert [unpack(row[2])[0] for row in rows] == [2, 2, 2, 1, 1, 1, 0]
    assert [row[3]["of"] for row in rows] == [1, 2, 3, 1, 2, 3, 1]
    assert {row[3]["what"] for row in rows} == {"Loader", "Model!"}
    texts = [row[3]["place"]["text"] for row in rows[:3]]
    assert texts == ["for batch in Loader([[1, 2], [3]]):", "model(batch)", "other(batch)"]
    assert {row[3]["place"]["function"] for row in rows} == {"main"}
    assert run.fired == {"//Loader/__next__": 3, "//Model/__call__": 4}
    assert run.record["processes"][0]["rank"] == 2
    [process] = run.record["processes"]
    assert process["lost"] == 0


def test_objects(inject):
    run = inject(
        """
        import json, math
        class A:
            def f(self, n):
                return n
        a, b = A(), A()
        for n in range(3):
            a.f(n), b.f(n), json.dumps(n), math.sqrt(n)
        """,
        """
        import json, math
        def instrument_a(ov):
            yield ov.phases.load_script
            ov.region(json.dumps, "dump", items=lambda obj: 1 + obj)
            ov.region(math.sqrt, "root")
            ov.region(json.JSONEncoder.encode, "encode", when=lambda o: o > 1)
        def instrument_bound(ov):
            ov.region("//a/f", "bound", items=lambda n: n)
        """,
    )
    assert run.exit == 0, run.err
    assert run.record["failures"] == []
    assert [unpack(payload)[0] for _, _, payload in run.spans("dump")] == [1, 2, 3]
    assert len(run.spans("root")) == 3
    assert len(run.spans("encode")) == 1
    lines = {row[3]["place"]["line"] for row in run.rows("dump") + run.rows("root")}
    assert lines == {8}


def test_conditions_of_selectors(inject):
    run = inject(
        """
        def f(kind):
            return g(kind)
        def g(kind):
            return kind
        f(1), g(2), f(3), f(1)
        """,
        """
        def instrument_a(ov):
            ov.region("//f(kind=1)", "one", items=lambda kind: kind + 5)
            ov.region("//f > //g", "inside", items=lambda kind: kind)
        """,
    )
    assert run.exit == 0, run.err
    assert run.record["failures"] == []
    assert [unpack(payload)[0] for _, _, payload in run.spans("one")] == [6, 6]
    assert [unpack(payload)[0] for _, _, payload in run.spans("inside")] == [1, 3, 1]
    assert {row[3]["place"]["text"] for row in run.rows("inside")} == {"return g(kind)"}


def test_a_variable_that_an_object_does_not_have_is_bad_input(inject):
    run = inject(
        "print('runs')",
        """
        import json
        def instrument_a(ov):
            yield ov.phases.load_script
            ov.region(json.dumps, "dump", of=lambda model: model)
        """,
    )
    assert run.exit == 2
    assert "dumps has no variable 'model'" in run.err


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("ov.region('//f > x', 'part')", "and calls are those of a function: //f, or //f/x"),
        ("ov.step('//f > #enter')", "name it without what fires, as in //f"),
        ("ov.value('//f > x', get=lambda x: x)", "those of a function: //f, or //f/x"),
        ("ov.region('//f', None)", "region None of '//f': its name is a text that is not empty"),
        ("ov.region('//f', '')", "region '' of '//f': its name is a text that is not empty"),
    ],
)
def test_what_is_no_region_is_bad_input(inject, call, message):
    run = inject("def f(x):\n    return x\nf(3)\n", f"def instrument_a(ov):\n    {call}\n")
    assert run.exit == 2 and message in run.err


def test_a_function_of_the_voirfile_within_another_is_named_by_its_name(inject):
    run = inject(
        "import json\ndef f(x):\n    return json.dumps(x)\nf(3)\njson.dumps(4)\n",
        "from json import dumps\ndef instrument_a(ov):\n    ov.region('//f > dumps', 'dump')\n",
    )
    assert run.exit == 0, run.err
    assert len(run.spans("dump")) == 1


def test_a_variable_that_a_selector_does_not_have_is_a_miss(inject):
    run = inject(
        "def f(x):\n    return x\nprint(f(3))\n",
        'def instrument_a(ov):\n    ov.region("//f", "f", of=lambda model: model)\n',
    )
    assert (run.exit, run.out) == (0, "3\n")
    [miss] = run.record["misses"]
    assert miss["reason"] == "f has no variable model"
    assert run.rows() == []


def test_values_out_of_calls(inject):
    run = inject(
        """
        class Optimizer:
            rate = 0.5
            def step(self, closure=None):
                self.rate /= 2
                return self.rate
        optimizer = Optimizer()
        for _ in range(3):
            optimizer.step()
        """,
        """
        def instrument_a(ov):
            ov.value("//Optimizer/step", "lr", task="train", get=lambda self: self.rate)
            ov.value("//Optimizer/step", "after", get=lambda result, self: result + self.rate)
        """,
    )
    assert run.exit == 0, run.err
    values = run.events("data")
    assert [d["lr"] for d in values if "lr" in d] == [0.5, 0.25, 0.125]
    assert [d["after"] for d in values if "after" in d] == [0.5, 0.25, 0.125]


CHILDREN = """
import multiprocessing, os, sys
import injector

def work(n):
    with injector.region("part"):
        return n

def child(n):
    for _ in range(n):
        work(n)

def main():
    work(0)
    if sys.argv[1] == "fork":
        if os.fork() == 0:
            child(2)
            os._exit(0)
        os.wait()
    else:
        process = multiprocessing.get_context(sys.argv[1]).Process(target=child, args=(2,))
        process.start()
        process.join()
    work(0)

if __name__ == "__main__":
    main()
"""
WORK = 'def instrument_a(ov):\n    ov.region("//work", "work", items=lambda n: n)\n'


def test_forked_children(inject):
    run = inject(CHILDREN, WORK, args=["fork"])
    assert run.exit == 0, run.err
    check_children(run)


def test_spawned_children(inject):
    run = inject(CHILDREN, WORK, args=["spawn"])
    assert run.exit == 0, run.err
    check_children(run)


def check_children(run):
    for region in ("work", "part"):
        assert len(run.rows(region)) == 4
    assert sorted(unpack(row[2])[0] for row in run.rows("work")) == [0, 0, 2, 2]
    logs = {log for log, _ in run.sites}
    assert len(logs) == 2
    assert all(site["place"] for site in run.sites.values())
    assert run.fired == {"//work": 4}


def test_a_fork_in_the_middle(inject):
    run = inject(
        """
        import os
        import injector
        def work(n):
            with injector.region("part"):
                if n == 1:
                    child = os.fork()
                    if child:
                        os.waitpid(child, 0)
            return n
        def main():
            loader = [0, 1, 2]
            for n in loader:
                work(n)
        main()
        """,
        WORK + '    ov.loader("//main > loader", items=1)\n',
    )
    assert run.exit == 0, run.err
    assert run.record["failures"] == []
    by_log = {}
    for log, path in ((log.name[:-4], log.with_suffix(".spans")) for log in run.logs):
        rows = [run.sites[log, row[3]]["region"] for row in spans.read(str(path))]
        by_log[log] = rows
    parent, child = sorted(by_log.values(), key=len, reverse=True)
    parent.remove("wait")  # for the child
    assert parent == ["io", "part", "work", "step"] * 3 + ["io.end"]
    # What was begun before the fork is the parent's.
    assert child == ["io", "part", "work", "step", "io.end"]


def test_a_function_whose_end_cannot_be_seen(inject):
    depth = "".join("    " * (n + 1) + f"for i{n} in [0]:\n" for n in range(20))
    program = "def work(n):\n" + depth + "    " * 21 + "print(n)\nfor n in range(3): work(n)\n"
    run = inject(program, WORK)
    assert (run.exit, run.out) == (0, "0\n1\n2\n")
    assert run.rows() == []
    [miss] = run.record["misses"]
    assert "too deeply for #exit" in miss["reason"]


def test_workers_that_load_data_are_silent(inject):
    pytest.importorskip("torch")
    run = inject(
        """
        import torch, injector
        class Data(torch.utils.data.Dataset):
            def __len__(self):
                return 4
            def __getitem__(self, n):
                with injector.region("item"):
                    return n
        if __name__ == "__main__":
            for batch in torch.utils.data.DataLoader(Data(), num_workers=1):
                pass
        """,
        """
        def instrument_a(ov):
            yield ov.phases.load_script
            ov.region("/torch.utils.data.dataloader/_BaseDataLoaderIter/__next__", "io",
                      of=lambda self: self._dataset, items=lambda result: len(result))
            ov.region("//Data/__getitem__", "item")
        """,
        "--no-auto",
    )
    assert run.exit == 0, run.err
    assert run.record["failures"] == []
    assert run.rows("item") == []
    rows = run.rows("io") + run.rows("io.end")
    assert [row[3]["region"] for row in rows] == ["io"] * 4 + ["io.end"]
    assert {row[3]["of"] for row in rows} == {1}
    assert all("DataLoader(Data()" in row[3]["place"]["text"] for row in rows)


def test_sudden_ends(inject):
    for end in ("os._exit(3)", "os.kill(os.getpid(), 9)", "os.execv('/bin/true', ['true'])"):
        run = inject(
            f"""
            import os
            def work(n):
                return n
            for n in range(1000):
                work(n)
            {end}
            """,
            WORK,
        )
        assert [unpack(row[2])[0] for row in run.rows("work")] == list(range(1000))
        assert len({row[3]["site"] for row in run.rows("work")}) == 1


def test_what_a_region_calls_may_stop_the_program(inject):
    run = inject(
        """
        def work(n):
            return n
        for n in range(10):
            work(n)
        print("never")
        """,
        """
        import injector
        def instrument_a(ov):
            def items(n):
                if n == 5:
                    raise injector.StopProgram
                return n
            ov.region("//work", "work", items=items)
        """,
    )
    assert (run.exit, run.out) == (0, ""), run.err
    assert run.record["stopped"]
    assert [unpack(payload)[0] for _, _, payload in run.spans("work")][:5] == [0, 1, 2, 3, 4]


def test_after_import(inject):
    run = inject(
        "import colorsys\nprint(colorsys.rgb_to_hsv(0, 0, 0))\n",
        """
        def instrument_a(ov):
            ov.after_import("colorsys", lambda module: ov.region(module.rgb_to_hsv, "hsv"))
            ov.after_import("colorsys", lambda module: 1 // 0)
        """,
    )
    assert (run.exit, run.out) == (0, "(0.0, 0.0, 0)\n"), run.err
    assert len(run.spans("hsv")) == 1
    [failure] = run.record["failures"]
    assert failure["where"] == "after_import('colorsys')"
