"""Profiles written by hand, in the shapes that programs have."""

from __future__ import annotations

from injector.analysis.profile import Evaluation, Profile, SourceLine, TimeSegment, Verdict
from injector.analysis.statistics import Statistics
from injector.analysis.training_loop import (
    LoopRank,
    Node,
    Straggler,
    Throughput,
    TrainingLoop,
    Warmup,
)
from injector.value_class import replace

FETCH = SourceLine("/home/me/train.py", 31, "main", "for x, y in loader:")
FORWARD = SourceLine("/home/me/train.py", 33, "main", "loss = F.cross_entropy(model(x), y)")
BACKWARD = SourceLine("/home/me/train.py", 34, "main", "loss.backward()")
UPDATE = SourceLine("/home/me/train.py", 35, "main", "optimizer.step()")
VALIDATE = SourceLine("/home/me/train.py", 41, "evaluate", "for x, y in held_out:")
SAVE = SourceLine("/home/me/train.py", 52, "main", "torch.save(model.state_dict(), path)")
FIT = SourceLine("/home/me/fit.py", 12, "main", "model.fit(x, y)")


def sample(median: float, n: int = 216) -> Statistics:
    return Statistics(
        n, median * 1.02, median, median * 1.1, median * 0.05, median * 0.9, median * 2
    )


def node(name: str, seconds: float, step: float, **more: object) -> Node:
    fields = {"place": None, "calls": 1.0, **more}
    return Node(name=name, host=sample(seconds), share=seconds / step, **fields)  # type: ignore


def step_tree(device: bool = False) -> Node:
    step = 0.0317
    on = {"device": sample(0.0061)} if device else {}
    comm = (node("comm", 0.0012, step, nbytes=4.2e6, **on),) if device else ()
    children = (
        node(
            "other",
            0.0009,
            step,
            calls=0.0,
            what="between train.py:31 (io) and train.py:33 (forward)",
        ),
        node("io", 0.0203, step, place=FETCH),
        node("forward", 0.0044, step, place=FORWARD, **on),
        node("backward", 0.0049, step, place=BACKWARD, children=comm, **on),
        node("optimizer", 0.0012, step, place=UPDATE, **on),
    )
    return node("step", step, step, children=children, **on)


def track(rank: int | None, **more: object) -> LoopRank:
    fields: dict[str, object] = {
        "process": rank or 0,
        "rank": rank,
        "host": "node7",
        "device": None,
        "steps": 240,
        "step": sample(0.0317),
        "throughput": Throughput(12.62, 403.8, None, None),
        "waits": 0.0,
        "regions": {"io": 0.0203, "forward": 0.0044, "backward": 0.0049, "optimizer": 0.0012},
    }
    return LoopRank(**{**fields, **more})  # type: ignore


TRACK = track(None)

LOOP = TrainingLoop(
    task="train",
    paced_by="loader",
    place=FETCH,
    steps=240,
    warmup=Warmup(24, 3.1, 2.9),
    step=sample(0.0317),
    tree=step_tree(),
    throughput=Throughput(12.62, 403.8, None, sample(410.1)),
    items_per_step=32.0,
    tokens_per_step=None,
    fetches_per_step=1.0,
    updates_per_step=1.0,
    ranks=(TRACK,),
)

STRETCHES = (
    TimeSegment("start-up", 2.31, "until the first batch was asked for"),
    TimeSegment("warm-up", 3.1),
    TimeSegment("training", 4.0, "216 steps", FETCH),
    TimeSegment("evaluation", 0.8, "", VALIDATE),
    TimeSegment("training", 3.12, "216 steps", FETCH),
    TimeSegment("evaluation", 0.7, "", VALIDATE),
    TimeSegment("gap", 0.06, "before the end", SAVE),
    TimeSegment("gap", 0.05, "between optimizer (train.py:35) and io (train.py:31)", UPDATE),
    TimeSegment("shutdown", 0.05),
)

INPUT_BOUND = Verdict(
    "input-bound",
    "critical",
    "input-bound: 64.0 % of a step waits for a batch at train.py:31",
    ("io takes 20.3 of 31.7 ms (medians of 216 steps)", "the other regions take 11.4 ms"),
    "io at 10 % of a step is a warning, at 20 % critical",
    ("fetch ahead in other processes: DataLoader(…, num_workers=4)", "cache what is decoded"),
)

PLAIN = Profile(
    loops=(LOOP,),
    evaluations=(Evaluation(VALIDATE, 2, 40, 1.5, 1280.0, 853.3, {"io": 1.0, "forward": 0.4}),),
    segments=STRETCHES,
    wall=14.19,
    verdict=INPUT_BOUND,
    unmeasured=("device time: no device was used",),
)

SLOW = track(1, device="cuda:1", step=sample(0.0319), waits=0.0001)
SLOW = replace(SLOW, regions={**SLOW.regions, "io": 0.0271, "comm": 0.0001})
FAST = track(0, device="cuda:0", waits=0.0069)
FAST = replace(FAST, regions={**FAST.regions, "comm": 0.0069})

RANKS = replace(
    PLAIN,
    loops=(
        replace(
            LOOP,
            tree=step_tree(device=True),
            throughput=Throughput(25.2, 807.6, 103373.0, sample(410.1)),
            tokens_per_step=4096.0,
            fetches_per_step=4.0,
            ranks=(FAST, SLOW, replace(FAST, rank=2, process=2, device="cuda:2")),
            straggler=Straggler(1, 0.214, "io", 0.0068),
        ),
    ),
    verdict=Verdict(
        "straggler",
        "critical",
        "rank 1 makes the others wait 21.4 % of a step",
        ("rank 1 waits 0.1 ms in a step, the others 6.9 ms",),
        "a rank that waits less than the others by 10 % of a step: warning, by 20 %: critical",
        ("look at rank 1's loader",),
    ),
    unmeasured=(),
)

GAN = replace(
    PLAIN,
    loops=(
        replace(
            LOOP,
            paced_by="optimizer",
            place=UPDATE,
            updates_per_step=6.0,
            fetches_per_step=0.0,
            items_per_step=None,
            throughput=Throughput(
                12.62, None, None, sample(12.6), "no module was called with a tensor"
            ),
        ),
        replace(LOOP, task="pretrain", steps=100),
        replace(LOOP, task="probe", steps=5, step=sample(0.001, 5), warmup=Warmup(0, 0.0, 0.0)),
    ),
    evaluations=(),
    verdict=Verdict("none", "info", "nothing limits it: no region stands out", (), "", ()),
)

NOTHING = Profile(
    loops=(),
    evaluations=(),
    segments=(
        TimeSegment("start-up", 1.2),
        TimeSegment("gap", 3.0, "nothing known"),
        TimeSegment("shutdown", 0.1),
    ),
    wall=4.3,
    verdict=Verdict("none", "info", "no training step was seen", (), "", ()),
    others=(replace(node("fit", 2.5, 2.5, place=FIT), host=sample(2.5, 1), what="Ridge"),),
)

SHAPES = {"plain": PLAIN, "ranks": RANKS, "gan": GAN, "nothing": NOTHING}
