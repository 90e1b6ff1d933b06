"""The report of one run as a page: one file that needs nothing else, for a browser of any size, or paper.

What is text stands in the page as text; what is drawn stands in it as data, which a script draws by
`uPlot <https://github.com/leeoniya/uPlot>`_. Nothing in it is fetched, and nothing that a run says of
itself is ever taken for markup or code.
"""

from __future__ import annotations

import hashlib
import json
from base64 import b64encode
from collections.abc import Callable
from functools import cache
from importlib.metadata import PackageNotFoundError, distribution
from importlib.resources import files
from typing import Any, NamedTuple

from .._version import __version__
from ..analysis.charts import Charts
from ..analysis.summary import Summary, plain
from ..errors import UserError
from . import sections, terminal
from .text import clean, percent

MISSING = "a page needs jinja2 and uPlot: pip install 'overlay-injector[page]'"
CARRIER, SCRIPT, STYLE = (
    "youplot",
    "youplot/vendor/uplot.iife.min.js",
    "youplot/vendor/uplot.min.css",
)
"""The package that uPlot comes in, and where; none of that package's own code is used."""
REGIONS = ("io", "h2d", "forward", "backward", "comm", "optimizer", "wait", "evaluation", "env")
"""Regions with a colour of their own."""
COLORS = 14
"""How many there are; the regions of a program take what is left in turns. The last is that of ``other``."""


class Libraries(NamedTuple):
    """What a page needs of others."""

    template: Callable[..., str]
    script: str
    style: str


def render(summary: Summary, charts: Charts) -> str:
    """The page of a run. Raises UserError where what it needs is not installed."""
    found = libraries()
    sentence, below = sections.verdict(summary)
    drawn = files(__package__).joinpath("page.js").read_text("utf-8")
    colors = Colors(charts)
    return found.template(
        version=__version__,
        policy=_policy(found.script, drawn),
        summary=summary,
        title=clean(summary.title),
        command=" ".join(map(clean, summary.command or ())),
        heading=sections.heading(summary),
        severity=summary.profile.verdict.severity if summary.profile else "none",
        sentence=sentence,
        below=below,
        tiles=sections.tiles(summary),
        artifacts=terminal.artifacts(summary),
        sections=sections.sections(summary),
        loops=sections.loops_of(summary),
        charts=charts,
        colors=colors,
        data=embedded({**plain(charts), "colors": colors.numbers}),
        uplot=found.script,
        uplot_style=found.style,
        style=files(__package__).joinpath("page.css").read_text("utf-8"),
        script=drawn,
        text=sections,
    ).lstrip()


@cache
def libraries() -> Libraries:
    """jinja2's template of the page, and uPlot. Raises UserError, saying what to install."""
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
    environment = jinja2.Environment(
        autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=jinja2.StrictUndefined
    )
    environment.filters.update(percent=percent, clean=clean)
    text = files(__package__).joinpath("page.html").read_text("utf-8")
    return Libraries(environment.from_string(text).render, script, style)


class Colors:
    """The number of the colour of each region, the same in tables, bars and plots."""

    def __init__(self, charts: Charts) -> None:
        names = [
            *(name for loop in charts.loops for each in loop.shares for name in each.regions),
            *(name for excerpt in charts.excerpts for name, _ in excerpt.names),
        ]
        self.numbers = {name: number for number, name in enumerate(REGIONS)}
        self.numbers["other"] = COLORS - 1
        own = dict.fromkeys(name for name in names if name not in self.numbers)
        free = COLORS - 1 - len(REGIONS)
        self.numbers |= {name: len(REGIONS) + at % free for at, name in enumerate(own)}

    def __call__(self, name: str) -> int:
        """Of a region that no chart has, the colour of ``other``."""
        return self.numbers.get(name, COLORS - 1)


def embedded(data: Any) -> str:
    """``data`` as JSON that can stand in a script's element: nothing in it ends that, or begins a comment."""
    text = json.dumps(data, separators=(",", ":"), allow_nan=False)
    return text.translate({ord(c): f"\\u{ord(c):04x}" for c in "<>&\u2028\u2029"})


def _policy(*scripts: str) -> str:
    """What a browser may do with the page: run these scripts, and fetch nothing."""
    sums = (b64encode(hashlib.sha256(each.encode()).digest()).decode() for each in scripts)
    allowed = " ".join(f"'sha256-{each}'" for each in sums)
    return (
        f"default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src {allowed}; "
        "base-uri 'none'; form-action 'none'"
    )
