"""What a hooked function leaves behind: spans, nested and told apart as they were."""

from __future__ import annotations

import asyncio
import gc
import threading
import time
from itertools import pairwise

import pytest

from injector.errors import UserError
from injector.measure.regions import Region, RegionHooks
from injector.store.spans import unpack

PLAIN = """
def work(x=None):
    try:
        ENTER
        return VALUE(x)#
    except BaseException:
        ERROR
        raise
    finally:
        EXIT
"""
NESTED = """
def work(depth, self=None):
    try:
        ENTER
        if depth:
            work(depth - 1, self)
        return None
    finally:
        EXIT
"""


def test_a_call_is_a_row(measured):
    work = measured.function(PLAIN, "forward")
    for _ in range(3):
        assert work(7) == 7
    line = test_a_call_is_a_row.__code__.co_firstlineno + 3
    rows = measured.rows()
    assert len(rows) == 3
    assert all(0 < start <= end for start, end, _, _ in rows)
    assert [end for _, end, _, _ in rows] == sorted(end for _, end, _, _ in rows)
    [site] = {row[3]["site"]: row[3] for row in rows}.values()
    assert site == {
        "site": 1,
        "region": "forward",
        "clock": "host",
        "thread": 0,
        "place": {
            "file": __file__,
            "line": line,
            "function": site["place"]["function"],
            "text": "assert work(7) == 7",
        },
        "of": None,
        "what": None,
        "phase": None,
        "task": None,
        "payload": None,
        "selector": "//forward",
        "device": None,
    }
    assert site["place"]["function"].endswith("test_a_call_is_a_row")


def test_two_lines_are_two_sites(measured):
    work = measured.function(PLAIN, "forward")
    for _ in range(2):
        work()
        work()
    sites = [row[3] for row in measured.rows()]
    assert [site["site"] for site in sites] == [1, 2, 1, 2]
    assert sites[1]["place"]["line"] == sites[0]["place"]["line"] + 1


def test_recursion_nests(measured):
    work = measured.function(NESTED, "forward")
    work(3)
    rows = measured.rows()
    assert len(rows) == 4
    for inner, outer in pairwise(rows):
        assert outer[0] <= inner[0] and inner[1] <= outer[1]
    # The function itself lies in a library: what it calls belongs to the line that called it.
    assert {row[3]["place"]["text"] for row in rows} == {"work(3)"}


def test_outermost(measured):
    work = measured.function(NESTED, "forward", outermost=True)
    other = measured.function(PLAIN, "forward", outermost=True)
    alone = measured.function(PLAIN, "backward", outermost=True)
    work(5)
    other()
    assert len(measured.rows()) == 2
    outer = measured.function(
        """
        def outer(inner, alone):
            try:
                ENTER
                inner(2)
                return alone()
            finally:
                EXIT
        """,
        "forward",
    )
    outer(work, alone)
    assert [row[3]["region"] for row in measured.rows()[2:]] == ["backward", "forward"]


HOLDS = """
    def holds(*calls):
        try:
            ENTER
            for call in calls:
                call()
        finally:
            EXIT
    """


def test_a_call_that_holds_a_loop_is_none_and_what_it_calls_is(measured):
    """A trainer that is a module: its call is no forward, those of its model are, from the second turn on."""
    model = measured.function(PLAIN, "forward", outermost=True)
    update = measured.function(PLAIN, "optimizer", outermost=True, splits="forward")
    around = measured.function(HOLDS, "forward", outermost=True, of=lambda: measured)
    around(*[model, update] * 3)
    assert [row[3]["region"] for row in measured.rows()] == [
        *["optimizer"] * 2,
        "forward",
        "optimizer",
    ]
    for _ in range(2):
        around(model, update)  # of another line: that it holds a loop is not known
    assert [row[3]["region"] for row in measured.rows()[4:]] == ["optimizer", "forward"] * 2
    for _ in range(2):
        around(*[model, update] * 2)  # from the second time on it is known
    found = [row[3]["region"] for row in measured.rows()[8:]]
    assert found == ["optimizer"] * 2 + ["forward", "optimizer"] * 2
    assert measured.failures == []


