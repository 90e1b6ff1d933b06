"""The page of a run that is over: one file, in a real browser."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from pathlib import Path

import pytest
from large_run import SLOW, write_large_run
from spans import write_run

from injector.analysis.charts import charts_of
from injector.analysis.profile import LoopSamples, RegionSamples, SampledLine, StackNode
from injector.analysis.summary import summarise
from injector.cli import main
from injector.report import page
from injector.store.folder import open_run
from injector.value_class import replace

pytestmark = pytest.mark.xdist_group("browser")

RANKS, STEPS = 8, 12_500
UPLOT = "2d27e8ad3d228164525ce213f9dc716f39b4e3aee0cc773fb3491c96cf4921a2"
"""Of dist/uPlot.iife.min.js in uPlot 1.6.31."""
EVIL = "</script><script>window.owned = 1</script><img src=x onerror='window.owned = 1'>{{ 7 * 7 }}"


@pytest.fixture(scope="module")
def large(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("large") / "run"
    write_large_run(folder, STEPS, RANKS)
    return folder


@pytest.fixture(scope="module")
def written(large) -> Path:
    target = large.parent / "run.html"
    assert main(["report", str(large), "-o", str(target)]) == 0
    return target


def test_a_hundred_thousand_steps_are_a_page_of_three_megabytes(written):
    """It takes about a second, which no test asserts: ``benchmarks/large_runs.py`` times it."""
    assert written.stat().st_size < 3_000_000


def test_no_slow_step_is_lost_however_few_points_are_drawn(large):
    [loop] = charts_of(open_run(str(large))).loops
    assert [each.step for each in loop.slowest] == [at * STEPS // 1000 for at, _ in SLOW]
    assert {each.rank for each in loop.slowest} == {"rank 2"}
    assert {each.region for each in loop.slowest} == {"io"}
    for each in loop.slowest:
        assert max(high or 0 for high in loop.ranks[2].high) >= each.seconds * 0.999
        near = min(range(len(loop.times)), key=lambda at: abs(loop.times[at] - each.time))
        assert any(
            high == pytest.approx(each.seconds, rel=1e-3)
            for high in loop.ranks[2].high[max(near - 3, 0) : near + 10]
        )
    assert sum(loop.distribution.counts) + loop.distribution.above == RANKS * (STEPS - 1)


def test_it_is_drawn_and_fetches_nothing(browser, written):
    browser.opened(written)
    assert browser.ask("document.querySelector('.sentence').textContent").startswith(
        "compute-bound"
    )
    assert browser.ask("document.querySelectorAll('.uplot canvas').length") >= 8
    inks = """(() => { const c = document.querySelector('#timeline canvas');
        const d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data;
        return new Set(new Uint32Array(d.buffer)).size })()"""
    assert browser.ask(inks) > 6
    urls = [each["request"]["url"] for each in browser.events_of("Network.requestWillBeSent")]
    assert [url for url in urls if not url.startswith(("file:", "data:"))] == []
    assert browser.errors() == []


def test_all_plots_zoom_together_and_back(browser, written):
    browser.opened(written)
    shown = "document.getElementById('range').textContent"
    before = browser.ask(shown)
    assert before.startswith("the whole run")
    browser.ask("document.querySelector('#tools [data-do=in]').click()")
    assert browser.ask(shown) != before
    browser.ask("document.querySelector('#tools [data-do=all]').click()")
    assert browser.ask(shown) == before
    box = browser.ask(
        "(() => { const e = document.querySelector('#steps0 .u-over'); e.scrollIntoView({block: 'center'});"
        " const b = e.getBoundingClientRect(); return [b.x, b.y, b.width, b.height] })()"
    )
    x, y, width, height = box
    for kind, at in (
        ("mousePressed", 0.4),
        ("mouseMoved", 0.45),
        ("mouseMoved", 0.5),
        ("mouseReleased", 0.5),
    ):
        browser.send(
            "Input.dispatchMouseEvent",
            type=kind, x=x + at * width, y=y + height / 2, button="left", clickCount=1, buttons=1,
        )  # fmt: skip
    browser.until(lambda: " to " in browser.ask(shown))
    browser.ask("document.querySelector('button.show').click()")
    assert "0 s" not in browser.ask(shown).split(" to ")[0]
    browser.ask("document.querySelector('#tools [data-do=all]').click()")


def test_tables_are_sorted_by_what_is_clicked(browser, written):
    browser.opened(written)
    column = """(() => { const t = document.querySelector('#loop0-ranks table');
        t.tHead.rows[0].cells[2].firstChild.click();
        return [...t.tBodies[0].rows].map(r => +r.cells[2].textContent) })()"""
    down = browser.ask(column)
    assert down == sorted(down, reverse=True) and len(down) == RANKS
    assert browser.ask(column) == sorted(down)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [400, 1600])
def test_it_fits_every_screen_and_every_reader(browser, axe, written, width, scheme):
    browser.look(scheme, width)
    browser.opened(written)
    assert browser.ask("document.documentElement.scrollWidth") <= width
    colour = browser.ask("getComputedStyle(document.body).backgroundColor")
    assert (sum(map(int, colour.strip("rgb()").split(","))) > 3 * 128) == (scheme == "light")
    assert browser.violations(axe) == []
    browser.look()


def test_the_keyboard_is_enough(browser, written):
    """Plots are focused and zoomed, tables sorted, and what a plot shows is said in words."""
    browser.opened(written)
    shown = "document.getElementById('range').textContent"
    before = browser.ask(shown)
    for key, text in (("+", "+"), ("ArrowRight", None), ("0", "0")):
        browser.ask("document.getElementById('over-time-load').focus()")
        browser.press(key, text)
        assert (browser.ask(shown) == before) == (key == "0")
    words = browser.ask("document.querySelector('#steps0 [role=img]').ariaLabel")
    assert words.startswith("step time. rank 0: from ") and "rank 7" in words
    browser.ask("document.querySelector('#loop0-ranks thead button').focus()")
    browser.press("Enter", "\r")
    assert browser.ask("document.querySelector('#loop0-ranks th[aria-sort]') !== null")


def test_it_is_resized_and_printed(browser, written):
    browser.opened(written)
    for width in (1200, 640):
        browser.look(width=width)
        browser.until(
            lambda: (
                browser.ask("document.documentElement.scrollWidth <= innerWidth")
                and browser.ask(
                    "document.querySelector('#steps0 .uplot').offsetWidth <= innerWidth"
                )
            )
        )
    browser.look()
    found = base64.b64decode(browser.send("Page.printToPDF")["data"])
    assert found.startswith(b"%PDF") and len(found) > 20_000
    assert browser.errors() == []


def test_nothing_that_a_run_says_is_markup_or_code(browser, tmp_path):
    folder = tmp_path / "run"
    write_large_run(
        folder, 40, 2, name=EVIL, command=["inject", "run", EVIL], host=EVIL, platform=EVIL,
        packages={EVIL: EVIL}, voirfiles=[EVIL], tags={EVIL: EVIL}, params={EVIL: {EVIL: EVIL}},
        git={"root": EVIL, "branch": EVIL, "commit": EVIL, "dirty": True},
        artifacts=[{"name": EVIL, "path": EVIL, "size": 1, "copied": False}],
        warnings=[{"kind": "problem", "text": EVIL}], limits={EVIL: EVIL},
        probes=[{"selector": EVIL, "fired": 1, "exact": True,
                 "places": [{"module": EVIL, "function": EVIL, "file": EVIL, "line": 1, "source": EVIL}]}],
    )  # fmt: skip
    for log in (folder / "raw").glob("*.log"):
        text = log.read_text()
        for word in ("backward", "/x/train.py", "loss.backward()"):
            text = text.replace(json.dumps(word), json.dumps(EVIL))
        log.write_text(text)
    (folder / "uncommitted.diff").write_text(f"--- a/{EVIL}\n+{EVIL}\n-x\n")
    data = folder / "large.D0.data"
    data.write_text(data.read_text().replace('"loss"', json.dumps(f"loss {EVIL}")))
    target = tmp_path / "x.html"
    assert main(["report", str(folder), "-o", str(target)]) == 0
    browser.opened(target)
    assert browser.ask(
        "window.owned === undefined && !document.querySelector('main img, main script')"
    )
    assert browser.ask("document.body.textContent").count("onerror") > 20
    diff = "[...document.querySelectorAll('.diff span')].map(each => [each.className, each.textContent])"
    assert browser.ask(diff)[1:] == [["added", f"+{EVIL}\n"], ["removed", "-x\n"]]
    assert (
        ">49<" not in target.read_text()
        and browser.ask("document.querySelector('h1').textContent") == EVIL
    )
    assert browser.errors() == []


def test_sampled_stacks_are_a_flame_graph(browser, tmp_path):
    """Every box as wide as its samples; a click makes one as wide as the page, another one undoes that."""
    folder = tmp_path / "run"
    write_large_run(folder, 40, 2)
    run = open_run(str(folder))
    summary = summarise(run)
    loop = summary.profile.loops[0]
    leaf = StackNode(f"inner {EVIL}", 75)
    tree = StackNode("step", 100, (StackNode("io", 75, (leaf,)), StackNode("backward", 20)))
    line = SampledLine(replace(loop.place, text=EVIL), 75, EVIL, 75)
    regions = (
        RegionSamples("io", 0.7, 75, (line, line)),
        RegionSamples("backward", 0.2, 20, (line,)),
    )
    sampled = (LoopSamples(loop.task, loop.place, 100, 1, regions, tree),)
    target = tmp_path / "x.html"
    target.write_text(page.render(replace(summary, sampled=sampled, sampling=50), charts_of(run)))
    browser.opened(target)
    widths = "[...document.querySelectorAll('.flame .box')].map(each => each.offsetWidth)"
    whole, io, inner, backward = browser.ask(widths)
    assert io == inner == pytest.approx(0.75 * whole, abs=2)
    assert backward == pytest.approx(0.2 * whole, abs=2)
    click = "document.querySelectorAll('.flame button')[1].click(), 1"
    browser.ask(click)
    assert browser.ask(widths) == [whole, whole, pytest.approx(whole, abs=2), 0]
    browser.ask(click)
    assert browser.ask(widths) == [whole, io, inner, backward]
    assert browser.ask("window.owned === undefined && !document.querySelector('main img')")
    assert browser.errors() == []


def test_its_policy_allows_no_script_but_its_own(large):
    run = open_run(str(large))
    text = page.render(summarise(run), charts_of(run))
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', text)[1]
    scripts = re.findall(r"<script>(.*?)</script>", text, re.S)
    assert len(scripts) == 2 and "default-src &#39;none&#39;" in policy
    for each in scripts:
        assert base64.b64encode(hashlib.sha256(each.encode()).digest()).decode() in policy


def test_uplot_is_what_its_authors_released():
    assert hashlib.sha256(page.libraries().script.encode()).hexdigest() == UPLOT


@pytest.mark.parametrize("name", ["a.md", "a.csv", "a.json", "a.txt", "a.html"])
def test_the_suffix_says_the_format(large, tmp_path, name, capsys):
    target = tmp_path / name
    assert main(["report", str(large), "-o", str(target)]) == 0
    text = target.read_text()
    begins = {
        "md": "## large",
        "csv": "table,task,job,attempt",
        "json": "{",
        "txt": "inject run",
        "html": "<!doctype",
    }
    assert text.startswith(begins[name.rpartition(".")[2]]) and capsys.readouterr().out == ""
    if name == "a.md":
        assert "| backward |" in text.replace("\u2003", "") and "**compute-bound" in text


def test_what_cannot_be_written_is_reported(large, tmp_path, capsys, monkeypatch):
    assert main(["report", str(large), "-o", str(tmp_path / "a.pdf")]) == 2
    assert "a.pdf: no format of that suffix" in capsys.readouterr().err
    assert main(["report", str(large), "-o", str(tmp_path / "no" / "a.html")]) == 2
    assert "No such file" in capsys.readouterr().err
    monkeypatch.setattr(page, "CARRIER", "no-such-package")
    page.libraries.cache_clear()
    assert main(["report", str(large), "-o", str(tmp_path / "a.html")]) == 2
    assert "pip install 'overlay-injector[page]'" in capsys.readouterr().err
    page.libraries.cache_clear()
    assert not (tmp_path / "a.html").exists()


def test_a_run_without_anything_has_a_page(tmp_path):
    folder = tmp_path / "run"
    write_run(folder)
    target = tmp_path / "x.html"
    assert main(["report", str(folder), "-o", str(target)]) == 0
    assert "<h1>" in target.read_text()
