"""The section about sampled stacks (``--sample``): the lines of the program that the host was at in steps."""

from __future__ import annotations

from collections.abc import Iterator

from ..analysis.profile import LoopSamples, SampledLine
from ..analysis.summary import Summary
from ..named_tuple import NamedTuple
from .text import clean, code_line, count, line_of, percent, table, wrapped

LEAST = 0.02
"""The fraction of a region's samples below which a line is not shown."""
SMALL = 0.005
"""The fraction of a step below which a region is not shown."""
FEW = 100
"""The number of samples of a region below which its shares are called rough."""
NEARLY_ALL = 0.95
"""The fraction of a line's samples in one function from which the report gives no part."""
HEADS = ("of a step", "of its samples", "line")


class SampleRow(NamedTuple):
    """A line of the program in a region, whose name and share of a step only its first row has."""

    region: str
    share: float | str
    samples: float
    line: str


def lines(summary: Summary) -> list[str]:
    """The sentences and the table of each loop, for a terminal."""
    result: list[str] = []
    for loop in summary.sampled:
        rows = [
            [row.region, _percent(row.share), percent(row.samples), row.line]
            for row in rows_of(loop)
        ]
        shown = table("region", [*HEADS[:-1], ""], rows)
        result += [line for text in sentences(summary, loop) for line in wrapped(text)] + shown
    return result


def sentences(summary: Summary, loop: LoopSamples) -> list[str]:
    """Sentences on how many samples of a loop there are, and where these are few."""
    where = f" at {line_of(loop.place)}" if loop.place else ""
    texts = [
        f"sampled stacks of {loop.task}{where}: {count(loop.samples, 'sample')} of its steps, "
        f"{summary.sampling} a second in {count(loop.processes, 'process')}"
    ]
    few = [
        clean(region.region)
        for region in loop.regions
        if region.samples < FEW and region.share >= 0.1
    ]
    if few:
        texts.append(
            f"fewer than {FEW} samples say roughly where the host was in: {', '.join(few)}"
        )
    return texts


def rows_of(loop: LoopSamples) -> Iterator[SampleRow]:
    """The rows of a loop: the lines of each region, but for small regions and rare lines."""
    for region in loop.regions:
        if region.share < SMALL:
            continue
        name, share = clean(region.region), region.share
        for number, line in enumerate(region.lines):
            part = line.samples / region.samples
            if part >= LEAST or not number:
                inner = f"   {_part_in(line)}" if line.inner else ""
                # A line that calls several functions of compiled code has a row for each, and its text in the
                # first of them.
                same = any(before.place == line.place for before in region.lines[:number])
                text = f"{line_of(line.place) if same else code_line(line.place)}{inner}"
                yield (
                    SampleRow("", "", part, text) if number else SampleRow(name, share, part, text)
                )


def _part_in(line: SampledLine) -> str:
    """The function that most samples of a line were in, and which part of them unless nearly all were."""
    part = line.in_inner / line.samples
    return f"{'' if part >= NEARLY_ALL else f'{percent(part)} of them '}in {clean(line.inner)}"


def _percent(share: float | str) -> str:
    return share if isinstance(share, str) else percent(share)
