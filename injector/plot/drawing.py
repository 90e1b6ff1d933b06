"""A chart as PNG and SVG (matplotlib), as a page with that SVG and its numbers, and as text (uniplot)."""

from __future__ import annotations

import io
from collections.abc import Callable
from html import escape
from typing import Any

from ..errors import UserError
from ..report.formats import as_csv, as_json, as_table
from ..report.output import colored, room
from ..report.text import clean
from .chart import Chart, columns

FORMATS = ("terminal", "png", "svg", "html", "csv", "json")
INK = "#010203"
"""A colour that stands for that of the text around it, which only the page knows."""
INCHES = (8.0, 5.0)
ROWS = 17
"""The height of a chart in a terminal."""
LINE_SIGNS = "+ox*#@%&"
"""The characters of lines in a terminal without colours."""


def render(chart: Chart, form: str) -> bytes:
    """The chart in one of :data:`FORMATS`. Raises UserError if the library that draws it is not installed."""
    if form in ("png", "svg"):
        return _as_image(chart, form, "black", facecolor="white")
    texts: dict[str, Callable[[Chart], str]] = {
        "terminal": as_text,
        "html": as_page,
        "csv": lambda chart: as_csv(columns(chart)),
        "json": lambda chart: as_json(columns(chart)),
    }
    return texts[form](chart).encode("utf-8", "replace")


def not_installed(error: ImportError) -> UserError:
    """The error to raise if a library cannot be imported."""
    return UserError(f"plots need {error.name}: pip install 'overlay-injector[plot]'")


def _as_image(chart: Chart, form: str, ink: str, **options: Any) -> bytes:
    """The chart as ``png`` or ``svg``, by matplotlib, with text and axes in the colour ``ink``."""
    try:
        import matplotlib
        from matplotlib.figure import Figure  # without pyplot: no window, no state
    except ImportError as error:
        raise not_installed(error) from None
    settings: Any = dict.fromkeys(
        ("text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color"), ink
    )
    # A $ in a name begins no formula; the same chart makes the same file; text in an SVG stays text.
    settings |= {"text.parse_math": False, "svg.hashsalt": "injector", "svg.fonttype": "none"}
    with matplotlib.rc_context(settings):
        figure = Figure(figsize=INCHES, layout="constrained")
        _plot(figure.add_subplot(), chart)
        out = io.BytesIO()
        metadata = {"Date": None} if form == "svg" else {}
        figure.savefig(out, format=form, dpi=150, metadata=metadata, **options)
    return out.getvalue()


def _plot(axes: Any, chart: Chart) -> None:
    """Draw the chart into ``axes`` of matplotlib."""
    for line in chart.lines:
        dots = line.dots
        bars = [[dot.below for dot in dots], [dot.above for dot in dots]]
        axes.errorbar(
            [dot.x for dot in dots],
            [dot.y for dot in dots],
            yerr=bars if any(map(any, bars)) else None,
            label=clean(line.name).lstrip("_") or "–",  # matplotlib leaves out names that begin so
            marker="o",
            markersize=4,
            capsize=3,
        )
    axes.set_title(clean(chart.title))
    axes.set_xlabel(clean(chart.x.label))
    axes.set_ylabel(clean(chart.y.label))
    if chart.x.log:
        axes.set_xscale("log")
    if chart.y.log:
        axes.set_yscale("log")
    else:
        axes.set_ylim(bottom=min(0.0, axes.get_ylim()[0]))
    if chart.categories:
        axes.set_xticks(range(len(chart.categories)), [clean(each) for each in chart.categories])
    elif len({dot.x for line in chart.lines for dot in line.dots}) <= 12:
        values = sorted({dot.x for line in chart.lines for dot in line.dots})
        axes.set_xticks(values, [f"{value:g}" for value in values], minor=False)
        axes.minorticks_off()
    axes.grid(alpha=0.3)
    if len(chart.lines) > 1:
        axes.legend(framealpha=0.0)


def as_page(chart: Chart) -> str:
    """A page without scripts: the drawing, in the colours of the reader's scheme, and a table of its dots."""
    drawing = _as_image(chart, "svg", INK, transparent=True).decode()
    drawing = drawing[drawing.index("<svg") :].replace(INK, "currentColor")
    described = escape(f"{chart.title}: {chart.y.label} over {chart.x.label}")
    drawing = drawing.replace("<svg", f'<svg role="img" aria-label="{described}"', 1)
    table = columns(chart)
    heads = "".join(f'<th scope="col">{escape(clean(name))}</th>' for name in table)
    rows = "".join(
        "<tr>" + "".join(f"<td>{escape(_cell(value))}</td>" for value in row) + "</tr>\n"
        for row in zip(*table.values(), strict=True)
    )
    title = escape(clean(chart.title))
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<style>
:root {{ color-scheme: light dark }}
body {{ font: 15px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem }}
svg {{ width: 100%; height: auto }}
svg text {{ fill: currentColor }}
div {{ overflow-x: auto }}
table {{ border-collapse: collapse; font-variant-numeric: tabular-nums }}
th, td {{ padding: .2rem .8rem; text-align: right; border-bottom: 1px solid #8884 }}
th:first-child, td:first-child {{ text-align: left }}
</style></head>
<body><main><h1>{title}</h1>
{drawing}
<div tabindex="0" role="region" aria-label="The numbers"><table><thead><tr>{heads}</tr></thead>
<tbody>
{rows}</tbody></table></div></main></body></html>
"""


def _cell(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else clean(str(value))


def as_text(chart: Chart) -> str:
    """The chart as text, as wide as the terminal, by uniplot, and a table of its dots."""
    try:
        import sys

        import uniplot
    except ImportError as error:
        raise not_installed(error) from None
    has_colors = colored(sys.stdout)
    width = max(min(room(), 100) - 14, 20)  # the labels of the y axis take 14 columns
    names = [clean(line.name) for line in chart.lines]
    signs: Any = {"character_set": "ascii", "force_ascii_characters": list(LINE_SIGNS)}
    drawn = uniplot.plot_to_string(
        xs=[[dot.x for dot in line.dots] for line in chart.lines],
        ys=[[dot.y for dot in line.dots] for line in chart.lines],
        lines=True,
        color=has_colors,
        title=clean(f"{chart.title}   ({chart.y.label})"),
        legend_labels=names if len(names) > 1 else None,
        x_as_log=chart.x.log,
        y_as_log=chart.y.log,
        width=width,
        height=ROWS,
        **({} if has_colors else signs),
    )
    return f"{drawn.rstrip()}\n{clean(chart.x.label):^{width}}\n\n{as_table(columns(chart))}"
