"""Ranks, collectives and the waiting of DDP, over gloo."""

from __future__ import annotations

import sys

import pytest

from injector.analysis.profiling import profile
from injector.store.folder import open_run

torch = pytest.importorskip("torch")
if not torch.distributed.is_available():
    pytest.skip("this PyTorch has no torch.distributed", allow_module_level=True)

START = """
child = os.fork()
main(0 if child else 1)
assert not child or os.waitpid(child, 0)[1] == 0
"""
"""The program and its copy are the ranks: PyTorch starts once. Launchers are tested below and elsewhere."""

REPLICAS = """
import os, time
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

def main(rank):
    store = dist.FileStore(os.path.abspath("store"), 2)
    dist.init_process_group("gloo", rank=rank, world_size=2, store=store)
    model = DistributedDataParallel(torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Linear(8, 1)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for step in range(6):
        if rank == 1:
            time.sleep(0.2)
        loss = model(torch.ones(4, 8)).sum()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    with model.no_sync():
        model(torch.ones(4, 8)).sum().backward()
    numbers = torch.ones(10)
    dist.all_reduce(numbers)
    dist.broadcast(numbers, 0)
    gathered = [torch.zeros(10) for _ in range(2)]
    dist.all_gather(gathered, numbers)
    found = [None, None]
    dist.all_gather_object(found, {"rank": rank})
    if rank == 0:
        dist.send(numbers, 1)
    else:
        dist.recv(numbers, 0)
    dist.barrier()
    dist.destroy_process_group()
"""

TORCHRUN = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")
GRADIENTS = "DDP's gradients"
PARAMETERS = 4 * (8 * 8 + 8 + 8 + 1)


def test_the_fast_rank_waits_for_the_slow_one(run):
    done = run(REPLICAS + START)
    fast, slow = (process for process in done.processes if process.spans)
    assert (fast.rank, slow.rank) == (0, 1)
    for process in (fast, slow):
        waits = [span for span in process.named("comm") if span.what == GRADIENTS]
        assert len(waits) == 6 and {span.payload for span in waits} == {PARAMETERS}
        backwards = process.named("backward")
        assert len(backwards) == 7, "without a synchronisation there is a backward, and no waiting"
        for wait, backward in zip(waits, backwards, strict=False):
            assert backward.start <= wait.start <= wait.end <= backward.end
            assert wait.line == backward.line
        others = [(s.what, s.payload) for s in process.named("comm") if s.what != GRADIENTS]
        talk = "send" if process is fast else "recv"
        assert others == [
            ("DDP's parameters", 0),
            ("all_reduce", 40),
            ("broadcast", 40),
            ("all_gather", 80),
            ("all_gather_object", 0),
            (talk, 40),
            ("barrier", 0),
        ]
        models = {span.what for span in process.named("forward")}
        assert models == {"DistributedDataParallel of Sequential"}

    def waited(process):
        return sum(s.end - s.start for s in process.named("comm") if s.what == GRADIENTS)

    # A step of the slow rank is 200 ms longer, in which the fast one has nothing to do but to wait.
    assert waited(fast) > 2 * waited(slow)
    assert not done.info["failures"] and not done.info["warnings"]


COMPRESSED = """
    from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import fp16_compress_hook
    model.register_comm_hook(None, fp16_compress_hook)
"""


def test_bytes_of_gradients_that_a_hook_exchanges_are_counted_once(run):
    head, optimizer, tail = REPLICAS.partition("    optimizer =")
    done = run(head + COMPRESSED + optimizer + tail.replace("sleep(0.2)", "sleep(0)") + START)
    for process in (process for process in done.processes if process.spans):
        for backward in process.named("backward")[:6]:
            inside = [s for s in process.named("comm") if backward.start <= s.start <= backward.end]
            assert GRADIENTS in {span.what for span in inside}
            assert sum(span.payload for span in inside) == PARAMETERS / 2
    assert not done.info["failures"] and not done.info["warnings"]


SPAWNED = """
import os
import torch
import torch.distributed as dist
import torch.multiprocessing as mp

def work(rank, world, port):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="0")
    store = dist.FileStore(port, world)
    dist.init_process_group("gloo", rank=rank, world_size=world, store=store)
    numbers = torch.ones(2, 3)
    dist.reduce(numbers, 0)
    work = dist.all_reduce(numbers, async_op=True)
    work.wait()
    dist.destroy_process_group()

if __name__ == "__main__":
    mp.spawn(work, args=(2, os.path.abspath("store")), nprocs=2)
"""


