"""``inject plot``: what is put together, and that each form shows it, with every name as text."""

from __future__ import annotations

import json
import sys
import xml.etree.ElementTree as ET
from html.parser import HTMLParser
from pathlib import Path

import pytest

from injector import cli
from injector.errors import UserError
from injector.plot.chart import chart, columns
from injector.plot.drawing import render

sys.path.insert(0, str(Path(__file__).parents[1] / "suite"))
from suitefolders import SuiteFolder

ROWS = [
    {"framework": name, "devices": n, "throughput": rate * factor}
    for name, factor in (("mxnet", 1.0), ("caffe2", 2.0))
    for n, rates in ((4, (60.0, 62.0)), (1, (17.0, 19.0)))
    for rate in rates
]
EVIL = '</text><script>alert(1)</script> $x_1$ & "q" _hidden'


def test_rows_of_one_place_are_one_dot_of_their_line():
    found = chart(ROWS, "devices", "throughput", ["framework"])
    assert [line.name for line in found.lines] == ["mxnet", "caffe2"]
    first, last = found.lines[0].dots
    assert (first.x, first.y, first.n, last.x, last.y) == (1, 18, 2, 4, 61)
    assert first.below == first.above == pytest.approx(2**0.5)
    assert found.y.label == "mean of throughput, items/s" and found.x.label == "devices"
    ranged = chart(ROWS, "devices", "throughput", ["framework"], "max", "range").lines[0].dots[0]
    assert (ranged.y, ranged.below, ranged.above) == (19, 2, 0)
    sem = chart(ROWS, "devices", "throughput", ["framework"], error="sem").lines[0].dots[0]
    assert sem.above == pytest.approx(1)


def test_units_come_from_the_registry_and_are_converted_for_the_eye():
    rows = [{"devices": 1, "step_time": 0.25, "peak_memory": 3e9}]
    assert chart(rows, "devices", "step_time").lines[0].dots[0].y == 250
    found = chart(rows, "step_time", "peak_memory")
    assert (found.x.label, found.y.label) == ("step_time, ms", "peak_memory, GB")
    assert found.lines[0].dots[0][:2] == (250, 3)


def test_what_is_no_number_makes_categories():
    found = chart(ROWS, "framework", "throughput")
    assert found.categories == ("mxnet", "caffe2")
    assert columns(found)["framework"] == ["mxnet", "caffe2"]


@pytest.mark.parametrize(
    ("how", "why"),
    [
        ({"x": "nodes"}, "rows has nodes; there are devices, framework, throughput"),
        ({"y": "framework"}, "is no number"),
        ({"x": "framework", "log": "x"}, "framework is no number"),
    ],
)
def test_what_cannot_be_plotted(how, why):
    with pytest.raises(UserError, match=why):
        chart(ROWS, **{"x": "devices", "y": "throughput", **how})
    with pytest.raises(UserError, match="not above 0"):
        chart([{"a": 0, "b": 1}], "a", "b", log="x")


class Texts(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.texts: list[str] = []

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)

    def handle_data(self, data):
        self.texts.append(data)


@pytest.fixture(scope="module")
def evil():
    pytest.importorskip("matplotlib")
    rows = [{**row, "framework": EVIL + row["framework"]} for row in ROWS]
    return chart(rows, "devices", "throughput", ["framework"], title=EVIL, log="xy")


def test_svg_and_png(evil):
    drawn = render(evil, "svg")
    assert drawn == render(evil, "svg"), "the same chart is the same file"
    texts = [
        "".join(each.itertext())
        for each in ET.fromstring(drawn).iter()
        if each.tag.endswith("text")
    ]
    assert EVIL in texts and "mean of throughput, items/s" in texts and EVIL + "mxnet" in texts
    png = render(evil, "png")
    assert png[:8] == b"\x89PNG\r\n\x1a\n" and len(png) > 10_000


def test_a_page_without_scripts_in_which_all_is_text(evil):
    page = render(evil, "html").decode()
    parser = Texts()
    parser.feed(page)
    assert "script" not in parser.tags and "svg" in parser.tags and "table" in parser.tags
    assert EVIL in parser.texts and "#010203" not in page and "currentColor" in page
    assert "http" not in page.replace("http://www.w3.org", "").replace(
        "https://matplotlib.org", ""
    ).replace("http://purl.org", "").replace(
        "http://creativecommons.org", ""
    )  # names of XML, not fetched


