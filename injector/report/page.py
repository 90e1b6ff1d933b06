"""Reports as pages: one file that needs nothing else, for a browser of any size, or paper.

What is text stands in a page as text; what is drawn stands in it as data, which a script draws by
`uPlot <https://github.com/leeoniya/uPlot>`_. Nothing in it is fetched, and nothing that a run says of
itself is ever taken for markup or code. All pages are made of one frame, ``pages/base.html``.
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
from ..analysis.summary import Summary, Uncommitted, plain
from ..errors import UserError
from ..metrics import UNITS, metric_at, shown
from . import loop_sections, sections, segments, studies, tables, terminal, training_loops
from .text import clean, count, duration, percent, rank_name, short

if TYPE_CHECKING:
    import jinja2

    from ..analysis.charts import Charts

MISSING = "a page needs jinja2 and uPlot: pip install 'overlay-injector[page]'"
CARRIER, SCRIPT, STYLE = (
    "youplot",
    "youplot/vendor/uplot.iife.min.js",
    "youplot/vendor/uplot.min.css",
)
"""The package that uPlot comes in, and where; none of that package's own code is used."""
REGIONS = ("io", "h2d", "forward", "backward", "comm", "optimizer", "wait", "evaluation", "env")
"""Regions with a colour of their own."""
PLOTS = ("rate", "step", "loss", "load", "power", "memory", "cpu", "rss")
"""Of what is drawn over time, in this order: ``page PLOT`` in the registry of metrics has name and unit."""
COLORS = 14
"""How many there are; the regions of a program take what is left in turns. The last is that of ``other``."""


WORDS = {
    "count": count,
    "duration": duration,
    "short": short,
    "rank_name": rank_name,
    "drawn_study": studies.drawn,
    "loop_name": training_loops.full_name,
    "rank_regions": loop_sections.rank_regions,
}
"""What templates say by themselves."""


class Libraries(NamedTuple):
    """What a page needs of others."""

    templates: jinja2.Environment
    script: str
    style: str


class Changes(NamedTuple):
    """What was not committed of the program's work tree when the run began."""

    about: str = ""
    """How large it is, where not all of it is shown or kept."""
    lines: tuple[tuple[str, str], ...] = ()
    """``added``, ``removed`` or nothing, and a line of the diff."""


def render(summary: Summary, charts: Charts, changes: Changes | None = None) -> str:
    """The page of a run. Raises UserError where what it needs is not installed."""
    scripts = ("plots.js", "run.js", "page.js")
    return whole("run.html", scripts, *of_summary(summary, charts, changes))


def of_summary(
    summary: Summary, charts: Charts, changes: Changes | None = None
) -> tuple[dict[str, Any], dict[str, Any]]:
    """What the page of a run says, and what it draws."""
    sentence, below = sections.verdict(summary)
    colors = Colors(charts)
    judged = bool(summary.profile and (summary.profile.loops or not summary.goes_on))
    content = {
        "of": "run",
        "summary": summary,
        "title": clean(summary.title),
        "command": " ".join(map(clean, summary.command or ())),
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
    units = {
        "steps/s" if loop.throughput.items is None else "items/s"
        for loop in loop_sections.loops_of(summary)
    }
    unit = units.pop() if len(units) == 1 else ""
    return content, {**plain(charts), "colors": colors.numbers, "unit": unit}


def whole(
    template: str,
    scripts: Sequence[str],
    content: Mapping[str, Any],
    drawn: Mapping[str, Any],
    live: bool = False,
) -> str:
    """A page of ``template`` that says and draws this, by our ``scripts`` and no other; ``live``: it may
    fetch from where it came from.
    """
    found = libraries()
    script = "(() => {\n" + "".join(map(_own, scripts)) + "})();\n"
    return found.templates.get_template(template).render(
        content,
        version=__version__,
        policy=policy(found.script, script) + ("; connect-src 'self'" if live else ""),
        data=embedded({**drawn, **registered()}),
        uplot=found.script,
        style=found.style + _own("page.css"),
        script=script,
    )


def registered() -> dict[str, Any]:
    """Names and units of what is drawn and tabled by scripts, by the registry of metrics."""
    plots = [(key, metric_at(f"page {key}")) for key in PLOTS]
    return {
        "plots": [
            {
                "key": key,
                "title": each.name.replace("_", " "),
                "unit": each.unit,
                "about": each.definition,
            }
            for key, each in plots
        ],
        "units": {unit: shown(unit) for unit in UNITS},
    }


def parts(template: str, content: Mapping[str, Any]) -> dict[str, str]:
    """The blocks of ``template`` that change while what it is about goes on, as markup."""
    made = libraries().templates.get_template(template)
    context = made.new_context(dict(content))
    return {name: "".join(made.blocks[name](context)) for name in ("lead", "report", "rest")}


def _own(name: str) -> str:
    return files(__package__).joinpath("pages").joinpath(name).read_text("utf-8")


@cache
def libraries() -> Libraries:
    """The templates of pages, by jinja2, and uPlot. Raises UserError, saying what to install."""
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
    """The numbers of the colours that regions have on every page."""
    return {**{name: number for number, name in enumerate(REGIONS)}, "other": COLORS - 1}


class Colors:
    """The number of the colour of each region, the same in tables, bars and plots."""

    def __init__(self, charts: Charts) -> None:
        names = [
            *(name for loop in charts.loops for each in loop.shares for name in each.regions),
            *(name for excerpt in charts.excerpts for name, _ in excerpt.names),
        ]
        self.numbers = region_colors()
        own = dict.fromkeys(name for name in names if name not in self.numbers)
        free = COLORS - 1 - len(REGIONS)
        self.numbers |= {name: len(REGIONS) + at % free for at, name in enumerate(own)}

    def __call__(self, name: str) -> int:
        """Of a region that no chart has, the colour of ``other``."""
        return self.numbers.get(name, COLORS - 1)


def changes_of(found: Uncommitted | None) -> Changes:
    """The uncommitted changes of a run, as a page shows them."""
    if found is None:
        return Changes()
    if found.size is None:
        return Changes("they were not kept")
    size = len(found.text.encode())
    about = f"the first {segments.size(size)} of {segments.size(found.size)}"
    kinds = {"+": "added", "-": "removed"}
    lines = found.text.splitlines()
    return Changes(
        about if size < found.size else "",
        tuple((kinds.get(line[:1], ""), clean(line.expandtabs(4))) for line in lines),
    )


def embedded(data: Any) -> str:
    """``data`` as JSON that can stand in a script's element: nothing in it ends that, or begins a comment."""
    text = json.dumps(data, separators=(",", ":"), allow_nan=False)
    return text.translate({ord(c): f"\\u{ord(c):04x}" for c in "<>&\u2028\u2029"})


def policy(*scripts: str) -> str:
    """What a browser may do with a page: run these scripts, and fetch nothing."""
    sums = (b64encode(hashlib.sha256(each.encode()).digest()).decode() for each in scripts)
    allowed = " ".join(f"'sha256-{each}'" for each in sums)
    return (
        f"default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src {allowed}; "
        "base-uri 'none'; form-action 'none'"
    )
