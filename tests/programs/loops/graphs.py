"""Batches of which nobody can say how many items they hold."""
from time import perf_counter

import torch
from torch import nn

from parts import Net, tell


class Graph:
    """Nodes and edges, many graphs in one."""

    __slots__ = ("edges", "nodes")

    def __init__(self, nodes, edges):
        self.nodes, self.edges = nodes, edges


class Conv(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = Net(forward=0.006, backward=0.006)

    def forward(self, graph):
        x = graph.nodes.index_add(0, graph.edges[1], graph.nodes[graph.edges[0]])
        return self.net(x).mean()


model = Conv()
optimizer = torch.optim.Adam(model.parameters())
graphs = [Graph(torch.randn(20 + i, 8), torch.randint(0, 20, (2, 60))) for i in range(8)]
began = perf_counter()
for epoch in range(3):
    for graph in graphs:
        loss = model(graph).pow(2)  #: forward
        optimizer.zero_grad()
        loss.backward()  #: backward
        optimizer.step()  #: optimizer pace
seconds = perf_counter() - began
naps = {"forward": 0.006, "backward": 0.006}
tell(
    dict(steps=24, items="unknown", fetches=0, updates=1, seconds=seconds, naps=naps, paced="optimizer"),
    verdict="compute-bound",
)
