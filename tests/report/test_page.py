"""The local page of a run, in a real browser."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from browser import MISSING, Browser

from injector.live.snapshot import TaskRow
from injector.report.live_page import LivePage
from injector.report.web import PageServer
from injector.suite.results.live_view import BenchmarkRow, ProcessRow, SuiteSnapshot

pytestmark = pytest.mark.xdist_group("browser")  # one browser and one run for all of these

ROOT = Path(__file__).parents[2]
PROGRAM = """
import os, time, injector

number = 0
print("ready", flush=True)
while not os.path.exists("enough"):
    with injector.region("step"):
        with injector.region("forward"):
            time.sleep(0.004)
        loss = 1 / (1 + number)
        number += 1
"""
VOIRFILE = """
def instrument_loss(ov):
    ov.value("// > loss", task="train")
"""
DEVICES = [{"name": "<b>A</b>", "samples": [{"load": 0.5, "power": 250.0, "memory_used": 1e9}]}]

ROWS = "[...document.querySelectorAll('#%s tr')].map(r => [...r.children].map(c => c.textContent))"
FIGURES = (
    "Object.fromEntries([...document.querySelectorAll('#figures li')]"
    ".map(d => [d.lastChild.textContent, d.firstChild.textContent]))"
)
PLOTS = """[...document.querySelectorAll('#series figure')].map(f => ({
    title: f.querySelector('figcaption span').textContent,
    words: f.querySelector('[role=img]').ariaLabel,
}))"""


class Watched:
    """A run that goes on, and the address of its page."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "train.py").write_text(PROGRAM)
        (folder / "x.py").write_text(VOIRFILE)
        (folder / "devices.json").write_text(json.dumps(DEVICES))
        self.run = self._start("run", "--interval", "0.1", "--voirfile", "x.py", "train.py")
        assert self.run.stdout.readline() == "ready\n"
        self.watch = self._start("watch", "--web")
        self.address = self.watch.stdout.readline().strip()

    def _start(self, verb, *words):
        return subprocess.Popen(
            [sys.executable, "-u", "-m", "injector", verb, "--runs", "runs", *words],
            cwd=self.folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env={
                **os.environ,
                "PYTHONPATH": str(ROOT),
                "INJECT_SCRIPTED_DEVICES": "devices.json",
            },
        )

    def finish(self):
        (self.folder / "enough").touch()
        assert self.run.wait(120) == 0

    def over(self):
        (self.folder / "enough").touch()
        for process in (self.run, self.watch):
            process.terminate()
            process.communicate()


@pytest.fixture(scope="module")
def watched(tmp_path_factory):
    made = Watched(tmp_path_factory.mktemp("page"))
    yield made
    made.over()


def plot(browser, title):
    """The plot that is called so, as soon as it has some points."""
    return browser.until(lambda: next((p for p in browser.ask(PLOTS) if p["title"] == title), None))


def table_rows(browser, table, count):
    """The header and the rows of a table, as soon as it has so many."""
    return browser.until(lambda: len(found := browser.ask(ROWS % table)) > count and found)


def test_without_the_token_there_is_no_page(browser, watched):
    root, token = watched.address.rstrip("/").rsplit("/", 1)
    wrong = ("A" if token[0] != "A" else "B") + token[1:]
    browser.open(f"{root}/{wrong}/")
    assert "404" in browser.ask("document.body.textContent")
    assert browser.ask("document.getElementById('ranks')") is None
    for path in (f"/{wrong}/state", "/state", "/"):
        assert browser.ask(f"fetch('{path}').then(answer => answer.status)") == 404
    assert browser.ask(f"fetch('/{token}/state').then(answer => answer.status)") == 200


def test_it_follows_the_readers_choice_of_colours(browser, watched):
    browser.open(watched.address)
    look = "getComputedStyle(document.body).backgroundColor"
    seen = set()
    for scheme in ("light", "dark"):
        feature = {"name": "prefers-color-scheme", "value": scheme}
        browser.send("Emulation.setEmulatedMedia", features=[feature])
        colour = [int(part) for part in browser.ask(look).strip("rgb()").split(",")]
        seen.add((scheme, sum(colour) > 3 * 128))
    browser.send("Emulation.setEmulatedMedia", features=[])
    assert seen == {("light", True), ("dark", False)}


def test_nothing_is_wider_than_a_small_screen(browser, watched):
    browser.open(watched.address)
    table_rows(browser, "ranks", 1)
    browser.look(width=380)
    browser.until(lambda: browser.ask("document.documentElement.scrollWidth") <= 380)
    browser.look()