def test_on_a_terminal(evil):
    pytest.importorskip("uniplot")
    text = render(chart(ROWS, "devices", "throughput", ["framework"]), "terminal").decode()
    assert "throughput over devices" in text and "mxnet" in text and "┌" in text
    assert "+" in text and "o" in text, "lines without colours have signs"
    assert text.splitlines()[-1].split()[0] == "caffe2"


def suite(path: Path, name: str = "toy") -> str:
    made = SuiteFolder(path / f"{name}.2026-11-24_16-00-00.000000", name)
    for framework, factor in (("mxnet", 1), ("caffe2", 2)):
        for gpus, rate in (("0", 17.0), ("0,1", 31.0)):
            key = f"{framework}-{gpus}"
            made.benchmark(key, family="train")
            made.plan["benchmarks"][key]["values"] = {"exp.framework": framework, "exp.gpus": gpus}
            devices = [f"cpu:{n}" for n in range(len(gpus.split(",")))]
            for repeat in range(2):
                made.process(key, [rate * factor + repeat] * 5, repeat=repeat, devices=devices)
    made.process("broken", [5.0] * 5, code=1)
    return str(made.write())


def test_suites_and_folders_of_them_by_the_command_line(tmp_path, capsys):
    one, two = suite(tmp_path / "runs"), suite(tmp_path / "runs", "other")
    words = [
        "plot",
        "--x",
        "devices",
        "--y",
        "perf",
        "--series",
        "exp.framework",
        "--format",
        "json",
    ]
    assert cli.main([*words, one]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [(row["series"], row["devices"], row["n"]) for row in found] == [
        ("mxnet", 1, 2), ("mxnet", 2, 2), ("caffe2", 1, 2), ("caffe2", 2, 2)
    ]  # fmt: skip
    assert [row["mean of perf, items/s"] for row in found] == [17.5, 31.5, 34.5, 62.5]
    assert (
        cli.main([*words, str(tmp_path / "runs"), "--where", "suite == 'other' and devices > 1"])
        == 0
    )
    assert [row["devices"] for row in json.loads(capsys.readouterr().out)] == [2, 2]
    # A run alone is a row as well.
    run = str(next(Path(one, "jobs").glob("mxnet-0.R0*")))
    assert cli.main(["plot", run, two, "--x", "benchmark", "--y", "perf", "--format", "csv"]) == 0
    assert capsys.readouterr().out.count("\n") == 6
    file = tmp_path / "chart.svg"
    assert cli.main([*words[:-2], one, "-o", str(file)]) == 0
    assert file.read_bytes().startswith(b"<?xml")


def test_a_run_that_was_not_collected_is_named(tmp_path, capsys):
    run = next(Path(suite(tmp_path), "jobs").glob("mxnet-0.R0*"))
    words = ["plot", str(run), "--x", "benchmark", "--y", "perf", "--format", "csv"]
    assert cli.main(words) == 0 and capsys.readouterr().err == ""
    (run / "run.json").unlink()
    assert cli.main(words) == 1
    assert f"inject: {run.name}: there is no run.json: the run goes on" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("--x", "devices", "--y", "speed"), "nothing to plot: none of 8 rows has speed"),
        (("--x", "devices", "--y", "perf", "--series", "exp.frame"), "did you mean exp.framework?"),
        (("--x", "devices", "--y", "perf", "--where", "devices >"), "--where devices >"),
        (
            ("--x", "devices", "--y", "perf", "--where", "devices > 9"),
            "> 9 holds for none of 8 rows",
        ),
        (("--x", "devices", "--y", "perf", "-o", "x.pdf"), "no format of that suffix"),
        (("--x", "devices", "--y", "perf", "--format", "png"), "needs a file"),
    ],
)
def test_bad_input(tmp_path, capsys, words, why):
    assert cli.main(["plot", suite(tmp_path), *words]) == 2
    assert why in capsys.readouterr().err
    assert cli.main(["plot", str(tmp_path / "none"), *words[:4]]) == 2
