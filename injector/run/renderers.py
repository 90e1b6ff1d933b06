"""Which renderer a format of a run's report has, and what it needs besides the summary."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ..analysis.summary import Summary, uncommitted
from ..report import formats, terminal
from ..store.folder import Run

if TYPE_CHECKING:
    from ..analysis.traces import Recording


def recording_of(run: Run, form: str) -> Recording | None:
    """The recording of ``run`` for a format whose summary and charts both read its spans; None for others.

    Raises UserError if what pages are made with is not installed, OSError.
    """
    if form != "html":
        return None
    from ..analysis.traces import Recording
    from ..report import page

    page.libraries()
    return Recording(run)


def renderer(
    run: Run, summary: Summary, form: str, own: bool = False, recording: Recording | None = None
) -> Callable[[], str]:
    """A function that renders ``summary`` in the format ``form``.

    ``own``: a page shows the program's uncommitted changes, too. ``recording``: that of the summary, whose
    spans need not be read again. Raises UserError if what pages are made with is not installed, OSError.
    """
    if form == "html":
        # Here, as it imports NumPy, which a report without spans does not need.
        from ..analysis.charts import charts_of
        from ..report import page

        page.libraries()
        charts = charts_of(run, recording)
        changes = page.changes_of(uncommitted(run)) if own else None
        return lambda: page.render(summary, charts, changes)
    if form == "md":
        from ..report import markdown

        return lambda: markdown.render(summary)
    render = {
        "terminal": terminal.render,
        "json": formats.summary_as_json,
        "csv": formats.summary_as_csv,
    }[form]
    return lambda: render(summary)
