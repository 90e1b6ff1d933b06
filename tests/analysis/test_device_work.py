"""What a device had to do, against one that is simulated: kernels of known lengths, one after another."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from layouts import EPOCH, MS, Program, only, report

from injector.analysis import profiling
from injector.analysis.evidence import DeviceWork
from injector.analysis.machines import DeviceUsage, HostUsage
from injector.analysis.profile import Profile

KERNELS = 20
"""In a region, launched at equal distances."""


@dataclass
class Work:
    """A region: milliseconds for which the host launches, and which the device computes."""

    host: float
    device: float
    waits: bool = False
    """Whether the host waits for the device before the region ends, as ``.item()`` does."""


@dataclass
class Step:
    io: float = 0.1
    h2d: Work = field(default_factory=lambda: Work(0.05, 0.1))
    forward: Work = field(default_factory=lambda: Work(2, 1))
    backward: Work = field(default_factory=lambda: Work(4, 2))
    optimizer: Work = field(default_factory=lambda: Work(0.5, 0.2))
    after: float = 0.2
    waits: bool = False
    """Whether the host waits for the device after the optimizer, in no region."""


class Simulated:
    """A program and its device, which does what is queued in its order."""

    def __init__(self, bursts: tuple[int, int] | None = None) -> None:
        """``bursts``: of how many calls the first have times of the device, again and again."""
        self.bursts = bursts
        self.calls = 0
        self.program = Program()
        self.free = 0
        """When the device has done all that was queued."""
        self.computed = 0
        """Nanoseconds of kernels."""

    def region(self, name: str, work: Work) -> None:
        p = self.program
        start, passed = p.now, max(p.now, self.free)
        for _ in range(KERNELS):
            length = round(work.device / KERNELS * MS)
            self.free = max(p.now, self.free) + length
            self.computed += length if name != "h2d" else 0
            p.wait(work.host / KERNELS)
        if work.waits:
            p.now = max(p.now, self.free)
        self.free = max(
            p.now, self.free
        )  # the event at the end is passed at once where nothing waits
        site: dict[str, Any] = {} if name in ("backward", "h2d") else {"of": 1}
        site |= {"phase": "train"} if name == "forward" else {}
        p.row(name, start, p.now, 8 if name == "forward" else 0, **site)
        self.calls += 1
        if self.bursts is None or self.calls % self.bursts[1] < self.bursts[0]:
            site |= {"clock": "device", "device": "cuda:0", "how": "start"}
            p.row(name, passed, self.free, start + p.origin, **site)

    def step(self, step: Step) -> None:
        self.program.io(step.io)
        for name in ("h2d", "forward", "backward", "optimizer"):
            self.region(name, getattr(step, name))
        if step.waits:
            self.program.now = max(self.program.now, self.free)
        self.program.wait(step.after)


def found(
    folder: Path, steps: list[Step], load: float | None = None
) -> tuple[Profile, DeviceWork, float]:
    """The report, what it knows of the device, and the part of the time in which kernels ran."""
    simulated = Simulated()
    for step in steps:
        simulated.step(step)
    return *looked_at(folder, simulated.program, load), simulated.computed / simulated.program.now


def looked_at(folder: Path, program: Program, load: float | None) -> tuple[Profile, DeviceWork]:
    seen: list[DeviceWork] = []
    whole = profiling.device_work

    def device_work(*words: Any) -> DeviceWork | None:
        made = whole(*words)
        seen.extend([made] if made is not None else [])
        return made

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(profiling, "device_work", device_work)
        profile = report(folder, program, watched=[] if load is None else [machine(load)])
    return profile, seen[-1]


def machine(load: float) -> HostUsage:
    """A host with one device, sampled ten times a second."""
    loads = tuple((EPOCH + number / 10, load) for number in range(1000))
    device = DeviceUsage(
        "0", 0, "GPU", "", load, load, loads, None, None, None, None, None, {}, (), ""
    )
    facts: dict[str, Any] = {key: {} for key in ("metrics", "shortage", "container", "ranks")}
    return HostUsage("h", 9, processes=(), devices=(device,), problems=(), **facts)


TIMES = st.floats(0.01, 8)
WORK = st.builds(Work, TIMES, st.floats(0, 8), st.booleans())
STEPS = st.builds(
    Step, io=TIMES, h2d=WORK, forward=WORK, backward=WORK, optimizer=WORK, after=TIMES,
    waits=st.booleans(),
)  # fmt: skip


@settings(max_examples=15, deadline=None)
@given(st.lists(STEPS, min_size=1, max_size=3))
def test_a_device_never_works_less_than_is_certain(
    tmp_path_factory: pytest.TempPathFactory, kinds: list[Step]
) -> None:
    """What is certain is no more than what the device does, copies included, whatever the program."""
    simulated = Simulated()
    for number in range(60):
        simulated.step(kinds[number % len(kinds)])
    profile, device = looked_at(tmp_path_factory.mktemp("r"), simulated.program, None)
    shares = only(profile).tree.shares()
    works = [
        step for kind in kinds for step in (kind.h2d, kind.forward, kind.backward, kind.optimizer)
    ]
    busy = sum(work.device for work in works) * 60 / len(kinds) * MS / simulated.program.now
    assert device.queued(shares) <= busy + 0.08  # a first step more or less, of 60
    assert 0 <= device.copying <= device.queued(shares) + 1e-3
    assert all(0 <= part <= 1 for part in device.idle.values())


def test_a_device_that_is_behind_has_work_all_the_time(tmp_path: Path) -> None:
    profile, device, busy = found(
        tmp_path / "r", [Step(forward=Work(0.5, 3), backward=Work(1, 6))] * 60
    )
    assert busy > 0.9
    assert device.queued(only(profile).tree.shares()) > 0.97
    assert profile.verdict.kind == "compute-bound"
    assert profile.verdict.sentence.startswith("compute-bound: the device has work queued in ")


LAUNCH = Step(forward=Work(5, 0.3), backward=Work(10, 0.5), optimizer=Work(1, 0.1))
"""Kernels that are shorter than their launches."""
HEAVY = Step(forward=Work(1, 5), backward=Work(2, 10), waits=True)
INSIDE = Step(
    forward=Work(1, 5, waits=True), backward=Work(2, 10, waits=True), optimizer=Work(1, 2, True)
)
"""The host waits within its regions, so that each event is passed at once."""
COPIES = Step(h2d=Work(0.1, 20), waits=True)
PAGEABLE = Step(h2d=Work(30, 30))
STARVED = Step(io=30)


@pytest.mark.parametrize(
    ("step", "load", "kind"),
    [
        (LAUNCH, 0.1, "launch-bound"),
        (HEAVY, 0.9, "compute-bound"),
        (HEAVY, None, "compute-bound"),
        (INSIDE, 0.9, "compute-bound"),
        (COPIES, 0.1, "transfer-bound"),
        (COPIES, None, "transfer-bound"),
        (PAGEABLE, 0.05, "transfer-bound"),
        (STARVED, 0.1, "input-bound"),
        (STARVED, None, "input-bound"),
    ],
)
def test_what_limits_a_program_that_uses_a_device(
    tmp_path: Path, step: Step, load: float | None, kind: str
) -> None:
    profile, _, _ = found(tmp_path / "r", [step] * 400, load)
    verdict = profile.verdict
    assert verdict.kind == kind, verdict
    assert "uncertain" not in verdict.sentence
    assert not any("overhead-bound" in text for text in verdict.besides), verdict.besides
    assert "100 %" not in verdict.sentence


@pytest.mark.parametrize("step", [LAUNCH, INSIDE])
def test_launching_is_not_told_from_waiting_without_the_load_of_the_device(
    tmp_path: Path, step: Step
) -> None:
    """Where every event is passed at once, the events are the same for both."""
    profile, _, _ = found(tmp_path / "r", [step] * 100)
    assert profile.verdict.kind == "launch-bound"
    assert "uncertain: the load of the device was sampled too seldom" in profile.verdict.sentence
    assert profile.verdict.severity == "warning"


def test_the_load_is_that_of_the_steps_alone(tmp_path: Path) -> None:
    """A device that others used before, and that is sampled after the last step."""
    simulated = Simulated()
    for _ in range(400):
        simulated.step(LAUNCH)
    profile, device = looked_at(tmp_path / "r", simulated.program, 0.1)
    assert device.load == pytest.approx(0.1)
    assert f"{round(100 * 0.1)} % of the time" in " ".join(profile.verdict.evidence)


def test_what_is_excluded_is_not_counted(tmp_path: Path) -> None:
    """An evaluation between steps takes the device, and is no part of the steps."""
    simulated = Simulated()
    for number in range(60):
        simulated.step(LAUNCH)
        if number % 10 == 9:
            simulated.program.validate(3)
    profile, device = looked_at(tmp_path / "r", simulated.program, None)
    assert device.queued(only(profile).tree.shares()) < 0.05


@pytest.mark.parametrize("step", [LAUNCH, HEAVY, COPIES, STARVED])
@pytest.mark.parametrize("bursts", [(40, 402), (9, 50), (3, 7)])
def test_some_steps_say_what_all_do(tmp_path: Path, step: Step, bursts: tuple[int, int]) -> None:
    """Bursts begin and end within steps; of 3 in 7 calls, no step of four is whole."""
    whole, some = Simulated(), Simulated(bursts)
    for _ in range(400):
        whole.step(step)
        some.step(step)
    every, known = looked_at(tmp_path / "a", whole.program, 0.3)
    if bursts[0] < 4:
        with pytest.raises(IndexError):
            looked_at(tmp_path / "b", some.program, 0.3)
        assert only(report(tmp_path / "c", some.program)).tree.device is None
        return
    fewer, likewise = looked_at(tmp_path / "b", some.program, 0.3)
    assert fewer.verdict.kind == every.verdict.kind
    assert likewise.copying == pytest.approx(known.copying, abs=0.02)
    shares = only(every).tree.shares()
    assert likewise.queued(shares) == pytest.approx(known.queued(shares), abs=0.03)
    for one, other in zip(only(every).tree.children, only(fewer).tree.children, strict=True):
        assert (one.name, one.host) == (other.name, other.host)
        assert (one.device is None) == (other.device is None)
        if one.device is not None and other.device is not None:
            assert other.device.median == pytest.approx(one.device.median, rel=0.01)
            assert other.device.n < one.device.n
    assert {each.kind: each.factor for each in fewer.verdict.bounds} == {
        each.kind: pytest.approx(each.factor, rel=0.02) for each in every.verdict.bounds
    }


def test_a_wait_for_the_device_is_no_overhead(tmp_path: Path) -> None:
    """``loss.item()`` after the optimizer is in no region; the device works meanwhile."""
    profile, _, _ = found(tmp_path / "r", [HEAVY] * 100)
    [fact] = [text for text in profile.verdict.evidence if "while the device works" in text]
    other = only(profile).tree.shares()["other"]
    share = int(fact.split(" for ")[1].split()[0])
    assert "the host is in no region" in fact and other - 0.05 <= share / 100 <= other + 0.01
    # The same host, whose device has nothing to do.
    fewer = Step(forward=Work(1, 0), backward=Work(2, 0), after=12)
    profile, _, _ = found(tmp_path / "s", [fewer] * 100)
    assert not any("while the device works" in text for text in profile.verdict.evidence)
    assert profile.verdict.kind == "overhead-bound"


def test_what_the_host_does_beside_the_device_costs_only_the_rest(tmp_path: Path) -> None:
    """A fetch of 8 ms, for which the device still works at first."""
    profile, device, _ = found(tmp_path / "r", [Step(io=8, backward=Work(2, 5))] * 100, 0.5)
    part = only(profile).tree.shares()["io"] * device.idle["io"]
    texts = [profile.verdict.sentence, *profile.verdict.besides]
    [text] = [each for each in texts if "input-bound" in each]
    assert f"; the device has nothing queued in {round(100 * part)} % of the step" in text