@pytest.mark.release
def test_spawned_ranks(run):
    found = [process for process in run(SPAWNED).processes if process.spans]
    assert [process.rank for process in found] == [0, 1]
    for process in found:
        found = [(span.what, span.payload) for span in process.named("comm")]
        assert found == [("reduce", 24), ("all_reduce", 24), ("wait", 0)]


FAILING = """
import torch.multiprocessing as mp

def work(rank):
    try:
        {}
    except KeyError:
        raise SystemExit(1)

if __name__ == "__main__":
    mp.spawn(work, nprocs=1)
"""


@pytest.mark.parametrize(
    ("statement", "error"),
    [
        ('raise ValueError("no luck")', "ValueError: no luck"),
        pytest.param('raise KeyError("of its own")', None, marks=pytest.mark.release),
    ],
)
def test_a_spawned_rank_that_raises_has_its_exception(run, statement, error):
    done = run(FAILING.format(statement), check=False)
    assert done.exit == 1
    _, rank = done.info["processes"]
    assert (rank["error"], rank["exit"]["code"]) == (error, 1)
    assert not done.info["failures"]


SHARDED = """
import os, torch
import torch.distributed as dist
from torch.distributed.fsdp import fully_shard, FullyShardedDataParallel

def main(rank):
    store = dist.FileStore(os.path.abspath("store"), 2)
    dist.init_process_group("gloo", rank=rank, world_size=2, store=store)
    from torch.distributed.device_mesh import init_device_mesh
    mesh = init_device_mesh("cpu", (2,))
    model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Linear(8, 2))
    for layer in model:
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(2):
        model(torch.ones(4, 8)).sum().backward()
        optimizer.step()
    dist.destroy_process_group()
"""


def test_sharded_models_communicate_inside_of_forward_and_backward(run):
    pytest.importorskip("torch.distributed.fsdp", exc_type=ImportError)
    if not hasattr(sys.modules["torch.distributed.fsdp"], "fully_shard"):
        pytest.skip("this PyTorch has no fully_shard")
    done = run(SHARDED + START, check=False)
    if done.exit:
        pytest.skip("fully_shard does not work on the CPU here")
    for process in (process for process in done.processes if process.spans):
        assert len(process.named("forward")) == 2 and len(process.named("optimizer")) == 2
        gathers = [s for s in process.named("comm") if (s.what or "").startswith("all_gather")]
        reduces = [s for s in process.named("comm") if (s.what or "").startswith("reduce_scatter")]
        assert len(gathers) >= 4 and len(reduces) >= 4 and all(s.payload for s in gathers + reduces)
        inside = process.named("forward", "backward")
        for span in gathers:
            assert any(s.start <= span.start and span.end <= s.end for s in inside)


PARALLEL = """
import os, torch
import torch.distributed as dist

def main(rank):
    store = dist.FileStore(os.path.abspath("store"), 2)
    dist.init_process_group("gloo", rank=rank, world_size=2, store=store)
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import parallel
    import torch.distributed._functional_collectives as functional
    model = torch.nn.Sequential(torch.nn.Linear(8, 6), torch.nn.ReLU(), torch.nn.Linear(6, 2))
    plan = {"0": parallel.ColwiseParallel(), "2": parallel.RowwiseParallel()}
    mesh = init_device_mesh("cpu", (2,))
    model = parallel.parallelize_module(model, mesh, plan)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(3):
        model(torch.ones(4, 8)).sum().backward()
        optimizer.step()
    graphs = []

    def backend(graph, examples):
        graphs.append(graph)
        return graph.forward

    @torch.compile(backend=backend)
    def summed(x):
        return functional.wait_tensor(functional.all_reduce(x * 2, "sum", mesh))

    total = [summed(torch.ones(4)).tolist() for _ in range(2)]
    assert (len(graphs), total) == (1, [[4.0] * 4] * 2)
    dist.destroy_process_group()
"""


def claims_no_items(done):
    """All ranks see the same batches: added up, their items would be too many."""
    [loop] = profile(open_run(str(done.folder))).loops
    assert (loop.steps, len(loop.ranks), loop.throughput.items) == (3, 2, None)
    assert "share batches" in loop.throughput.why_no_items