def test_an_update_of_another_thread_splits_no_call(measured):
    model = measured.function(PLAIN, "forward", outermost=True)
    update = measured.function(PLAIN, "optimizer", splits="forward")

    def elsewhere():
        thread = threading.Thread(target=lambda: [update(), update()])
        thread.start()
        thread.join()

    measured.function(HOLDS, "forward", outermost=True)(elsewhere, model)
    assert [row[3]["region"] for row in measured.rows()] == [*["optimizer"] * 2, "forward"]


def test_while_a_batch_is_made_no_model_is_at_work(measured):
    fetch = measured.function(
        """
        def fetch(inner, plain):
            try:
                ENTER
                inner()
                plain()
            finally:
                EXIT
        """,
        "io",
    )
    transform = measured.function(PLAIN, "forward", outermost=True)
    asked = measured.function(PLAIN, "forward")
    fetch(transform, asked)
    transform()
    assert [row[3]["region"] for row in measured.rows()] == ["forward", "io", "forward"]
    around = measured.function(
        """
        def around(fetch, inner, plain):
            try:
                ENTER
                fetch(inner, plain)
            finally:
                EXIT
        """,
        "forward",
        outermost=True,
    )
    around(fetch, transform, asked)
    assert [row[3]["region"] for row in measured.rows()[3:]] == ["forward", "io", "forward"]


def test_what_does_not_count_is_no_level(measured):
    work = measured.function(NESTED, "forward", outermost=True, when=lambda self, depth: depth < 3)
    work(4)  # 4 and 3 do not count, 2 does, 1 and 0 lie inside
    assert len(measured.rows()) == 1
    work(2)
    work(4)
    assert len(measured.rows()) == 3
    assert measured.failures == []


def test_not_counting_inside_does_not_end_it(measured):
    work = measured.function(
        NESTED, "forward", outermost=True, when=lambda depth: depth in (4, 2, 1, 0)
    )
    work(4)
    assert len(measured.rows()) == 1


def test_exceptions_end_spans(measured):
    text = PLAIN.replace("return VALUE(x)#", "raise x")
    forward, fetch = measured.function(text, "forward"), measured.function(text, "io")
    for error in (ValueError("a"), KeyboardInterrupt()):
        with pytest.raises(type(error)):
            forward(error)
    with pytest.raises(StopIteration):
        fetch(StopIteration())
    assert [row[3]["region"] for row in measured.rows()] == ["forward", "forward", "io.end"]
    with pytest.raises(RuntimeError):
        measured.function(text, "step")(RuntimeError())
    assert not measured.rows("step"), "a step that raises is none"
    again = measured.function(PLAIN, "io")
    again()
    assert measured.rows()[-1][3]["region"] == "io"


def test_payloads(measured):
    measured.function(PLAIN, "a", items=5)()
    measured.function(PLAIN, "b", items=lambda x: len(x), tokens=lambda x: 100 * len(x))("abc")
    measured.function(PLAIN, "c", nbytes=lambda x: x)(1 << 40)
    measured.function(PLAIN, "d", items=lambda result: result)(9)
    measured.function(PLAIN, "e", items=lambda x: None)()
    measured.function(PLAIN, "f", items=lambda x: 1 << 60, tokens=lambda x: 1 << 60)()
    measured.function(PLAIN, "g", items=lambda _, k=3: k)()
    rows = measured.rows()
    assert unpack(rows[0][2]) == (5, 0)
    assert unpack(rows[1][2]) == (3, 300)
    assert rows[2][2] == 1 << 40 and rows[2][3]["payload"] == "bytes"
    assert unpack(rows[3][2]) == (9, 0) and rows[3][3]["payload"] == "items"
    assert rows[4][2] == 0
    assert unpack(rows[5][2]) == ((1 << 24) - 1, (1 << 32) - 1)
    assert unpack(rows[6][2]) == (3, 0)


