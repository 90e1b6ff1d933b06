"""Reports as pages: each is one HTML file that needs nothing else, for a browser of any size, or for paper.

Templates in ``pages/``, all within the frame ``base.html``, make the text. What is drawn is embedded as JSON,
from which our scripts draw with `uPlot <https://github.com/leeoniya/uPlot>`_.

A page is sent round, and its content comes from programs and their data. So nothing that a run contains is
ever taken for markup or code: templates escape all values, embedded data cannot end its element
(:func:`embedded`), and the page's content security policy lets a browser run no script but ours, and fetch
nothing (:func:`policy`).
"""

from __future__ import annotations

import hashlib
import json
from base64 import b64encode
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.metadata import PackageNotFoundError, distribution
from importlib.resources import files
from typing import TYPE_CHECKING, Any, NamedTuple

from .._version import __version__
from ..analysis.summary import Summary, Uncommitted
from ..errors import UserError
from ..json_types import plain
from ..metrics import UNITS, metric_at, shown
from . import loop_sections, sections, studies, tables, terminal, training_loops
from .text import clean, command_line, count, duration, percent, rank_name, short, size

if TYPE_CHECKING:
    import jinja2

    from ..analysis.charts import Charts

MISSING = "a page needs jinja2 and uPlot: pip install 'overlay-injector[page]'"
CARRIER, SCRIPT, STYLE = (
    "youplot",
    "youplot/vendor/uplot.iife.min.js",
    "youplot/vendor/uplot.min.css",
)
"""The package that contains uPlot, and the files of it. The package's own code is not used."""
REGIONS = ("io", "h2d", "forward", "backward", "comm", "optimizer", "wait", "evaluation", "env")
"""Regions with a colour of their own."""
PLOTS = ("rate", "step", "loss", "load", "power", "memory", "cpu", "rss")
"""The plots over time, in their order; the registry of metrics has name and unit of each as ``page PLOT``."""
COLORS = 14
"""The number of colours. The last is that of ``other``; a program's own regions take those left in turns."""


WORDS = {
    "count": count,
    "duration": duration,
    "short": short,
    "rank_name": rank_name,
    "drawn_study": studies.drawn,
    "loop_name": training_loops.full_name,
    "rank_regions": loop_sections.rank_regions,
}
"""The functions that templates call."""


class Libraries(NamedTuple):
    """The templates, and the script and style sheet of uPlot."""

    templates: jinja2.Environment
    script: str
    style: str


class Changes(NamedTuple):
    """The uncommitted changes of the program's work tree when the run began, as a page shows them."""

    about: str = ""
    """How much of them is shown, if it is not all."""
    lines: tuple[tuple[str, str], ...] = ()
    """The lines of the diff, each with ``added``, ``removed`` or an empty string before it."""


def render(summary: Summary, charts: Charts, changes: Changes | None = None) -> str:
    """The page of a run. Raises UserError if jinja2 or uPlot is not installed."""
    scripts = ("plots.js", "run.js", "page.js")
    return whole("run.html", scripts, *of_summary(summary, charts, changes))


