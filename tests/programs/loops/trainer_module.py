"""A trainer that is a module, and trains where it is called: its own call is no forward of a step."""
from time import perf_counter

import torch

from little_trainer import Trainer
from parts import Net, Rows, tell


class Training(torch.nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model
        self.trainer = Trainer(model, torch.optim.SGD(model.parameters(), lr=0.01))

    def forward(self, rows, epochs, valid):
        return self.trainer.fit(rows, epochs=epochs, valid=valid)


training = Training(Net(forward=0.02, backward=0.002))
began = perf_counter()
training(Rows(40), 2, Rows(8))
seconds = perf_counter() - began
tell(
    dict(steps=20, items=[4] * 20, fetches=1, updates=1, seconds=seconds, naps={"forward": 0.02, "backward": 0.002},
         paced="loader"),
    evaluation=dict(passes=2, batches=4, items=16, seconds=seconds, least=0.08, inside=True),
    verdict="compute-bound",
    lines="little_trainer.py",
)
