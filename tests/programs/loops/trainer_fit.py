"""`fit` of a trainer that stands in another module."""
from time import perf_counter

import torch

from little_trainer import Trainer
from parts import Net, Rows, tell

model = Net(forward=0.002, backward=0.002)
trainer = Trainer(model, torch.optim.SGD(model.parameters(), lr=0.01))
began = perf_counter()
trainer.fit(Rows(40, nap=0.005), epochs=2, valid=Rows(8))
seconds = perf_counter() - began
naps = {"io": 0.02, "forward": 0.002, "backward": 0.002}
tell(
    dict(steps=20, items=[4] * 20, fetches=1, updates=1, seconds=seconds, naps=naps, paced="loader"),
    evaluation=dict(passes=2, batches=4, items=16, seconds=seconds, least=0.008, inside=True),
    verdict="input-bound",
    lines="little_trainer.py",
)
