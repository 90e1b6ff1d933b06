"""Memory per region and step, from rows that say what there was before and after."""

from __future__ import annotations

from layouts import MS, Program, only, report

from injector.store.spans import memory_payload

MIB = 2**20


def _trained(memory: bool) -> Program:
    """Each forward takes 1 MiB more than the one before, on a device twice of it."""
    program = Program()
    for turn in range(20):
        start = program.now
        program.turn()
        last = 160 + turn
        for region, begin, more in (("io", start, 0), ("forward", start + MS, last - 100)):
            for where, factor in (("host", 1), ("cuda:0", 2)) if memory else ():
                payload = memory_payload(100 * MIB * factor, (100 + more) * MIB * factor)
                end = begin + MS // 2
                program.row(region, begin - MS // 50, end, payload, clock="memory", device=where)
    program.dry()
    return program


def test_regions_and_steps(tmp_path):
    found = report(tmp_path / "run", _trained(memory=True))
    by = {(each.where, each.region): each for each in found.memory}
    assert next(iter(by)) == ("host", "step")
    assert by["host", "io"].change == 0 and by["host", "io"].largest == 100 * MIB
    # The loop's first steps are its warm-up, which is left out of all figures.
    first = by["host", "forward"]
    assert first.calls == 1 and 60 * MIB < first.change <= 80 * MIB
    assert first.largest == by["host", "step"].largest == 179 * MIB
    assert by["host", "step"].change == first.change
    assert by["cuda:0", "forward"].largest == 2 * 179 * MIB


def test_steps_that_were_skipped_are_left_out(tmp_path):
    found = report(tmp_path / "run", _trained(memory=True), limits={"skip": 8})
    [forward] = [m for m in found.memory if (m.where, m.region) == ("host", "forward")]
    assert forward.change == (68 + 79) / 2 * MIB


def test_rows_of_memory_are_no_spans(tmp_path):
    without = report(tmp_path / "without", _trained(memory=False))
    found = report(tmp_path / "run", _trained(memory=True))
    assert without.memory == ()
    assert only(found).tree == only(without).tree and found.segments == without.segments
    assert found.unmeasured == without.unmeasured