def of_summary(
    summary: Summary, charts: Charts, changes: Changes | None
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The variables of the template for the page of a run, and the data that its scripts draw."""
    sentence, below = sections.verdict(summary)
    colors = Colors(charts)
    judged = bool(summary.profile and (summary.profile.loops or not summary.goes_on))
    content = {
        "of": "run",
        "summary": summary,
        "title": clean(summary.title),
        "command": command_line(summary.command or ()),
        "heading": sections.heading(summary),
        "judged": judged,
        "severity": summary.profile.verdict.severity if judged and summary.profile else "none",
        "sentence": sentence,
        "below": below,
        "tiles": sections.tiles(summary),
        "artifacts": terminal.artifacts(summary),
        "libraries": sections.libraries_of(summary),
        "sections": sections.sections(summary),
        "loops": loop_sections.loops_of(summary),
        "charts": charts,
        "colors": colors,
        "changes": changes or Changes(),
        "text": WORDS,
    }
    units = {loop.throughput.unit for loop in loop_sections.loops_of(summary)}
    unit = units.pop() if len(units) == 1 else ""
    return content, {**plain(charts), "colors": colors.numbers, "unit": unit}


def whole(
    template: str,
    scripts: Sequence[str],
    content: Mapping[str, Any],
    drawn: Mapping[str, Any],
    live: bool = False,
) -> str:
    """The page of ``template`` with the variables ``content``, the data ``drawn`` and our ``scripts``.

    A ``live`` page may fetch from the server that it came from. Raises UserError as :func:`libraries`.
    """
    needed = libraries()
    # In a function of its own, so that scripts share their names with each other only.
    script = "(() => {\n" + "".join(map(_own, scripts)) + "})();\n"
    return needed.templates.get_template(template).render(
        content,
        version=__version__,
        policy=policy(needed.script, script) + ("; connect-src 'self'" if live else ""),
        data=embedded({**drawn, **registered()}),
        uplot=needed.script,
        style=needed.style + _own("page.css"),
        script=script,
    )


def registered() -> dict[str, Any]:
    """The names, units and definitions of plots, and how scripts show units, from the registry of metrics."""
    plots = [(key, metric_at(f"page {key}")) for key in PLOTS]
    return {
        "plots": [
            {
                "key": key,
                "title": metric.name.replace("_", " "),
                "unit": metric.unit,
                "about": metric.definition,
            }
            for key, metric in plots
        ],
        "units": {unit: shown(unit) for unit in UNITS},
    }


def parts(template: str, content: Mapping[str, Any]) -> dict[str, str]:
    """The markup of those blocks of ``template`` that change while a run goes on, by their names."""
    loaded = libraries().templates.get_template(template)
    context = loaded.new_context(dict(content))
    return {name: "".join(loaded.blocks[name](context)) for name in ("lead", "report", "rest")}


def _own(name: str) -> str:
    """The content of a file in ``pages/``."""
    return files(__package__).joinpath("pages").joinpath(name).read_text("utf-8")


@cache
def libraries() -> Libraries:
    """The templates and uPlot. Raises UserError, with a message on what to install."""
    try:
        import jinja2

        carrier = distribution(CARRIER)
    except (ImportError, PackageNotFoundError):
        raise UserError(MISSING) from None
    try:
        script, style = (
            open(str(carrier.locate_file(name)), encoding="utf-8").read()  # noqa: SIM115
            for name in (SCRIPT, STYLE)
        )
    except OSError as error:
        raise UserError(f"{MISSING}; {error.filename}: {error.strerror}") from None
    templates = jinja2.Environment(
        loader=jinja2.FunctionLoader(_own),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    templates.filters.update(percent=percent, clean=clean, shown=tables.shown_columns)
    return Libraries(templates, script, style)


def region_colors() -> dict[str, int]:
    """The numbers of the colours of the regions that have the same one on every page."""
    return {**{name: number for number, name in enumerate(REGIONS)}, "other": COLORS - 1}


class Colors:
    """The number of the colour of each region of a page, the same in tables, bars and plots."""

    def __init__(self, charts: Charts) -> None:
        names = [
            *(name for loop in charts.loops for part in loop.shares for name in part.regions),
            *(name for excerpt in charts.excerpts for name, _ in excerpt.names),
        ]
        self.numbers = region_colors()
        own = dict.fromkeys(name for name in names if name not in self.numbers)
        free = COLORS - 1 - len(REGIONS)
        self.numbers |= {name: len(REGIONS) + at % free for at, name in enumerate(own)}

    def __call__(self, name: str) -> int:
        """The colour of the region ``name``; that of ``other`` if no chart has the region."""
        return self.numbers.get(name, COLORS - 1)


def changes_of(uncommitted: Uncommitted | None) -> Changes:
    """The uncommitted changes of a run, as a page shows them."""
    if uncommitted is None:
        return Changes()
    if uncommitted.size is None:
        return Changes("they were not kept")
    kept = len(uncommitted.text.encode())
    about = f"the first {size(kept)} of {size(uncommitted.size)}"
    kinds = {"+": "added", "-": "removed"}
    lines = uncommitted.text.splitlines()
    return Changes(
        about if kept < uncommitted.size else "",
        tuple((kinds.get(line[:1], ""), clean(line.expandtabs(4))) for line in lines),
    )


def embedded(data: Any) -> str:
    """``data`` as JSON in a script element; what could end that, or begin a comment, is escaped."""
    text = json.dumps(data, separators=(",", ":"), allow_nan=False)
    return text.translate({ord(c): f"\\u{ord(c):04x}" for c in "<>&\u2028\u2029"})


def policy(*scripts: str) -> str:
    """The content security policy of a page: a browser may run these scripts only, and fetch nothing."""
    hashes = (b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts)
    allowed = " ".join(f"'sha256-{digest}'" for digest in hashes)
    return (
        f"default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src {allowed}; "
        "base-uri 'none'; form-action 'none'"
    )
