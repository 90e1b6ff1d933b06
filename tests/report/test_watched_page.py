"""What the page of ``inject watch --web`` is given: what was before it was opened, and the end."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
import spans

from injector.cli import watch
from injector.report import web
from injector.store.folder import open_run

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
def opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The page of a run of 400 steps, and what follows the run."""
    kept: list[Any] = []
    monkeypatch.setattr(web, "serve", lambda page, follow: kept.extend((page, follow)) or 0)
    folder = tmp_path / "x"
    spans.write_process(folder, SITES, rows(400), time=time.time() - 8, monotonic_ns=spans.SECOND)
    assert watch._serve(open_run(str(folder)), 0) == 0
    page, follow = kept
    yield folder, page, follow
    page.server_close()


def plots(page: web.PageServer) -> dict[str, list[list[float]]]:
    """By what they are of, the first line."""
    shown = json.loads(page.state())["series"]
    return {kind: next(iter(lines.values())) for kind, lines in shown.items() if lines}


def test_a_page_that_is_opened_late_shows_what_was_before(opened: Any) -> None:
    folder, page, follow = opened
    assert follow() is False and json.loads(page.state())["over"] is False
    before = plots(page)["step"]
    assert len(before) >= 90 and before[0][0] < 0.1 and before[-1][0] > 3.9
    assert all(value == pytest.approx(0.01) for _, value in before)
    go_on(folder)
    assert follow() is False
    after = plots(page)["step"]
    assert after[: len(before)] == before and len(after) > len(before)
    assert [t for t, _ in after] == sorted(t for t, _ in after)


def test_the_page_hears_of_an_end_that_no_supervisor_collects(
    opened: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, page, follow = opened
    go_on(folder, ended=True)
    assert follow() is False, "whoever collects it may take a while"
    monkeypatch.setattr(watch, "PATIENCE", -1.0)
    assert follow() is True
    markup, drawn = page.report()
    assert "Verdict" in markup["lead"] and drawn["loops"]
    state = json.loads(page.state())
    assert (state["over"], state["now"]["state"], state["now"]["steps"]) == (True, "ended", 800)
    assert any(note.startswith("verdict: ") for note in state["now"]["notes"])
    assert not (folder / "run.json").exists()