def test_the_page_of_a_run_that_goes_on(browser, axe, watched):
    browser.events.clear()
    browser.open(watched.address)
    # Rows appear, and figures with their units: each when it is known, so each is waited for.
    [heads, row] = browser.until(
        lambda: (found := table_rows(browser, "ranks", 1))[1][1] == "training" and found
    )
    assert heads[:3] == ["rank", "state", "steps"] and row[0].startswith("process ")
    [heads, device] = table_rows(browser, "devices", 1)
    assert heads[:3] == ["device", "name", "host"] and device[:2] == ["0", "<b>A</b>"]
    figures = {"steps", "steps/s", "ms a step", "train/loss"}
    browser.until(lambda: figures <= set(browser.ask(FIGURES)))
    parts = "document.getElementById('shares').textContent"
    browser.until(lambda: "forward " in (text := browser.ask(parts)) and " %" in text)
    # Plots appear with what they are of.
    first = plot(browser, "rate, steps/s")
    assert "main: from " in first["words"] or ": from " in first["words"]
    assert "device 0: 50 %" in plot(browser, "device load")["words"]
    titles = {"step time", "loss", "device power"}
    browser.until(lambda: titles <= {each["title"] for each in browser.ask(PLOTS)})
    # Both go on by themselves.
    steps = int(browser.ask(FIGURES)["steps"])
    browser.until(lambda: int(browser.ask(FIGURES)["steps"]) > steps)
    browser.until(lambda: plot(browser, "rate, steps/s")["words"] != first["words"])
    # The report so far is there, and what a reader has chosen in it stays when it is renewed.
    browser.until(lambda: browser.ask("document.querySelector('#lead .sentence') !== null"))
    assert "so far" in browser.ask("document.getElementById('verdict').textContent")
    browser.until(lambda: browser.ask("document.querySelectorAll('#report .uplot').length") == 2)
    browser.ask("document.querySelector('#environment details').open = true")
    browser.ask("document.querySelector('#steps0 .grow').click()")
    scale = browser.ask("document.querySelector('#steps0 .grow').textContent")
    browser.ask("document.querySelector('#steps0 .u-over').dataset.old = ''")
    renewed = "document.querySelector('#steps0 .u-over')?.dataset.old === undefined"
    browser.until(
        lambda: browser.ask(f"{renewed} && document.querySelector('#steps0 .grow') !== null")
    )
    assert browser.ask("document.querySelector('#steps0 .grow').textContent") == scale
    assert browser.ask("document.querySelector('#environment details').open")
    assert browser.ask("document.querySelectorAll('#timeline canvas').length") == 1
    # It looks at nothing but itself, and nothing went wrong in it.
    browser.until(lambda: len(browser.events_of("Network.requestWillBeSent")) > 2)
    urls = [each["request"]["url"] for each in browser.events_of("Network.requestWillBeSent")]
    outside = [url for url in urls if not url.startswith((watched.address, "data:"))]
    assert outside == []
    assert browser.errors() == []
    assert browser.violations(axe) == []
    # The end is shown, too, and what the report says of it. (No test after this one has a run.)
    watched.finish()
    notes = "document.getElementById('notes').textContent"
    browser.until(lambda: (t := browser.ask(notes)).startswith("exit 0") and "verdict: " in t)
    browser.until(lambda: browser.ask("document.getElementById('state').textContent") == "ended")
    # What went on is now what the report of the run is.
    browser.until(lambda: browser.ask("document.querySelector('#lead .sentence') !== null"))
    assert browser.ask("document.querySelectorAll('#report .uplot').length") == 2
    assert browser.errors() == []


def test_who_has_no_browser_is_told_what_to_do(monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(LookupError, match="make browser"):
        Browser()
    assert "apt-get install" in MISSING


def test_the_page_of_a_suite(browser):
    """The same page, with the benchmarks of a suite and their processes."""

    def process(slot, state, rate):
        key, devices = f"vision.R0.D{slot}", (f"cuda:{slot}",)
        return ProcessRow(key, devices, state, "", 7, 60, "items/s", rate, 0.02, 0.5, 2e9, 1, 4.0)

    rows = (
        BenchmarkRow("vision", "running", "", 1, 0, "items/s", 812.5,
                     (process(0, "training", 400.0), process(1, "evaluating", 412.5))),
        BenchmarkRow("<b>ppo</b>", "failed", "exit code 1", 2, 1, "items/s", None, ()),
        BenchmarkRow("later", "queued", "", 1, 0, "items/s", None, (process(0, "queued", None),)),
    )  # fmt: skip
    tasks = (TaskRow("vision", 2, 7, "items/s", 812.5, None, None, True),)
    page = PageServer(LivePage("suite"))
    threading.Thread(target=page.serve_forever, daemon=True).start()
    try:
        for at in range(6):
            page.page.show(SuiteSnapshot("toy", float(at), "running", 1, 4, 60.0, "items/s", None, None, None,
                                    {}, {}, (), (), (), tasks, notes=("left out: big",), failed=1,
                                    benchmarks=rows))  # fmt: skip
        browser.open(page.address)
        found = table_rows(browser, "processes", 2)
        assert [row[:6] for row in found[1:]] == [
            ["vision.R0.D0", "cuda:0", "training", "7", "60", "400.0"],
            ["vision.R0.D1", "cuda:1", "evaluating", "7", "60", "412.5"],
        ]
        found = table_rows(browser, "benchmarks", 3)
        assert found[1][:3] == ["vision", "running", "812.5"]
        links = (
            "[...document.querySelectorAll('#live-processes a')].map(a => a.getAttribute('href'))"
        )
        assert browser.ask(links) == ["runs/vision.R0.D0/", "runs/vision.R0.D1/"]
        assert found[2][0] == "<b>ppo</b>" and found[2][-1] == "exit code 1"
        figures = browser.until(
            lambda: {"jobs", "failed", "left"} <= set(found := browser.ask(FIGURES)) and found
        )
        assert (figures["jobs"], figures["failed"], figures["left"]) == ("1 of 4", "1", "60 s")
        assert plot(browser, "rate, items/s")["words"].endswith("vision: 812.5")
        assert browser.ask("document.getElementById('tasks').closest('section').hidden")
        assert "left out: big" in browser.ask("document.getElementById('notes').textContent")
    finally:
        page.shutdown()
        page.server_close()
