"""Where the host was in the steps of each loop, of the stacks that were sampled (``--sample``)."""

from __future__ import annotations

from collections.abc import Iterator

from ..analysis.profile import LoopSamples
from ..analysis.summary import Summary
from ..named_tuple import NamedTuple
from .text import clean, code_line, count, line_of, percent, table, wrapped

LEAST = 0.02
"""The part of a region's samples below which a line is not shown."""
SMALL = 0.005
"""The part of a step below which a region is not shown."""
FEW = 100
"""Samples of a region below which shares are marked as rough."""
HEADS = ("of a step", "of its samples", "line")


class SampleRow(NamedTuple):
    """A line of the program in a region; the first of a region has its name and its share of a step."""

    region: str
    share: float | str
    samples: float
    line: str


def lines(summary: Summary) -> list[str]:
    """A table for each loop, for a terminal."""
    found: list[str] = []
    for loop in summary.sampled:
        rows = [
            [row.region, _percent(row.share), percent(row.samples), row.line]
            for row in rows_of(loop)
        ]
        shown = table("region", [*HEADS[:-1], ""], rows)
        found += [each for text in sentences(summary, loop) for each in wrapped(text)] + shown
    return found


def sentences(summary: Summary, loop: LoopSamples) -> list[str]:
    """What the samples of a loop are."""
    where = f" at {line_of(loop.place)}" if loop.place else ""
    found = [
        f"sampled stacks of {loop.task}{where}: {count(loop.samples, 'sample')} of its steps, "
        f"{summary.sampling} a second in {count(loop.processes, 'process')}"
    ]
    few = [clean(each.region) for each in loop.regions if each.samples < FEW and each.share >= 0.1]
    if few:
        found.append(
            f"fewer than {FEW} samples say roughly where the host was in: {', '.join(few)}"
        )
    return found


def rows_of(loop: LoopSamples) -> Iterator[SampleRow]:
    """The lines of each region that is a part of a step worth a row."""
    for region in loop.regions:
        if region.share < SMALL:
            continue
        name, share = clean(region.region), region.share
        for number, line in enumerate(region.lines):
            part = line.samples / region.samples
            if part >= LEAST or not number:
                inner = f"   in {clean(line.inner)}" if line.inner else ""
                # Functions of compiled code have rows of their own; their line is written out in the first.
                same = any(before.place == line.place for before in region.lines[:number])
                text = f"{line_of(line.place) if same else code_line(line.place)}{inner}"
                yield (
                    SampleRow("", "", part, text) if number else SampleRow(name, share, part, text)
                )


def _percent(share: float | str) -> str:
    return share if isinstance(share, str) else percent(share)
