"""A loader inside the progress bar that everybody uses, as an installed library."""
from time import perf_counter

import torch
from torch.utils.data import DataLoader
from tqdm import tqdm

from parts import Net, Rows, tell

loader = DataLoader(Rows(40, nap=0.005), batch_size=4)
model = Net(backward=0.003)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
began = perf_counter()
for epoch in range(2):
    bar = tqdm(loader, desc=f"epoch {epoch}")
    for x, y in bar:  #: io pace
        loss = ((model(x) - y) ** 2).mean()  #: forward
        optimizer.zero_grad()
        loss.backward()  #: backward
        optimizer.step()  #: optimizer
        bar.set_postfix(loss=loss.item())
seconds = perf_counter() - began
naps = {"io": 0.02, "backward": 0.003}
tell(
    dict(steps=20, items=[4] * 20, fetches=1, updates=1, seconds=seconds, naps=naps, paced="loader"),
    verdict="input-bound",
)
