"""Waits in the standard library: for the batch of a step they are ``io``, else ``wait``."""

from __future__ import annotations

from pathlib import Path

import pytest
from layouts import Program, only, regions, report


@pytest.mark.parametrize("what", ["Queue.get", "Future.result", "recv", "readinto", "get"])
def test_what_gives_something_before_the_model_is_called_gives_the_batch(
    tmp_path: Path, what: str
) -> None:
    p = Program()
    for _ in range(40):
        p.span("wait", 5, what=what)
        p.wait(0.5)
        p.train()
    found = report(tmp_path / "r", p)
    loop = only(found)
    assert regions(loop)["io"] == 5 and "wait" not in regions(loop)
    assert found.verdict.kind == "input-bound"


@pytest.mark.parametrize("what", ["Event.wait", "__enter__", "sleep", "Barrier.wait", "asyncio"])
def test_what_gives_nothing_is_a_wait(tmp_path: Path, what: str) -> None:
    p = Program()
    for _ in range(40):
        p.span("wait", 5, what=what)
        p.train()
    found = report(tmp_path / "r", p)
    assert regions(only(found))["wait"] == 5
    assert found.verdict.kind == ("overhead-bound" if what == "sleep" else "wait-bound")


def test_what_comes_after_the_model_was_called_is_no_batch(tmp_path: Path) -> None:
    p = Program()
    for _ in range(40):
        p.forward()
        p.span("wait", 5, what="Future.result")
        p.backward()
        p.update()
    assert regions(only(report(tmp_path / "r", p)))["wait"] == 5


@pytest.mark.parametrize("region", ["io", "comm", "env", "forward", "augment"])
def test_what_is_waited_for_in_a_region_is_a_part_of_it(tmp_path: Path, region: str) -> None:
    p = Program()
    for _ in range(40):
        with p.around(region, **({"of": 1} if region == "io" else {})):
            p.span("wait", 3, what="Queue.get")
        p.train()
    p.dry()
    loop = only(report(tmp_path / "r", p))
    assert regions(loop)[region] == (5 if region == "forward" else 3)
    assert not any(node.children for node in loop.tree.children)