def test_tensor_parallel_models_communicate_inside_of_forward_and_wait_outside(run):
    """What a layer gives is waited for where it is first used: here in the loss."""
    pytest.importorskip("torch.distributed.tensor.parallel", exc_type=ImportError)
    done = run(PARALLEL + START, check=False)
    if done.exit:
        pytest.skip("tensor parallelism does not work on the CPU here")
    assert not done.info["warnings"]
    for process in (process for process in done.processes if process.spans):
        reduces = [span for span in process.named("comm") if span.what == "all_reduce"]
        waits = [span for span in process.named("comm") if span.what == "wait_tensor"]
        assert [span.payload for span in reduces] == [4 * 4 * 2] * 3
        assert len(waits) == 3, "once a step, and never where a compiler traces"
        inside = process.named("forward")
        for span in reduces:
            assert any(one.start <= span.start and span.end <= one.end for one in inside)
        for span in waits:
            assert not any(one.start <= span.start and span.end <= one.end for one in inside)
    claims_no_items(done)


PIPELINE = """
import os, torch
import torch.distributed as dist
from torch.distributed import pipelining

def main(rank):
    store = dist.FileStore(os.path.abspath("store"), 2)
    dist.init_process_group("gloo", rank=rank, world_size=2, store=store)
    model = torch.nn.Linear(8, 2 if rank else 8)
    stage = pipelining.PipelineStage(model, rank, 2, torch.device("cpu"))
    schedule = pipelining.ScheduleGPipe(stage, 2, loss_fn=torch.nn.functional.mse_loss)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(3):
        if rank:
            schedule.step(target=torch.ones(4, 2))
        else:
            schedule.step(torch.ones(4, 8))
        optimizer.step()
    dist.destroy_process_group()
"""


def test_the_stages_of_a_pipeline_wait_for_each_other(run):
    schedules = pytest.importorskip("torch.distributed.pipelining.schedules")
    if not hasattr(schedules, "_wait_batch_p2p"):
        pytest.skip("this version waits in another way")
    done = run(PIPELINE + START, check=False)
    if done.exit:
        pytest.skip("pipelines do not work on the CPU here")
    assert not done.info["warnings"]
    for process in (process for process in done.processes if process.spans):
        waits = [span for span in process.named("comm") if span.what == "wait"]
        # Each stage waits for what it receives and for what it has sent, two parts of the batch in each step.
        assert len(waits) == 3 * 2 * 2
    claims_no_items(done)


WRAPPED = """
import threading
import torch
import torch.distributed as dist
from torch.distributed.fsdp import FullyShardedDataParallel

def wrap(module):
    return FullyShardedDataParallel(module, device_id=torch.device("cpu"))

def main():
    dist.init_process_group("gloo")
    inner = wrap(torch.nn.Linear(8, 8))
    model = wrap(torch.nn.Sequential(inner, torch.nn.Linear(8, 2)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(2):
        model(torch.ones(4, 8)).sum().backward()
        optimizer.step()
    numbers = torch.ones(10)
    other = 1 - dist.get_rank()
    for request in dist.isend(numbers, other), dist.irecv(torch.zeros(10), other):
        request.wait()
    event = threading.Event()
    event.set()
    event.wait()
    dist.destroy_process_group()

main()
"""


@pytest.mark.release
def test_the_older_sharding_and_requests_that_are_waited_for(run):
    done = run(WRAPPED, before=TORCHRUN)
    ranks = [process for process in done.processes if process.spans]
    assert [process.rank for process in ranks] == [0, 1]
    for process in ranks:
        assert len(process.named("forward")) == 2 and len(process.named("optimizer")) == 2
        comm = process.named("comm")
        gathers = [span for span in comm if (span.what or "").startswith("all_gather")]
        reduces = [span for span in comm if (span.what or "").startswith("reduce_scatter")]
        assert len(gathers) >= 4 and len(reduces) == 4 and all(s.payload for s in gathers + reduces)
        inside = process.named("forward", "backward")
        for span in gathers + reduces:
            assert any(s.start <= span.start and span.end <= s.end for s in inside)
        waits = [span for span in comm if span.what == "wait"]
        assert [span.line for span in waits] == [21, 21], "an event of threads is no request"
    assert not done.info["failures"] and not done.info["warnings"]
