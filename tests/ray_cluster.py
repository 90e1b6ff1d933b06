"""Ray on this machine: its own multi-node test cluster, for tests of what runs on it."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
import time

import pytest

CLUSTER = """
import subprocess, sys
from ray.cluster_utils import Cluster

cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "node_name": "head"})
nodes = {}
for line in sys.stdin:
    do, name = line.split()
    if do == "add":
        nodes[name] = cluster.add_node(num_cpus=2, num_gpus=2, node_name=name)
    else:
        cluster.remove_node(nodes.pop(name), allow_graceful=False)
    print(cluster.address, flush=True)
cluster.shutdown()
"""
FAR = """
mount --bind {own} {far}
exec {ray} start --address={address} --node-name={name} --num-cpus=2 --num-gpus=0 --resources='{{"far": 2}}' \
    --disable-usage-stats --block
"""
STARTS = 180


class RayCluster:
    """A cluster with the nodes n1 and n2, of two cores and two GPUs in name each; the head runs no jobs."""

    def __init__(self, folder):
        self.folder = folder
        self.far = folder / "far"
        """A folder that the nodes a1 and a2 have for themselves."""
        self.far.mkdir()
        sample = {"load": 0.0, "memory_used": 0, "memory_total": 80 << 30, "processes": {}}
        gpus = [{"name": "Stand-in", "uuid": f"GPU-{n}", "samples": [sample]} for n in range(2)]
        (folder / "devices.json").write_text(json.dumps(gpus))
        own = {"INJECT_SCRIPTED_DEVICES": str(folder / "devices.json")}
        self.environ = os.environ | own | {"RAY_USAGE_STATS_ENABLED": "0"}
        self._log = (folder / "cluster.log").open("w")
        self._far_nodes = []
        self._process = subprocess.Popen(
            [sys.executable, "-c", CLUSTER],
            env=self.environ,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
        )
        self.address = ""
        for name in ("n1", "n2"):
            self.ask("add", name)

    def ask(self, do, name):
        """``add`` a node, or ``kill`` one."""
        self._process.stdin.write(f"{do} {name}\n")
        self._process.stdin.flush()
        self.address = self._process.stdout.readline().strip()
        assert self.address, (self.folder / "cluster.log").read_text()

    def add_far(self):
        """The nodes a1 and a2, each with a file system of its own at :attr:`far`."""
        for name in ("a1", "a2"):
            if (own := self.folder / name).exists():
                continue
            own.mkdir()
            ray = os.path.join(os.path.dirname(sys.executable), "ray")
            script = FAR.format(own=own, far=self.far, ray=ray, address=self.address, name=name)
            path = self.folder / f"{name}.log"
            with path.open("w") as log:
                words = ["unshare", "--mount", "sh", "-c", script]
                self._far_nodes.append(
                    subprocess.Popen(words, env=self.environ, stdout=log, stderr=log)
                )
            end = time.monotonic() + STARTS
            while "Ray runtime started" not in path.read_text():
                assert time.monotonic() < end, path.read_text()
                time.sleep(0.2)

    def close(self):
        for each in self._far_nodes:
            each.terminate()
        for each in self._far_nodes:
            each.wait(60)
        self._process.stdin.close()
        self._process.wait(60)
        self._log.close()


@pytest.fixture(scope="session")
def ray(tmp_path_factory):
    """A cluster of Ray."""
    if importlib.util.find_spec("ray") is None:
        pytest.skip("needs Ray: pip install 'overlay-injector[ray]'")
    made = RayCluster(tmp_path_factory.mktemp("ray"))
    try:
        yield made
    finally:
        made.close()


@pytest.fixture
def far(ray):
    """The same cluster with nodes that have file systems of their own."""
    if os.geteuid() != 0 or shutil.which("unshare") is None:
        pytest.skip("needs nodes with a file system of their own: namespaces are root's")
    ray.add_far()
    return ray
