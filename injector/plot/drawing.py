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
"""Stands for the colour of the text around, which only the page knows."""
INCHES = (8.0, 5.0)
ROWS = 17
SIGNS = "+ox*#@%&"
"""Of lines without colours."""


def render(found: Chart, form: str) -> bytes:
    """``found`` in one of :data:`FORMATS`. Raises UserError where what draws it is not installed."""
    if form in ("png", "svg"):
        return _drawn(found, form, "black", facecolor="white")
    texts: dict[str, Callable[[Chart], str]] = {
        "terminal": as_text,
        "html": as_page,
        "csv": lambda found: as_csv(columns(found)),
        "json": lambda found: as_json(columns(found)),
    }
    return texts[form](found).encode("utf-8", "replace")


def missing(error: ImportError) -> UserError:
    """The message where a library cannot be imported."""
    return UserError(f"plots need {error.name}: pip install 'overlay-injector[plot]'")


def _drawn(found: Chart, form: str, ink: str, **how: Any) -> bytes:
    try:
        import matplotlib
        from matplotlib.figure import Figure  # without pyplot: no window, no state
    except ImportError as error:
        raise missing(error) from None
    settings: Any = dict.fromkeys(
        ("text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color"), ink
    )
    # A name with a $ is a name; the same chart is the same file; text stays text.
    settings |= {"text.parse_math": False, "svg.hashsalt": "injector", "svg.fonttype": "none"}
    with matplotlib.rc_context(settings):
        figure = Figure(figsize=INCHES, layout="constrained")
        _fill(figure.add_subplot(), found)
        out = io.BytesIO()
        metadata = {"Date": None} if form == "svg" else {}
        figure.savefig(out, format=form, dpi=150, metadata=metadata, **how)
    return out.getvalue()


def _fill(axes: Any, found: Chart) -> None:
    for line in found.lines:
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
    axes.set_title(clean(found.title))
    axes.set_xlabel(clean(found.x.label))
    axes.set_ylabel(clean(found.y.label))
    if found.x.log:
        axes.set_xscale("log")
    if found.y.log:
        axes.set_yscale("log")
    else:
        axes.set_ylim(bottom=min(0.0, axes.get_ylim()[0]))
    if found.categories:
        axes.set_xticks(range(len(found.categories)), [clean(each) for each in found.categories])
    elif len({dot.x for line in found.lines for dot in line.dots}) <= 12:
        values = sorted({dot.x for line in found.lines for dot in line.dots})
        axes.set_xticks(values, [f"{value:g}" for value in values], minor=False)
        axes.minorticks_off()
    axes.grid(alpha=0.3)
    if len(found.lines) > 1:
        axes.legend(framealpha=0.0)


def as_page(found: Chart) -> str:
    """One file without scripts: the drawing in the colours of the reader's scheme, and its numbers."""
    drawing = _drawn(found, "svg", INK, transparent=True).decode()
    drawing = drawing[drawing.index("<svg") :].replace(INK, "currentColor")
    described = escape(f"{found.title}: {found.y.label} over {found.x.label}")
    drawing = drawing.replace("<svg", f'<svg role="img" aria-label="{described}"', 1)
    table = columns(found)
    heads = "".join(f'<th scope="col">{escape(clean(name))}</th>' for name in table)
    rows = "".join(
        "<tr>" + "".join(f"<td>{escape(_cell(value))}</td>" for value in row) + "</tr>\n"
        for row in zip(*table.values(), strict=True)
    )
    title = escape(clean(found.title))
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


def as_text(found: Chart) -> str:
    """The chart in as much room as there is, and its numbers below."""
    try:
        import sys

        import uniplot
    except ImportError as error:
        raise missing(error) from None
    painted = colored(sys.stdout)
    width = max(min(room(), 100) - 14, 20)
    names = [clean(line.name) for line in found.lines]
    signs: Any = (
        {} if painted else {"character_set": "ascii", "force_ascii_characters": list(SIGNS)}
    )
    drawn = uniplot.plot_to_string(
        xs=[[dot.x for dot in line.dots] for line in found.lines],
        ys=[[dot.y for dot in line.dots] for line in found.lines],
        lines=True,
        color=painted,
        title=clean(f"{found.title}   ({found.y.label})"),
        legend_labels=names if len(names) > 1 else None,
        x_as_log=found.x.log,
        y_as_log=found.y.log,
        width=width,
        height=ROWS,
        **signs,
    )
    return f"{drawn.rstrip()}\n{clean(found.x.label):^{width}}\n\n{as_table(columns(found))}"
