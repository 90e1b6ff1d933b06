"""``--torch-profile``: some steps under torch.profiler, in the run folder and in the trace of Perfetto."""

from __future__ import annotations

import gzip
import json
from collections import Counter

import pytest

from injector.analysis.views import views
from injector.measure.torch_profile import MODULE, STARTS, TorchProfile
from injector.store.folder import open_run

torch = pytest.importorskip("torch")
pytest.importorskip("perfetto")
from test_perfetto import Read  # noqa: E402

pytestmark = pytest.mark.xdist_group("torch-profile")  # one run for most of these

PROGRAM = """
import sys, time, torch
from torch.utils.data import DataLoader, TensorDataset
from injector import Timer, metric

torch.distributed.init_process_group("gloo")
rows = TensorDataset(torch.randn(40, 4), torch.randn(40, 1))
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
timer = Timer()
for at, (x, y) in enumerate(DataLoader(rows, batch_size=4)):
    timer.start("mine")
    with torch.profiler.record_function("mine"), torch.profiler.record_function(f"turn {at}"):
        time.sleep(0.005)
    timer.end("mine")
    (model(x) - y).pow(2).mean().backward()
    optimizer.step()
    optimizer.zero_grad()
    metric("seen", 4 * at)
print("end")
torch.distributed.destroy_process_group()
"""
TWO = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")


@pytest.fixture(scope="module")
def profiled(tmp_path_factory, run_inject):
    """A run of two ranks, with what else it said."""
    folder = tmp_path_factory.mktemp("profiled")
    (folder / "train.py").write_text(PROGRAM)
    words = ("--into", "r", "--torch-profile", "3:6", "--interval", "0.5", *TWO, "train.py")
    done = run_inject(folder, "run", *words)
    # Without buffers (PYTHONUNBUFFERED) a line's end is written apart: another line may come between.
    assert (done.returncode, "".join(done.stdout.split())) == (0, "endend"), done.stderr
    assert "Exception ignored" not in done.stderr
    return folder, done.stderr


@pytest.fixture(scope="module")
def traces(profiled):
    """What the profiler wrote, by rank."""
    paths = [profiled[0] / "r" / "artifacts" / "profiles" / name for name in NAMES]
    return [json.loads(gzip.decompress(path.read_bytes())) for path in paths]


NAMES = tuple(f"rank_{rank}.pt.trace.json.gz" for rank in (0, 1))


@pytest.fixture(scope="module")
def merged(profiled, export):
    """The trace of Perfetto that has all."""
    done = export(profiled[0], "r", "--to", "perfetto", "-o", "t.pftrace")
    assert done.returncode == 0, done.stderr
    return profiled[0] / "t.pftrace"


def test_those_steps_and_no_others_are_recorded(traces):
    for trace in traces:
        turns = [one["name"] for one in trace["traceEvents"] if one["name"].startswith("turn")]
        assert turns == ["turn 3", "turn 4", "turn 5"]


def test_the_files_are_in_report_and_seal(profiled):
    folder, report = profiled
    names = [f"profiles/{name}" for name in NAMES]
    info = json.loads((folder / "r" / "run.json").read_text())
    assert all(name in report for name in names)
    assert sorted(one["name"] for one in info["artifacts"]) == names
    assert {f"artifacts/{name}" for name in names} <= info["files"].keys()
    assert info["warnings"] == []


def test_the_report_says_that_those_steps_are_longer(profiled):
    [text] = [each for each in profiled[1].splitlines() if "--torch-profile:" in each]
    assert text.strip() == (
        "- the program's own pace in the steps of --torch-profile: they are longer for it"
    )


def test_our_regions_are_in_the_files(traces):
    for trace in traces:
        ours = [one for one in trace["traceEvents"] if one.get("cat") == "injector"]
        assert {"forward", "backward", "optimizer", "zero_grad"} <= {one["name"] for one in ours}
        theirs = [one for one in trace["traceEvents"] if one.get("cat") == "user_annotation"]
        _overlap(
            [(one["ts"], one["ts"] + one["dur"]) for one in ours if one["name"] == "optimizer"],
            [
                (one["ts"], one["ts"] + one["dur"])
                for one in theirs
                if one["name"] == "Optimizer.step#SGD.step"
            ],
        )


def test_perfetto_has_all_ranks_on_one_clock(merged):
    read = Read(merged)
    for rank in (0, 1):
        tracks = [name for name in read.slices if name.startswith(f"rank {rank} on ")]
        [regions] = [name for name in tracks if name.endswith(": regions")]
        ours = [one[1:3] for one in read.slices[regions] if one[0] == "mine"]
        torchs = [name for name in tracks if ": torch.profiler: " in name]
        theirs = [one[1:3] for name in torchs for one in read.slices[name] if one[0] == "mine"]
        assert len(ours) == 10
        _overlap(sorted(ours)[3:6], theirs)
        assert not any(one[0] == "optimizer" for name in torchs for one in read.slices[name])


