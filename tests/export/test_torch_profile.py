"""``--torch-profile``: some steps under torch.profiler, in the run folder and in the trace of Perfetto."""

from __future__ import annotations

import gzip
import json

import pytest

from injector.measure.torch_profile import MODULE, STARTS, TorchProfile

torch = pytest.importorskip("torch")
pytest.importorskip("perfetto")
from test_perfetto import Read  # noqa: E402

PROGRAM = """
import sys, time, torch
from torch.utils.data import DataLoader, TensorDataset
from injector import Timer

rows = TensorDataset(torch.randn(40, 4), torch.randn(40, 1))
model = torch.nn.Linear(4, 1)
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
print("end")
"""


@pytest.fixture(scope="module")
def profiled(tmp_path_factory, run_inject):
    folder = tmp_path_factory.mktemp("profiled")
    (folder / "train.py").write_text(PROGRAM)
    done = run_inject(folder, "run", "--into", "r", "--torch-profile", "3:6", "train.py")
    assert (done.returncode, done.stdout) == (0, "end\n"), done.stderr
    return folder, done.stderr


@pytest.fixture(scope="module")
def trace(profiled):
    [path] = (profiled[0] / "r" / "artifacts" / "profiles").iterdir()
    return json.loads(gzip.decompress(path.read_bytes()))


@pytest.fixture(scope="module")
def merged(profiled, export):
    done = export(profiled[0], "r", "--to", "perfetto", "-o", "t.pftrace")
    assert done.returncode == 0, done.stderr
    return Read(profiled[0] / "t.pftrace")


def test_those_steps_and_no_others_are_recorded(trace):
    turns = [one["name"] for one in trace["traceEvents"] if one["name"].startswith("turn")]
    assert turns == ["turn 3", "turn 4", "turn 5"]


def test_the_file_is_in_report_and_seal(profiled):
    folder, report = profiled
    name = "profiles/rank_0.pt.trace.json.gz"
    info = json.loads((folder / "r" / "run.json").read_text())
    assert name in report and [one["name"] for one in info["artifacts"]] == [name]
    assert f"artifacts/{name}" in info["files"]
    assert info["warnings"] == []


def test_our_regions_are_in_the_file(trace):
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


def test_perfetto_has_both_on_one_clock(merged):
    [regions] = [name for name in merged.slices if name.endswith(": regions")]
    ours = [one[1:3] for one in merged.slices[regions] if one[0] == "mine"]
    torchs = [name for name in merged.slices if ": torch.profiler: " in name]
    theirs = [one[1:3] for name in torchs for one in merged.slices[name] if one[0] == "mine"]
    assert len(ours) == 10
    _overlap(sorted(ours)[3:6], theirs)
    assert not any(one[0] == "optimizer" for name in torchs for one in merged.slices[name])


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
