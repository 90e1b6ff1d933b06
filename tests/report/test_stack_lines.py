from __future__ import annotations

import pytest

from injector.analysis.profile import LoopSamples, RegionSamples, SampledLine, StackNode
from injector.report.stack_lines import rows_of
from injector.store.call_sites import SourceLine


@pytest.mark.parametrize(
    ("in_inner", "text"),
    [(80, "in f (m.py:3)"), (78, "in f (m.py:3)"), (30, "37.5 % of them in f (m.py:3)")],
)
def test_the_function_below_a_line_has_its_part_of_the_samples(in_inner: int, text: str) -> None:
    place = SourceLine("train.py", 7, "main", "loss = f(x)")
    line = SampledLine(place, 80, "f (m.py:3)", in_inner)
    regions = (RegionSamples("forward", 0.5, 80, (line,)),)
    loop = LoopSamples("train", place, 80, 1, regions, StackNode("step", 80, ()))
    [row] = rows_of(loop)
    assert row.line == f"train.py:7  loss = f(x)   {text}"
