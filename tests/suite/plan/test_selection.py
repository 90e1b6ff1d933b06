"""--select and --exclude."""

from __future__ import annotations

from pathlib import Path

import pytest

from injector.suite.config.model import Benchmark, Suite
from injector.suite.config.problems import SuiteError, Where
from injector.suite.plan.selection import select_benchmarks


def benchmark(name, *tags, family="", **settings):
    return Benchmark(
        name, Where("s.yaml", 1, name), {"tags": list(tags), **settings}, family or name
    )


SUITE = Suite(
    "s",
    Path("s.yaml"),
    (
        benchmark("resnet50", "vision", "conv", group="torchvision", install_group="torch"),
        benchmark("vit", "vision", "transformer", group="torchvision", install_group="torch"),
        benchmark("bert", "nlp", "transformer", definition="/x/huggingface"),
        benchmark("grid-1", "nlp", family="grid"),
        benchmark("grid-2", "nlp", family="grid"),
        benchmark("off", "vision", "old", enabled=False),
    ),
)


def names(select=(), exclude=()):
    return " ".join(each.name for each in select_benchmarks(SUITE, select, exclude).benchmarks)


@pytest.mark.parametrize(
    ("select", "exclude", "expected"),
    [
        ([], [], "resnet50 vit bert grid-1 grid-2"),
        (["resnet50"], [], "resnet50"),
        (["vision"], [], "resnet50 vit"),
        (["torchvision"], ["vit"], "resnet50"),
        (["torch"], [], "resnet50 vit"),
        (["huggingface"], [], "bert"),
        (["grid"], [], "grid-1 grid-2"),
        (["grid-*", "b?rt"], [], "bert grid-1 grid-2"),
        (["[rv]*"], [], "resnet50 vit"),
        (["resnet50,bert"], [], "resnet50 bert"),
        (["transformer and vision"], [], "vit"),
        (["transformer and not vision"], [], "bert"),
        (["not transformer"], [], "resnet50 grid-1 grid-2"),
        (["not (vision or nlp) or bert"], [], "bert"),
        (["vision and conv or bert"], [], "resnet50 bert"),
        (["vision AND (conv OR bert)"], [], "resnet50"),
        (["not not vit"], [], "vit"),
        (["tag:vision"], [], "resnet50 vit"),
        (["group:torch*"], [], "resnet50 vit"),
        (["definition:hugging*"], [], "bert"),
        (["entry:grid"], [], "grid-1 grid-2"),
        (["name:vit"], [], "vit"),
        (["*"], ["nlp"], "resnet50 vit"),
        ([], ["vision", "grid-1"], "bert grid-2"),
    ],
)
def test_what_is_chosen(select, exclude, expected):
    assert names(select, exclude) == expected


@pytest.mark.parametrize(
    ("select", "exclude", "message"),
    [
        (
            ["resnt50"],
            [],
            "--select resnt50: no benchmark has the name, group or tag resnt50; did you mean resnet50?",
        ),
        (
            [],
            ["visoin"],
            "--exclude visoin: no benchmark has the name, group or tag visoin; did you mean vision?",
        ),
        (["tag:bert"], [], "no benchmark has tag bert"),
        (["tga:nlp"], [], "tga: is nothing to select by; did you mean tag?"),
        (["vision and"], [], "cannot be read: and, or, not and commas join words"),
        (["(vision"], [], "cannot be read: and, or, not and commas join words"),
        (["vision nlp"], [], "cannot be read: and, or, not and commas join words"),
        ([""], [], "cannot be read: and, or, not and commas join words"),
        ([")"], [], "cannot be read: and, or, not and commas join words"),
        (["off"], [], "selects only what is not enabled (off): --override off.enabled=true"),
        (["vision and nlp"], [], "nothing is left of the suite"),
        ([], ["*"], "nothing is left of the suite"),
    ],
)
def test_what_chooses_nothing(select, exclude, message):
    with pytest.raises(SuiteError) as caught:
        select_benchmarks(SUITE, select, exclude)
    assert message in str(caught.value)


def test_every_mistake_is_reported():
    with pytest.raises(SuiteError) as caught:
        select_benchmarks(SUITE, ["a1 or b2"], ["c3"])
    assert [line.split(":")[0] for line in str(caught.value).splitlines()] == [
        *["--select a1 or b2"] * 2,
        "--exclude c3",
    ]


def test_a_suite_of_nothing_enabled():
    with pytest.raises(SuiteError, match="no benchmark of it is enabled"):
        select_benchmarks(Suite("s", Path("s.yaml"), (SUITE.benchmarks[-1],)))
