"""``ov.step`` and ``ov.region`` of a loop: a span for each turn, however the loop is written and left."""

from __future__ import annotations

import textwrap

import pytest

from injector.store.spans import unpack

LOOPS = {
    "for": ("for n in range(6):\n    {}", "n"),
    "unpacked": ("for n, other in zip(range(6), 'abcdef'):\n    {}", "n"),
    "while": ("n = -1\nwhile n < 5:\n    n += 1\n    {}", "n"),
    # It has a seventh turn, which is left at once.
    "endless": ("n = -1\nwhile True:\n    n += 1\n    if n == 6: break\n    {}", "True"),
}
"""Loops of six turns with ``n`` from 0 to 5, as text, and how a selector names them."""
PLACES = {
    "function": ("def {0}():\n{1}\n{0}()", "//{}"),
    "method": ("class {0}:\n    def run(self):\n{2}\n{0}().run()", "//{}/run"),
    "generator": ("def {0}():\n    yield 0\n{1}\nlist({0}())", "//{}"),
    "coroutine": ("async def {0}():\n{1}\nasyncio.run({0}())", "//{}"),
    "inner": ("def {0}():\n    def inner():\n{2}\n    inner()\n{0}()", "//{}/inner"),
}
LEAVING = {
    "left": ("if n == 2: continue\nbatch = 'ab' * n", 6),
    "broken": ("if n == 2: break", 3),
    "caught": ("try:\n    if n == 2: raise ValueError\nexcept ValueError: pass", 6),
    "nested": ("for n in range(2): pass", 6 + 12),
    "raised": ("if n == 4: raise ValueError", 4),
}


def turns(run, task: str) -> list[int]:
    """The items of the steps of one task."""
    assert (run.exit, run.record["failures"]) == (0, []), run.err
    return [unpack(row[2])[0] for row in run.rows("step") if row[3]["task"] == task]


def test_each_turn_is_a_step_with_the_items_that_it_made(inject) -> None:
    program, voirfile = ["import asyncio"], ["def instrument_loops(ov):"]
    for place, (text, function) in PLACES.items():
        for loop, (body, name) in LOOPS.items():
            lines = textwrap.indent(body.format("batch = 'ab' * n"), "    ")
            called = f"{place}_{loop}"
            program.append(text.format(called, lines, textwrap.indent(lines, "    ")))
            selector = f"{function.format(called)} > #loop_{name}"
            voirfile.append(
                f"    ov.step({selector!r}, task={called!r}, items=lambda batch: len(batch), "
                "when=lambda n: n < 6)"
            )
    run = inject("\n".join(program), "\n".join(voirfile))
    for place in PLACES:
        for loop in LOOPS:
            assert turns(run, f"{place}_{loop}") == [0, 2, 4, 6, 8, 10], (place, loop)


def test_a_turn_ends_however_it_is_left_and_is_no_step_where_it_raises(inject) -> None:
    program, voirfile = [], ["def instrument_loops(ov):"]
    for way, (body, _) in LEAVING.items():
        lines = textwrap.indent(body, "        ")
        program.append(f"def {way}():\n    for n in range(6):\n{lines}")
        # In an `except` block each turn has an exception, that of the block.
        program.append(f"try: 1 / 0\nexcept ZeroDivisionError:\n    try: {way}()")
        program.append("    except ValueError: pass")
        voirfile.append(f"    ov.step('//{way} > #loop_n', task={way!r}, items=1)")
    run = inject("\n".join(program), "\n".join(voirfile))
    for way, (_, number) in LEAVING.items():
        assert turns(run, way) == [1] * number, way


MODULE = """
n = 0
while n < 6:
    print(n)
    n += 1
print("end")
"""


def test_stop_ends_the_program_after_so_many_turns(inject) -> None:
    run = inject(MODULE, "def instrument_loop(ov):\n    ov.step('// > #loop_n')\n", "--stop", "3")
    assert (run.exit, run.out) == (0, "0\n1\n2\n"), run.err
    assert len(run.spans("step")) == 3


def test_a_loop_may_be_a_region_within_a_step(inject) -> None:
    run = inject(
        "def train(times):\n    for n in range(times):\n        pass\n\nfor k in range(3): train(k)\n",
        """
        def instrument_loop(ov):
            ov.step("// > #loop_k")
            ov.region("//train(times=2) > #loop_n", "part", phase="eval", items=lambda n: n + 1)
        """,
    )
    assert (run.exit, run.record["failures"]) == (0, []), run.err
    parts = run.rows("part")
    assert [unpack(row[2])[0] for row in parts] == [1, 2]
    assert {(row[3]["phase"], row[3]["place"]["line"]) for row in parts} == {("eval", 2)}
    outer = run.spans("step")[2]
    assert all(outer[0] <= row[0] <= row[1] <= outer[1] for row in parts)


def test_what_raises_costs_its_answer_and_not_the_turn(inject) -> None:
    voirfile = "def instrument_loop(ov):\n    ov.step('// > #loop_n', items=lambda n: 1 / 0)\n"
    run = inject(MODULE, voirfile)
    assert run.out.endswith("end\n") and len(run.record["failures"]) == 1
    assert [row[2] for row in run.spans("step")] == [0] * 6


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("ov.step('//train > #endloop_n')", "a turn is named by its begin, #loop_n"),
        ("ov.step('//train > #loop_n', items=lambda result: 1)", "and no result"),
        ("ov.region('//train > #loop_n', 'part', of=lambda n: n)", "are no functions"),
    ],
)
def test_what_cannot_be_known_of_a_turn_is_a_mistake(inject, call, message) -> None:
    run = inject(MODULE, f"def instrument_loop(ov):\n    {call}\n")
    assert run.exit == 2 and message in run.err