def test_items_of_nothing_are_those_at_the_end(measured):
    counted = [1]
    text = """
        def work():
            try:
                ENTER
                count()
                return VALUE(None)#
            finally:
                EXIT
        """
    work = measured.function(text, "train", items=lambda: counted[0], tokens=lambda _: 5)
    work.__globals__["count"] = lambda: counted.append(counted.pop() + 6)
    work()
    work()
    assert [unpack(row[2]) for row in measured.rows()] == [(7, 5), (13, 5)]


class Thing:
    pass


def test_objects_have_numbers(measured):
    work = measured.function(
        PLAIN, "io", of=lambda x: x, what=lambda x: "a " + type(x).__name__, phase=lambda x: "train"
    )
    first, second = Thing(), Thing()
    for thing in (first, second, first, None):
        work(thing)
    sites = [row[3] for row in measured.rows()]
    assert [site["of"] for site in sites] == [1, 2, 1, None]
    assert {site["what"] for site in sites[:3]} == {"a Thing"}
    assert {site["phase"] for site in sites} == {"train"}


def test_objects_are_not_kept_alive_nor_mistaken(measured):
    work = measured.function(PLAIN, "io", of=lambda x: x)
    numbers = []
    for _ in range(20):
        work(Thing())  # most probably at the same address each time
        numbers.append(measured.rows()[-1][3]["of"])
    gc.collect()
    assert not [found for found in gc.get_objects() if type(found) is Thing]
    assert numbers == list(range(1, 21))


def test_phases_are_kept_apart(measured):
    work = measured.function(PLAIN, "forward", phase=lambda x: x)
    for phase in ("train", "eval", "train"):
        work(phase)
    assert [row[3]["phase"] for row in measured.rows()] == ["train", "eval", "train"]


def test_the_result_decides(measured):
    work = measured.function(
        PLAIN,
        "forward",
        of=lambda result: result,
        when=lambda result: result is not None,
        items=lambda x, result: 4 if x is result else 0,
    )
    thing = Thing()
    work(thing)
    work(None)
    [(_, _, payload, site)] = measured.rows()
    assert (payload, site["of"], site["what"]) == (4, 1, "Thing")


def test_what_is_asked_beside_the_result_gets_the_same_variables_at_the_begin(measured):
    """The site is found when the call begins, and once more when it has ended."""
    asked = []
    work = measured.function(
        PLAIN,
        "forward",
        when=lambda x: x,
        of=lambda result, x: result,
        what=lambda x: asked.append(x) or f"what {x.number}",
    )
    thing = Thing()
    thing.number = 3
    work(thing)
    assert asked == [thing, thing] and measured.failures == []
    [(*_, site)] = measured.rows()
    assert (site["of"], site["what"]) == (1, "what 3")


