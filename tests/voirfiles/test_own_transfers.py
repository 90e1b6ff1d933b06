"""What a program's own ``x.to(device)`` moves; torch's device without memory stands for a device."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap

import pytest
from search_path import search_path

from injector.analysis.profiling import profile
from injector.store.folder import open_run

pytest.importorskip("torch")

THERE = {"INJECT_ACCELERATOR": "1"}

MAIN = """
import os, sys
import torch
sys.path.append(os.path.join(os.path.dirname(__file__), "site-packages"))
import helper, library

def hooked(function):
    return any(":" in name for name in function.__code__.co_names)

class Held:
    "What a library makes of a batch: its method is written in Python."
    def __init__(self, **tensors):
        self.tensors = tensors

Held.to = library.to

def main():
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    device = torch.device("meta")
    for step in range(3):
        x, y = torch.ones(8, 4), torch.ones(8)
        a = x.to(device)
        b = (y
             .to(device, non_blocking=True)
             .to(torch.float64))
        x.to(torch.float64), x.to("cpu"), a.to(torch.float16)
        helper.send([x, y])
        library.send(x)
        held = Held(x=x, y=y).to(device)
        assert held.tensors["x"].device.type == "meta"
        try:
            x.to("nothing")
        except RuntimeError:
            pass
        model(x).sum().backward()
        optimizer.step()
    return torch.nn.Linear(2, 2).to(device)

main()
print(hooked(main), hooked(helper.send), hooked(library.send), hooked(torch.nn.Module.to))
"""
FILES = {
    "helper.py": """
        import torch
        def send(parts):
            first, second = parts
            return first.to("meta"), second.to("meta")
    """,
    "library.py": """
        def send(x):
            return x.to("meta")
        def to(self, device):
            return type(self)(**{name: each.to(device) for name, each in self.tensors.items()})
    """,
}


@pytest.fixture
def files(tmp_path):
    (tmp_path / "helper.py").write_text(textwrap.dedent(FILES["helper.py"]))
    (tmp_path / "site-packages").mkdir()
    (tmp_path / "site-packages" / "library.py").write_text(textwrap.dedent(FILES["library.py"]))
    return tmp_path


def lines(process, region="h2d"):
    """How often the region was recorded, by line and bytes."""
    found = {}
    for span in process.named(region):
        found[span.line, span.payload] = found.get((span.line, span.payload), 0) + 1
    return found


def line_of(text, source=MAIN):
    return source.split("\n").index(next(each for each in source.split("\n") if text in each)) + 1


# Before Python 3.11, a call of a method with keywords is at the line where its expression begins.
KEYWORDS = ".to(device, non_blocking" if sys.version_info >= (3, 11) else "b = (y"


def test_transfers_of_the_programs_own(run, files):
    done = run(MAIN, env=THERE)
    assert done.out.split() == ["True", "True", "False", "False"]
    assert lines(done.only) == {
        (line_of("a = x.to(device)"), 128): 3,
        (line_of(KEYWORDS), 32): 3,
        (5, 128): 3,  # of helper.py
        (5, 32): 3,
        (line_of("held = Held"), 160): 3,
    }
    assert not done.info["failures"] and not done.info["warnings"]


@pytest.mark.parametrize(
    ("options", "env"),
    [
        pytest.param(("--no-auto",), THERE, marks=pytest.mark.release),
        ((), {"INJECT_ACCELERATOR": "0"}),
    ],
)
def test_nothing_is_rewritten_where_no_one_asks_or_no_device_is(run, files, options, env):
    done = run(MAIN, *options, env=env)
    assert done.out.split() == ["False"] * 4
    assert not any(process.named("h2d") for process in done.processes)


ASKED = """
def instrument_transfers(ov):
    ov.region(
        ".to",
        "h2d",
        when=lambda self, result: getattr(result, "is_meta", False) and not self.is_meta,
        nbytes=7,
    )
    ov.region(".step", "update", what=lambda self: type(self).__name__)
    ov.region(".never_called", "nothing")
"""


@pytest.mark.release
def test_what_is_requested_takes_the_place_of_what_is_automatic(run, files):
    done = run(MAIN, "--voirfile", "x.py", files={"x.py": ASKED}, env={"INJECT_ACCELERATOR": "1"})
    assert lines(done.only) == {
        (line_of("a = x.to(device)"), 7): 3,
        (line_of(KEYWORDS), 7): 3,
        (5, 7): 6,
    }
    assert lines(done.only, "update") == {(line_of("optimizer.step()"), 0): 3}
    [miss] = done.info["misses"]
    assert miss["selector"] == ".never_called" and "no call of a method" in miss["reason"]
    probes = {probe["selector"]: probe for probe in done.info["probes"]}
    assert {place["line"] for place in probes[".to"]["places"] if place["function"] == "main"} >= {
        line_of("a = x.to(device)"),
        line_of(KEYWORDS),
    }
    assert not done.info["failures"]


def test_a_package_that_is_run_is_the_program(run, tmp_path):
    package = tmp_path / "site-packages" / "trainer"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("from .parts import send\n")
    (package / "parts.py").write_text('def send(x):\n    return x.to("meta")\n')
    (package / "__main__.py").write_text("import torch\nfrom . import send\nsend(torch.ones(3))\n")
    command = [
        sys.executable,
        "-m",
        "injector",
        "run",
        "--quiet",
        "--runs",
        "runs",
        "-m",
        "trainer",
    ]
    path = search_path(tmp_path / "site-packages")
    done = subprocess.run(
        command,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "PYTHONPATH": path, **THERE},
    )
    assert done.returncode == 0, done.stderr
    import recorded

    [process] = recorded.processes(next((tmp_path / "runs").iterdir()))
    assert lines(process) == {(2, 12): 1}


OTHER = """
class Distance:
    def __init__(self, metres): self.metres = metres
    def to(self, unit): return self.metres / {"m": 1, "km": 1000}[unit]