def test_perfettos_own_trace_processor_reads_it(profiled, merged, traces, processor):
    """By SQL over its tables, against what the run and the profiler say themselves."""
    processor.load(merged.read_bytes())
    assert processor.ask(WRONG) == []
    found = views(open_run(str(profiled[0] / "r")))
    regions, steps, values = found["regions"](), found["steps"](), found["values"]()
    names = [name for name, _ in processor.ask("select name, pid from process where name != ''")]
    assert sum(name.startswith("rank ") for name in names) == 2
    for rank in (0, 1):
        codes, names = regions["region"]
        mine = Counter(names[code] for code in codes[regions["rank"] == rank])
        assert dict(processor.ask(SLICES.format(rank=rank, track="regions"))) == mine
        [(count, seconds)] = processor.ask(STEPS.format(rank=rank))
        whole = [s for s, r in zip(steps["seconds"], steps["rank"], strict=True) if r == rank]
        assert (count, seconds) == (len(whole), pytest.approx(sum(whole), abs=1e-6))
        events = [
            one["name"]
            for one in traces[rank]["traceEvents"]
            if one["ph"] == "X" and one.get("cat") not in ("injector", "Trace")
        ]
        assert dict(processor.ask(SLICES.format(rank=rank, track="torch.profiler*"))) == Counter(
            events
        )
        seen = processor.ask(COUNTER.format(f"seen/rank_{rank}"))
        assert seen == [(4.0 * at,) for at in range(10)]
    assert len([one for one in values["name"] if one == "seen"]) == 20
    assert processor.ask("select 1 from counter_track where name = 'tree_rss' and unit = 'B'")
    # On the clock of all: each step of the profiler overlaps its own turn of the loop.
    assert processor.ask(TURNS) == [(6,)]


WRONG = "select name, value from stats where severity = 'error' and value > 0"
OF_RANK = """from slice join process_track track on track.id = slice.track_id join process using (upid)
where process.name glob 'rank {rank} on *' and track.name glob """
SLICES = f"select slice.name, count(*) {OF_RANK}'{{track}}' group by 1"
STEPS = f"select count(*), sum(slice.dur) / 1e9 {OF_RANK}'steps: train'"
COUNTER = """select value from counter join counter_track track on track.id = counter.track_id
where track.name = '{}' order by ts"""
TURNS = """
select count(*) from slice turn join process_track theirs on theirs.id = turn.track_id
join process_track ours on ours.upid = theirs.upid and ours.name = 'regions'
join slice mine on mine.track_id = ours.id and mine.name = 'mine'
where turn.name glob 'turn *' and turn.ts < mine.ts + mine.dur and mine.ts < turn.ts + turn.dur
"""


def _overlap(ours, theirs):
    """The range of the profiler lies in ours, which begins before it: most of both is the same."""
    assert len(ours) == len(theirs) == 3
    for (start, end), (begin, over) in zip(sorted(ours), sorted(theirs), strict=True):
        assert min(end, over) - max(start, begin) > 0.5 * (over - begin)


def test_without_torch_one_warning_says_so(tmp_path, run_inject):
    (tmp_path / "train.py").write_text("print('end')")
    done = run_inject(tmp_path, "run", "--into", "r", "--torch-profile", "3:6", "train.py")
    assert (done.returncode, done.stdout) == (0, "end\n")
    info = json.loads((tmp_path / "r" / "run.json").read_text())
    [warning] = info["warnings"]
    assert "--torch-profile 3:6 recorded nothing" in warning["text"]


class Recorded:
    """A profile in this process, and what it tells."""

    def __init__(self, folder, steps=(1, 3)):
        self.told, self.failures = [], []
        self.profile = TorchProfile(
            steps,
            str(folder),
            lambda event, data: self.told.append((event, data)),
            lambda where, error: self.failures.append(error),
        )
        self.module = __import__(MODULE, fromlist=["profile"])
        self.before = [getattr(self.module, name) for name in STARTS]
        self.profile.watch(self.module)

    def events(self):
        assert self.failures == []
        assert [getattr(self.module, name) for name in STARTS] == self.before
        return [event for event, _ in self.told]


def test_a_program_that_ends_inside_has_what_there_was(tmp_path):
    made = Recorded(tmp_path)
    made.profile.at(1)
    torch.ones(3).sum()
    made.profile.end()
    assert made.events() == ["artifact"]


def test_a_program_that_profiles_first_is_left_alone(tmp_path):
    made = Recorded(tmp_path)
    with torch.profiler.profile() as own:
        made.profile.at(1)
        torch.ones(3).sum()
    made.profile.at(2)
    assert made.events() == ["unprofiled"]
    assert "aten::sum" in [one.key for one in own.key_averages()]


def test_ours_gives_way_to_the_programs_own(tmp_path):
    made = Recorded(tmp_path)
    made.profile.at(1)
    with torch.profiler.profile() as own:
        torch.ones(3).sum()
    made.profile.at(3)
    assert made.events() == ["artifact", "unprofiled"]
    assert "aten::sum" in [one.key for one in own.key_averages()]


@pytest.mark.parametrize("base", [None, 1_000_000])
@pytest.mark.parametrize("behind", [False, True])
def test_times_count_from_the_moment_that_the_trace_names(base, behind):
    """PyTorch 2.4 names it behind the events."""
    made = TorchProfile.__new__(TorchProfile)
    made._clock, made._spans = (5_000_000, 2_000_000), [(2_001_000, 2_003_000, "forward")]
    about = {} if base is None else {"baseTimeNanoseconds": base}
    events = {"traceEvents": [{"ph": "X", "name": "theirs"}]}
    text = json.dumps(events | about if behind else about | events, indent=2)
    whole = json.loads(made._with_ours(text))
    assert whole["traceEvents"][0]["ts"] == (5_001_000 - (base or 0)) / 1000
    assert whole["traceEvents"][0]["dur"] == 2
