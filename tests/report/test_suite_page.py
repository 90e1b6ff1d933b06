"""The page of a suite, in a real browser, with the pages of its runs beside it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from large_run import write_large_run

sys.path.append(str(Path(__file__).parents[1] / "suite"))
from suitefolders import SuiteFolder, state, write_monitor

from injector.cli import main

pytestmark = pytest.mark.xdist_group("browser")

EVIL = (
    "</script><script>window.owned = 1<\\script><img src=x onerror='window.owned = 1'>{{ 7 * 7 }}"
)
ROWS = (
    "[...document.querySelectorAll('#%s tbody tr')].filter(row => !row.hidden)"
    ".map(row => [...row.cells].map(cell => cell.textContent))"
)


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """A suite that has all a page shows, moved after it was written."""
    base = tmp_path_factory.mktemp("suite")
    made = SuiteFolder(base / "toy.2026-01-01_10-00-00.000001")
    made.plan["machine"].update(devices=[{"key": "cuda:0", "name": EVIL, "memory": 80e9}] * 2)
    made.benchmark("vision", weight=2)
    for slot, rates in enumerate(([10.0, 11, 12, 13, 14, 60], [20.0, 21, 22, 23, 24, 60])):
        made.process("vision", rates, slot=slot, devices=[f"cuda:{slot}"], packages={"torch": EVIL},
                     losses=[1.0] * 9 + [2.0] * 9)  # fmt: skip
        write_monitor(made.path / "jobs" / f"vision.R0.D{slot}", [[state(0.5), state(0.9)]])
    made.process(EVIL, [], code=1, stderr=f"Traceback (most recent call last):\n{EVIL}: {EVIL}\n")
    for name, mean in (("bert", 3.0), ("llama", 900.0)):
        made.process(name, [mean] * 6)
    for number in (1, 2):
        made.benchmark(f"ddp-{number}", family="ddp", tags=["weak"])
        key = made.process(f"ddp-{number}", devices=[f"cuda:{n}" for n in range(number)])
        (made.path / "jobs" / key / "x.D0.data").unlink()
        write_large_run(made.path / "jobs" / key, 30, number, started=1.8e9,
                        exit={"code": 0, "signal": None})  # fmt: skip
    made.leave_out("big", EVIL)
    folder = made.write()
    assert main(["suite", "report", str(folder), "-o", str(base / "a" / "x.html")]) == 2
    (base / "a").mkdir()
    assert main(["suite", "report", str(folder), "-o", str(base / "a" / "x.html")]) == 0
    return (base / "a").rename(base / "b") / "x.html"


def test_what_failed_stands_first_and_links_lead_to_the_pages_of_runs(browser, written):
    browser.opened(written)
    assert browser.ask("document.querySelector('.sentence').textContent").startswith("FAIL: 1 of 7")
    order = browser.ask("[...document.querySelectorAll('main section')].map(each => each.id)")
    assert order[:5] == ["result", "failures", "warnings", "benchmarks", "slots"]
    rows = browser.ask(ROWS % "benchmarks")
    assert [row[0] for row in rows] == [EVIL, "vision", "bert", "llama", "ddp-1", "ddp-2"]
    assert rows[0][-1].startswith("error: exit code 1")
    assert browser.ask(ROWS % "slots") == [["vision", "12.50 -28.6 %", "22.50 +28.6 %"]]
    link = browser.ask("document.querySelector('#failures a').href")
    assert "/b/x.runs/" in link
    browser.open(link)
    browser.until(lambda: browser.ask("document.querySelector('h1')?.textContent") == "x")
    assert browser.errors() == []


def test_its_tables_are_searched_and_sorted(browser, written):
    browser.opened(written)
    find = "(() => { const i = document.querySelector('#benchmarks input'); i.value = '%s';"
    find += " i.dispatchEvent(new Event('input')) })()"
    browser.ask(find % "DDP")
    assert [row[0] for row in browser.ask(ROWS % "benchmarks")] == ["ddp-1", "ddp-2"]
    browser.ask(find % "")
    heads = "[...document.querySelectorAll('#benchmarks thead button')]"
    browser.ask(f"{heads}.find(each => each.textContent === 'perf').click()")
    perfs = [row[4] for row in browser.ask(ROWS % "benchmarks")]
    assert perfs[-1] == "–", "what has no figure stands last"
    assert sorted(map(float, perfs[:-1]), reverse=True) == [*map(float, perfs[:-1])]


def test_how_it_scales_is_a_table_and_a_plot(browser, written):
    browser.opened(written)
    assert [row[0] for row in browser.ask(ROWS % "scaling0")] == ["1", "2"]
    words = browser.ask("document.querySelector('#speedup0 [role=img]').ariaLabel")
    assert words.startswith("speedup over devices. measured: from 1 × to ") and "ideal" in words


@pytest.mark.parametrize(
    ("words", "held"),
    [
        (("--scaling", "strong"), ("ddp, strong scaling", "speedup0", "efficiency %")),
        (("--scaling", "weak", "--target", "step_time"), ("ddp, weak scaling", "step, ms")),
        (("--target", "perf"), ("Benchmarks by perf", "perf, items/s")),
    ],
)
def test_a_page_has_the_tables_that_are_wanted_beside_the_report(written, capsys, words, held):
    [folder] = written.parents[1].glob("toy.*")
    assert main(["suite", "report", str(folder), "--format", "html", *words]) == 0
    text = capsys.readouterr().out
    assert [each for each in (*held, ">Benchmarks</h2>", ">Runs</h2>") if each not in text] == []
    assert main(["suite", "report", str(folder), "--format", "html", "--target", "nothing"]) == 2


@pytest.mark.parametrize(("width", "scheme"), [(400, "dark"), (1600, "light")])
def test_it_fits_every_screen_and_every_reader(browser, axe, written, width, scheme):
    browser.look(scheme, width)
    browser.opened(written)
    assert browser.ask("document.documentElement.scrollWidth") <= width
    assert browser.violations(axe) == []
    browser.look()


def test_nothing_that_a_suite_says_is_markup_or_code(browser, written):
    browser.opened(written)
    assert browser.ask(
        "window.owned === undefined && !document.querySelector('main img, main script')"
    )
    assert browser.ask("document.body.textContent").count("onerror") > 8
    assert ">49<" not in written.read_text()
    urls = [each["request"]["url"] for each in browser.events_of("Network.requestWillBeSent")]
    assert [url for url in urls if not url.startswith(("file:", "data:"))] == []
    assert browser.errors() == []


def test_each_run_has_a_page_of_its_own(tmp_path, capsys):
    """Where two keys make the same name of a file, too."""
    made = SuiteFolder(tmp_path / "toy")
    for name in ("a/b", "a_b"):
        made.process(name, [1.0] * 6)
    output = tmp_path / "x.html"
    assert main(["suite", "report", str(made.write()), "-o", str(output)]) == 0
    assert len(list((tmp_path / "x.runs").iterdir())) == 2


def test_without_a_file_there_are_no_pages_of_runs(tmp_path, capsys):
    made = SuiteFolder(tmp_path / "toy")
    made.process("one", [1.0] * 6)
    assert main(["suite", "report", str(made.write()), "--format", "html"]) == 0
    text = capsys.readouterr().out
    assert text.startswith("<!doctype html>") and 'href="toy' not in text
    assert [each.name for each in tmp_path.iterdir()] == ["toy"]