print(Distance(5).to("m"), [each.to("km") for each in [Distance(500)]])
Distance(1).to("mile")
"""


def test_a_program_of_other_things_is_none_the_wiser(run):
    done = run(OTHER, env=THERE, check=False)
    assert done.exit == 1 and done.out == "5.0 [0.5]\n"
    assert done.err.startswith("Traceback") and "injector" not in done.err.split("KeyError")[0]
    assert not done.info["failures"] and not done.info["warnings"]


SLOW = """
import time
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.data import DataLoader, TensorDataset

class SlowCopies(TorchDispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if func is torch.ops.aten._to_copy.default and kwargs.get("device") == torch.device("meta"):
            time.sleep(0.05)
        return func(*args, **(kwargs or {}))

def main():
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for x, y in DataLoader(TensorDataset(torch.ones(64, 4), torch.ones(64)), batch_size=8):
        there = x.to("meta")
        model(x).sum().backward()
        optimizer.step()

with SlowCopies():
    main()
"""


@pytest.mark.release
def test_a_loop_that_waits_for_its_transfers_is_transfer_bound(run):
    done = run(SLOW, env=THERE)
    found = profile(open_run(str(done.folder)))
    assert found is not None and found.verdict.kind == "transfer-bound"
    assert f"main.py:{line_of('there =', SLOW)}" in found.verdict.sentence
    [node] = [node for node in found.loops[0].tree.children if node.name == "h2d"]
    assert node.nbytes == 128 and node.calls == 1


PARITY = """
import inspect, traceback, warnings
import torch, torch.fx
from torch.overrides import TorchFunctionMode

def show():
    try:
        raise
    except Exception:
        traceback.print_exc()

x = torch.ones(3, dtype=torch.complex64)
y = x.to(torch.float32)  # torch warns, and of this line
warnings.warn("here")

class Listening(torch.Tensor):
    log = []
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        cls.log.append(getattr(func, "__name__", str(func)))
        return super().__torch_function__(func, types, args, kwargs or {})

torch.ones(3).as_subclass(Listening).to("meta")
print(Listening.log)

class Mode(TorchFunctionMode):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        print("mode", func.__name__)
        return func(*args, **(kwargs or {}))

with Mode():
    torch.Tensor.to(y, "meta"), y.to("meta")

def fails(*a, **k):
    for way in (
        lambda: (y
                 .to("nodevice")),
        lambda: y.to(*a, **k),
        lambda: [].to(1),
        lambda: (y.to("cpu")
                 .to("meta")
                 .cpu()),
        lambda: y.to(1 / 0),
    ):
        try:
            way()
        except Exception:
            traceback.print_exc()

fails(1, 2, 3, 4, 5, 6, x=3)
fails("cpu", foo=2)
print(inspect.getsource(fails)[:30], fails.__code__.co_varnames, sorted(locals()))

class Module(torch.nn.Module):
    def forward(self, t):
        return t.to(torch.float64).to("meta")

one = torch.ones(2)
compiled = torch.compile(lambda t: t.to(torch.float64).to("cpu") * 2, fullgraph=True, backend="eager")
print(compiled(one), torch._dynamo.explain(lambda t: t.to(torch.float64).cos())(one).graph_count)
print(torch.fx.symbolic_trace(Module()).code)
print(torch.jit.trace(Module(), one).code)
print(torch.jit.script(Module()).code)
print(torch.export.export(Module(), (one,), strict=False).graph)
print(torch.export.export(Module(), (one,), strict=True).graph)
"""


def test_no_one_can_tell(tmp_path):
    (tmp_path / "main.py").write_text(PARITY)
    env = {**os.environ, "PYTHONPATH": search_path(), "OMP_NUM_THREADS": "1"}

    def ran(*before, **more):
        done = subprocess.run(
            [sys.executable, *before, "main.py"],
            cwd=tmp_path,
            env={**env, **more},
            capture_output=True,
            text=True,
            timeout=300,
        )
        return done.returncode, done.stdout, done.stderr

    plain = ran()
    assert plain[0] == 0 and plain[2].count("Traceback") == 10 and "graph(" in plain[1]
    before = ("-m", "injector", "run", "--quiet", "--runs", "runs")
    assert ran(*before, **THERE) == plain
    log = next((tmp_path / "runs").glob("*/raw/*.log")).read_text()
    assert '"region":"h2d"' in log