def test_a_function_that_raises_costs_its_answer_only(measured):
    def bad(x):
        raise KeyError("bad")

    for message in ({"items": bad}, {"of": bad}, {"phase": bad}, {"when": bad}):
        work = measured.function(PLAIN, "forward", **message)
        assert [work(n) for n in range(3)] == [0, 1, 2]
    late = measured.function(PLAIN, "forward", items=lambda result: 1 // 0)
    assert late(5) == 5
    assert [type(error) for error in measured.failures] == [KeyError] * 4 + [ZeroDivisionError]
    assert len(measured.rows()) == 13


def test_functions_that_cannot_be_called():
    with pytest.raises(TypeError, match="does not say what its parameters are called"):
        Region("x", items=len)


def test_a_variable_that_is_none(measured):
    hooks = RegionHooks(Region("x", of=lambda model: model), measured.spans)
    with pytest.raises(UserError, match=r"region 'x': check has no variable 'model'"):

        def check(self):
            pass

        hooks.check(check)
    hooks.check(len)  # nobody knows


def test_threads_have_stacks_of_their_own(measured):
    work = measured.function(NESTED, "forward", outermost=True)
    barrier = threading.Barrier(4)
    text = PLAIN.replace("return VALUE(x)#", "x.wait(60); return work(3)")
    slow = measured.function(text, "slow")
    slow.__globals__["work"] = work
    threads = [threading.Thread(target=slow, args=(barrier,)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    rows = measured.rows()
    assert len(rows) == 8
    assert {row[3]["thread"] for row in rows} == {0, 1, 2, 3}
    for thread in range(4):
        inner, outer = (row for row in rows if row[3]["thread"] == thread)
        assert (inner[3]["region"], outer[3]["region"]) == ("forward", "slow")
        assert outer[0] <= inner[0] and inner[1] <= outer[1]


def test_a_thread_that_no_one_called(measured):
    import _thread

    done = threading.Event()
    work = measured.function(PLAIN.replace("return VALUE(x)#", "return 0"), "forward")
    asking = measured.function(PLAIN.replace("return VALUE(x)#", "x.set()"), "other", items=1)
    _thread.start_new_thread(work, ())
    _thread.start_new_thread(asking, (done,))
    assert done.wait(60)
    for _ in range(600):
        if len(measured.rows()) == 2:
            break
        time.sleep(0.1)
    assert [row[3]["place"] for row in measured.rows()] == [None, None]
    assert measured.failures == []


GENERATOR = """
def work(n):
    try:
        ENTER
        for i in range(n):
            yield i
        return
    finally:
        EXIT
"""


def test_generators_do_not_nest(measured):
    work = measured.function(GENERATOR, "draw", of=lambda n: None)
    plain = measured.function(NESTED, "draw", outermost=True)
    first, second = work(2), work(3)
    assert (next(first), next(second)) == (0, 0)
    plain(2)
    assert list(first) == [1]
    plain(2)
    second.close()
    unstarted = work(1)
    del unstarted
    forgotten = work(1)
    next(forgotten)
    del forgotten
    gc.collect()
    rows = measured.rows()
    assert [row[3]["selector"] for row in rows] == ["//draw"] * 5
    opened = [rows[1], rows[3]]
    assert opened[0][0] < opened[1][0] < opened[0][1] < opened[1][1]
    assert measured.failures == []


def test_coroutines_overlap(measured):
    text = """
    async def work(n):
        import asyncio
        try:
            ENTER
            for _ in range(n):
                await asyncio.sleep(0)
            return n
        finally:
            EXIT
    """
    work = measured.function(text, "request", items=lambda n: n)

    async def main():
        return await asyncio.gather(work(1), work(3), work(2))

    assert asyncio.run(main()) == [1, 3, 2]
    assert sorted(unpack(row[2])[0] for row in measured.rows()) == [1, 2, 3]
    assert measured.failures == []


def test_an_end_without_a_begin(measured):
    work = measured.function(PLAIN.replace("ENTER", "pass"), "forward")
    outer = measured.function(PLAIN.replace("return VALUE(x)#", "return x()"), "forward")
    assert work(1) == 1
    assert outer(work) is None
    assert [row[3]["region"] for row in measured.rows()] == ["forward"]


def test_a_begin_without_an_end(measured):
    lost = measured.function(PLAIN.replace("EXIT", "pass"), "forward")
    outer = measured.function(PLAIN.replace("return VALUE(x)#", "return x()"), "forward")
    outer(lost)
    outer(lambda: None)
    assert len(measured.rows()) == 2
    assert not measured.spans.calls.stacks("forward").stack


def test_many_objects_do_not_grow_without_bound(measured, monkeypatch):
    from injector.measure import sites
    from injector.probe import calls

    monkeypatch.setattr(sites, "MOST", 10)
    monkeypatch.setattr(calls, "_MOST_PLACES", 5)
    work = measured.function(PLAIN, "io", of=lambda x: x)
    things = [Thing() for _ in range(30)]
    for thing in things:
        work(thing)
    rows = measured.rows()
    assert len(rows) == 30
    assert [row[3]["of"] for row in rows] == [*range(1, 11)] + [None] * 20
