"""``python -m benchmarks.overhead``: measure, print one table, say which goals were missed."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path

from . import machine, measures, peers, table

PARTS = ("events", "startup", "imports")


def main(arguments: list[str] | None = None) -> int:
    """Run the parts that were asked for; 1 under ``--strict`` when a goal was missed."""
    options = _parser().parse_args(arguments)
    interpreter = None if options.no_peers else peers.find(options.peers)
    about = machine.describe(interpreter)
    with tempfile.TemporaryDirectory(prefix="injector-overhead-") as folder:
        measured = _measure(options.only or list(PARTS), interpreter, Path(folder), options.rounds)
    for key, value in about.items():
        print(f"{key}: {value}")
    print()
    print("\n".join(table.lines(measured)))
    misses = table.missed(measured)
    print()
    print("\n".join(_verdict(misses, table.unmeasured(measured))))
    if options.json:
        _write(options.json, about, measured, misses)
    return 1 if misses and options.strict else 0


def _verdict(misses: list[str], unmeasured: list[str]) -> list[str]:
    said = [f"MISSED {miss}" for miss in misses] or ["every goal that was measured is met"]
    return said + [f"not measured: {title}" for title in unmeasured]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="benchmarks.overhead", description=__doc__)
    parser.add_argument("--rounds", type=int, default=9, help="turns each tool gets (default 9)")
    parser.add_argument("--only", action="append", choices=PARTS, help="measure only this part")
    parser.add_argument("--peers", metavar="PYTHON", help="an interpreter that has voir and ptera")
    parser.add_argument("--no-peers", action="store_true", help="leave the peers' columns out")
    parser.add_argument("--json", metavar="FILE", help="write what was measured there as well")
    parser.add_argument("--strict", action="store_true", help="exit with 1 if a goal is missed")
    return parser


def _measure(
    parts: list[str], interpreter: str | None, folder: Path, rounds: int
) -> measures.Table:
    measured: measures.Table = {}
    if "events" in parts:
        measured |= measures.events(interpreter, folder, max(rounds // 3, 1))
    if "startup" in parts:
        measured |= measures.startup(interpreter, folder, 2 * rounds)
    if "imports" in parts:
        measured |= measures.imports(folder, 2 * rounds)
    return measured


def _write(
    file: str, about: dict[str, object], measured: measures.Table, misses: list[str]
) -> None:
    found = {row: {c: s._asdict() for c, s in cells.items()} for row, cells in measured.items()}
    text = json.dumps({"machine": about, "measured": found, "missed": misses}, indent=1)
    Path(file).write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
