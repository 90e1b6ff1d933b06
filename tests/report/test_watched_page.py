"""What the page of ``inject watch --web`` is given: what was before it was opened, what is now, the end."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
import spans

from injector.cli import live_pages
from injector.cli.live_pages import RunPage
from injector.report.live_page import LivePage, Reporter

MS = 1_000_000
SITES = [
    spans.site(1, "io", line=10, of=1),
    spans.site(2, "forward", line=11, of=2, phase="train", payload="items"),
    spans.site(3, "optimizer", line=12, of=3),
]


def rows(steps: int) -> list[spans.Row]:
    """Steps of 10 ms."""
    parts = [(1, 2 * MS), (2, 5 * MS), (3, 3 * MS)]
    return spans.loop(steps, parts, start=spans.SECOND, pay={2: spans.payload(8)})


def go_on(folder: Path, ended: bool = False) -> None:
    """Make 400 steps more."""
    spans.write_spans(folder / "raw" / "h.1.spans", rows(800))
    if ended:
        with (folder / "raw" / "h.1.log").open("a") as log:
            log.write(json.dumps({"event": "end", "data": {}, "t": 9_000 * MS}) + "\n")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A run of 400 steps, which goes on."""
    made = tmp_path / "x"
    spans.write_process(made, SITES, rows(400), time=time.time() - 8, monotonic_ns=spans.SECOND)
    return made


@pytest.fixture
def page(folder: Path, monkeypatch: pytest.MonkeyPatch) -> RunPage:
    """Its page, whose reports are made when a test makes them."""
    monkeypatch.setattr(live_pages, "SHORTEST", -1.0)
    monkeypatch.setattr(live_pages, "rest_after", lambda began, least: least)
    monkeypatch.setattr(LivePage, "is_looked_at", False)
    return RunPage(str(folder))


def plots(page: LivePage) -> dict[str, list[list[float]]]:
    """By what they are of, the first line."""
    shown = json.loads(page.state())["series"]
    return {kind: next(iter(lines.values())) for kind, lines in shown.items() if lines}


def report_of(page: LivePage) -> tuple[dict[str, str], dict[str, Any]]:
    found = json.loads(page.report() or b"{}")
    return found["parts"], found["data"]


def test_a_page_that_is_opened_late_shows_what_was_before(folder: Path, page: RunPage) -> None:
    assert page.follow() is False and json.loads(page.state())["over"] is False
    page.make()
    before = plots(page)["step"]
    assert len(before) >= 90 and before[0][0] < 0.1 and before[-1][0] > 3.9
    assert all(value == pytest.approx(0.01) for _, value in before)
    go_on(folder)
    assert page.follow() is False
    after = plots(page)["step"]
    assert after[: len(before)] == before and len(after) > len(before)
    assert [t for t, _ in after] == sorted(t for t, _ in after)


def test_the_report_so_far_says_nothing_that_only_the_end_will_show(
    folder: Path, page: RunPage
) -> None:
    """No sentence about damage, about what never came, or about a part of the whole run."""
    asked = {"request": {"selector": "//f > x", "voirfile": "v.py"}}
    with (folder / "raw" / "h.1.log").open("a") as log:
        for event, data in asked.items():
            log.write(json.dumps({"event": event, "data": data, "t": spans.SECOND}) + "\n")
        log.write('{"event": "val')  # it is being written
    page.follow()
    assert page.report() is None and json.loads(page.state())["report"] == 0
    page.make()
    markup, drawn = report_of(page)
    lead = " ".join(markup["lead"].split())
    assert "Verdict so far" in lead and "4.0 s so far, 400 steps; the run goes on" in lead
    assert "compute-bound" in lead and drawn["loops"] and 'id="timeline"' in markup["report"]
    assert "goes on" in markup["rest"] and "Wall time so far" in markup["rest"]
    for never in ("issing", "no run.json", "shutdown", "never fired", "Not measured", "the run."):
        assert never not in "".join(markup.values()), never
    assert json.loads(page.state())["report"] == 1


def test_before_the_first_step_there_is_no_verdict(tmp_path: Path) -> None:
    """Nor is it said that nothing trains."""
    spans.write_process(tmp_path / "x", SITES, (), time=time.time(), monotonic_ns=spans.SECOND)
    page = RunPage(str(tmp_path / "x"))
    page.make()
    lead = " ".join(report_of(page)[0]["lead"].split())
    assert "No verdict yet" in lead and "no step of training has been seen so far" in lead


def test_the_page_hears_of_an_end_that_no_supervisor_collects(
    folder: Path, page: RunPage, monkeypatch: pytest.MonkeyPatch
) -> None:
    go_on(folder, ended=True)
    assert page.follow() is False, "whoever collects it may take a while"
    monkeypatch.setattr(live_pages, "PATIENCE", -1.0)
    assert page.follow() is True
    markup, drawn = report_of(page)
    assert "Verdict" in markup["lead"] and "so far" not in markup["lead"] and drawn["loops"]
    state = json.loads(page.state())
    assert (state["over"], state["now"]["state"], state["now"]["steps"]) == (True, "ended", 800)
    assert any(note.startswith("verdict: ") for note in state["now"]["notes"])
    assert not (folder / "run.json").exists()


class Clock:
    """Stands for time, of which each report takes ``cost`` of a processor."""

    def __init__(self, cost: float) -> None:
        self.cost, self.used, self.pauses = cost, 0.0, list[float]()

    def process_time(self) -> float:
        return self.used

    def wait(self, pause: float) -> bool:
        self.pauses.append(pause)
        return len(self.pauses) > 4


@pytest.mark.parametrize(("cost", "pause"), [(0.01, 2.0), (3.0, 100.0)])
def test_reports_take_a_small_part_of_a_processor(
    monkeypatch: pytest.MonkeyPatch, cost: float, pause: float
) -> None:
    """However long one takes; none is made while no browser shows the page."""
    clock, made, messages = Clock(cost), [0], list[str]()
    monkeypatch.setattr("injector.report.live_page.time.process_time", clock.process_time)

    def make() -> None:
        made[0] += 1
        clock.used += clock.cost
        if made[0] == 2:
            raise ValueError("half a file")

    looked = iter((False, True, True, True))
    reporter = Reporter(make, lambda: next(looked), messages.append)
    reporter._over = clock  # type: ignore[assignment]
    reporter.start()
    reporter._thread.join()
    assert made == [3] and clock.pauses == [0.0, Reporter.IDLE, pause, pause, pause]
    assert messages == ["no report so far: ValueError: half a file"]
