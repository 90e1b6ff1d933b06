"""The step as a tree of regions, over all ranks."""

from __future__ import annotations

import numpy as np

from .profile import Exceptional, Node
from .recorded import Statistics
from .samples import exceptional, statistics_of
from .tables import Path, Seconds
from .units import Unit


def tree_of(units: list[Unit], warmup: int, where: str | None) -> Node:
    """The step of a loop. ``where`` says in words between which lines most of ``other`` lies."""
    return _Tree(units, warmup).node((), where)


def exceptional_of(unit: Unit, warmup: int) -> Exceptional | None:
    """The measured steps of ``unit`` that no share counts."""
    first = measured_from(unit, warmup)
    seconds = unit.table.seconds[first:]
    which = exceptional(seconds)
    if not which.any():
        return None
    spent = {name: float(each[first:][which].sum()) for name, each in unit.table.regions().items()}
    total = float(seconds[which].sum(dtype=np.float64))
    part = total / float(seconds.sum(dtype=np.float64))
    return Exceptional(int(which.sum()), total, part, max(spent, key=lambda name: spent[name]))


class _Tree:
    def __init__(self, units: list[Unit], warmup: int) -> None:
        self.units = units
        self.first = [measured_from(unit, warmup) for unit in units]
        self.paths = list(dict.fromkeys(path for unit in units for path in unit.table.columns))
        whole = self.each(())
        self.usual = ~np.concatenate([exceptional(each) for each in whole])
        self.total = float(np.concatenate(whole)[self.usual].sum(dtype=np.float64))

    def each(self, path: Path, own: bool = False) -> list[Seconds]:
        """The seconds of each unit's measured steps, without the regions inside if ``own``."""
        found = []
        for unit, first in zip(self.units, self.first, strict=True):
            table = unit.table
            if path and path not in table.columns:
                seconds = np.zeros(len(table.seconds), np.float32)
            elif own:
                seconds = table.own(path)
            else:
                seconds = table.columns[path].seconds if path else table.seconds
            found.append(seconds[first:])
        return found

    def share(self, seconds: Seconds) -> float:
        if not self.total:
            return 0.0
        return float(seconds[self.usual].sum(dtype=np.float64)) / self.total

    def node(self, path: Path, where: str | None = None) -> Node:
        seconds = np.concatenate(self.each(path))
        inner = [p for p in self.paths if len(p) == len(path) + 1 and p[: len(path)] == path]
        children = [self.node(each) for each in inner]
        if children:
            children.append(self._rest(path, where))
        columns = [unit.table.columns[path] for unit in self.units if path in unit.table.columns]
        what = sorted(frozenset().union(*(column.what for column in columns)))
        known = [column.nbytes for column in columns if column.nbytes is not None]
        return Node(
            name=path[-1][0] if path else "step",
            place=path[-1][1] if path else self.units[0].pace.place,
            host=statistics_of(seconds),
            share=self.share(seconds),
            calls=float(np.mean([column.calls for column in columns])) if path else 1.0,
            device=self._device(path),
            nbytes=sum(known) / len(known) if known else None,
            children=tuple(children),
            what=", ".join(what[:3]) or None,
            together=self._together(inner, children),
        )

    def _together(self, inner: list[Path], children: list[Node]) -> tuple[Node, ...]:
        """The regions that have several lines, each as one."""
        found = []
        for name in dict.fromkeys(path[-1][0] for path in inner):
            paths = [path for path in inner if path[-1][0] == name]
            nodes = [node for node in children if node.name == name]
            if len(paths) > 1:
                units = zip(*map(self.each, paths), strict=True)
                seconds = np.concatenate([np.sum(each, axis=0) for each in units])
                found.append(
                    Node(
                        name,
                        None,
                        statistics_of(seconds),
                        self.share(seconds),
                        sum(node.calls for node in nodes),
                        self._device(*paths),
                        sum(node.nbytes or 0.0 for node in nodes) or None,
                    )
                )
        return tuple(found)

    def _rest(self, path: Path, where: str | None) -> Node:
        rest = np.concatenate(self.each(path, own=True))
        return Node("other", None, statistics_of(rest), self.share(rest), 0.0, what=where)

    def _device(self, *paths: Path) -> Statistics | None:
        """Of several paths, their sums."""
        found = []
        for unit, first in zip(self.units, self.first, strict=True):
            columns = [unit.table.columns.get(path) for path in paths]
            known = [column.device for column in columns if column and column.device is not None]
            if paths == ((),) and (busy := unit.table.busy()) is not None:
                known = [busy]
            if known:
                found.append(np.sum(known, axis=0)[first:])
        return statistics_of(np.concatenate(found)) if found else None


def measured_from(unit: Unit, warmup: int) -> int:
    """The first step of ``unit`` that counts, where the loop's warm-up is ``warmup`` steps."""
    return min(warmup, len(unit.start) // 2)
